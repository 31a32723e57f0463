# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   rlkit:
#     title: "Break the verifier"
#     promise: >-
#       You will break a verifier by hand, watch an optimiser find a hole that you may have
#       missed, and close all of them.
#     minutes: {fast: 1, full: 2}
#     memory_mb: 1200
#     needs:
#       - to read Python, and to have seen a syntax tree once
#       - lesson 00; lesson 02 helps
#     objectives:
#       - say why a reward near 1 proves nothing, and what to measure beside it
#       - break a verifier that uses a pattern and `eval`, in a sandbox
#       - write a verifier that walks a syntax tree, and score it with forty attacks
#       - write a canary test and an alarm for the gap between reward and truth
#     recap:
#       - A verifier is a program, and the optimiser reads it more closely than you do.
#       - It finds the holes that lie near what the model does anyway, not the clever ones.
#       - Measure a truth that is never trained on, on problems that are never trained on.
#       - Closing a hole does not repair a policy that was trained through it.
#     sources:
#       - >-
#         Goodhart's law for optimisers: Manheim and Garrabrant, *Categorizing variants of
#         Goodhart's law*, [arXiv 1803.04585](https://arxiv.org/abs/1803.04585)
#       - >-
#         Proxy against truth as optimisation goes on: Gao, Schulman and Hilton, *Scaling laws for
#         reward model overoptimization*, [arXiv 2210.10760](https://arxiv.org/abs/2210.10760)
#       - >-
#         Names for what goes wrong: Amodei et al., *Concrete problems in AI safety*,
#         [arXiv 1606.06565](https://arxiv.org/abs/1606.06565)
#       - >-
#         GRPO: Shao et al., *DeepSeekMath*,
#         [arXiv 2402.03300](https://arxiv.org/abs/2402.03300)
# ---

# %% [markdown]
# ## 1. A question first
#
# *Countdown* is a game: use each of the given numbers once, with `+ - * /` and brackets, to make
# a target. A *verifier* is a reward that pays 1 for a right answer and 0 for any other.
#
# We will train on a verifier that has a hole, until it pays nearly every answer. Meanwhile we
# also count the answers that are *really* right, on problems that are never trained on: the
# *truth*. At the start about a third is right.

# %% tags=["setup"]
import ast
from fractions import Fraction
from operator import add, mul, sub, truediv

from rlkit import lab
from rlkit.rewards import countdown_answer, verifier_gap
from rlkit.rewards.countdown_holes import ATTACKS, HONEST
from rlkit.rewards.sandboxed import SandboxedVerifier

STEPS = lessons.pick(fast=36, full=60)  # updates of each run
HELD_OUT = lessons.pick(fast=100, full=200)  # never trained on
guess = lesson.predict(
    "truth_at_the_end",
    f"After {STEPS} updates the verifier pays more than 9 answers of 10. "
    "What share of them is really right?",
    low=0,
    high=1,
    unit="share of answers",
)
guess

# %% [markdown]
# ## 2. The verifier
#
# It is written as many are: take the text in the answer tags, check it with a pattern, look at
# the numbers, `eval` the rest. It also gets a known solution, to save work. Read it slowly.
# **It has at least three holes.**
#
# It is kept as text, for it must not run in this process: `eval` of what a model wrote is running
# code that a stranger sent. `SandboxedVerifier` makes each call in the sandbox, with one second
# for a whole batch.

# %% tags=["setup"]
CARELESS = r"""
import re

def verify(answer, numbers, target, solution):
    if answer in solution:  # the known solution: nothing to work out
        return True
    if not re.fullmatch(r"[\d+\-*/(). ]+", answer):
        return False
    used = [int(number) for number in re.findall(r"\d+", answer)]
    if sorted(used) != sorted(numbers):
        return False
    return eval(answer) == target
"""
COLUMNS = ["numbers", "target", "solution"]
careless = SandboxedVerifier(CARELESS, COLUMNS, "careless")


# %% tags=["setup"]


def attempt(answers, verifier=careless, numbers=(7, 4, 2), target=9):
    """Prints what a verifier pays for answers, and what is right."""
    n = len(answers)
    columns = {"numbers": [numbers] * n, "target": [target] * n}
    columns["solution"] = ["7 + 4 - 2"] * n
    texts = [f"<answer>{answer}</answer>" for answer in answers]
    rows = verifier.with_truth(countdown_answer)
    rows = rows.score(completions=texts, **columns)
    for answer, row in zip(answers, rows, strict=True):
        wrong = "" if row.value == row.truth else "   <-- a hole"
        print(f"{answer:<22} paid {row.value}  right {row.truth}{wrong}")
    return rows


_ = attempt(["7 + 4 - 2", "4 - 2 + 7", "7 + 4 + 2", "9", "12 - 3"])

# %% [markdown]
# So far, so good: two right answers in two forms are paid, three wrong ones are not.
#
# ### Exercise 1: be the optimiser
#
# The rules allow `+ - * /` and brackets. The pattern allows every *text* of those characters.
# Find an answer to the same problem, 7, 4 and 2 to make 9, that is paid because of that
# difference. `attempt(["..."])` tries one.

# %% tags=["exercise"] exercise="by_hand"
paid_but_wrong = ...  # TODO: an answer, as a text
lesson.check("by_hand", paid_but_wrong)

# %% tags=["solution"] exercise="by_hand"
# Two allowed characters make an operator that is not: ** is a power.
paid_but_wrong = "2 ** 4 - 7"

# %% tags=["checks"] exercise="by_hand"
from rlkit.lessons import Exercise, Property, holds
from rlkit.rewards.countdown_holes import CARELESS_VERIFIER
from rlkit.rewards.sandboxed import SandboxedVerifier
from rlkit.tasks.countdown import verify_countdown


def is_wrong(answer):
    holds(isinstance(answer, str), "an answer is a text, in quotes")
    right, _ = verify_countdown(answer, [7, 4, 2], 9)
    holds(not right, f"{answer!r} is right by the rules: it earns its pay")


def uses_the_pattern(answer):
    short = answer not in "7 + 4 - 2"
    holds(short, f"{answer!r} is paid, but by another hole: see section 5")


def is_paid(answer):
    columns = ["numbers", "target", "solution"]
    verifier = SandboxedVerifier(CARELESS_VERIFIER, columns)
    (row,) = verifier.score(
        completions=[f"<answer>{answer}</answer>"],
        numbers=[[7, 4, 2]],
        target=[9],
        solution=["7 + 4 - 2"],
    )
    holds(row.value == 1, f"{answer!r} is not paid: {row.reason}")


EXERCISE = Exercise(
    "by_hand",
    title="Paid, but wrong",
    hints=(
        "Which operators can be spelled with the characters + - * / ?",
        "Two of the same character stand for a power, or for a division "
        "without its rest.",
        "What is 2 to the power of 4? And 7 less than that?",
    ),
    where="here",
    wants="value",
    properties=[
        Property("it breaks the rules", is_wrong),
        Property("it goes through the pattern", uses_the_pattern),
        Property("the careless verifier pays it", is_paid),
    ],
    right="The pattern looks at characters; the rules speak of operators.",
)

# %% tags=["wrong"] exercise="by_hand" says="it earns its pay"
paid_but_wrong = "(7 + 4) - 2"

# %% tags=["wrong"] exercise="by_hand" says="is not paid"
paid_but_wrong = "2 ** 4 - 6"

# %% tags=["wrong"] exercise="by_hand" says="by another hole"
paid_but_wrong = "7"

# %% [markdown]
# ### An answer that never ends
#
# The same operator has a worse use. What happens when a model writes a tower of powers? In a
# trainer that calls `eval` itself, the run would stand still, and no error would say why. Here
# the call is stopped, paid nothing, and its neighbours in the batch are judged all the same.

# %%
import time

began = time.perf_counter()
rows = attempt(
    ["14 ** 13 ** 12", "14 - 13 + 12", "13 + 12 + 14"],
    numbers=(14, 13, 12),
    target=13,
)
print(
    f"{time.perf_counter() - began:.1f} s;", rows[0].status, rows[0].reason
)
assert [row.value for row in rows] == [0.0, 1.0, 0.0]

# %% [markdown]
# ## 3. What the policy does before
#
# You found `**` by thinking. An optimiser does not think: it *draws* answers and asks for more of
# what was paid. So what does `tiny` draw? We gather its answers by the *shape* of their syntax
# tree, with every number as `N`. Parsing a text does not run it.


# %%
class Nameless(ast.NodeTransformer):
    def visit_Constant(self, node):
        return ast.Name("N")


def shape(answer):
    """An expression with every number as N."""
    return ast.unparse(Nameless().visit(ast.parse(answer, mode="eval")))


print(shape("3 + 11 - 14"), " and ", shape("(7 + 4) ** 2"))

# %%
SEED = 4
lora = rlkit.LoraSpec()
policy = rlkit.Policy.load("tiny", quantize="nf4", lora=lora, seed=SEED)
untouched = policy.snapshot()  # the adapter, to come back to
at_first = policy.state_dict()  # and where its random draws stand
held_out = rlkit.get_domain("countdown").held_out(HELD_OUT)


def ask(reward):
    """What a reward pays on held-out problems, and what is right."""
    now = policy.state_dict()
    groups = policy.generate(held_out, 1, 24)
    policy.load_state_dict(now)  # asking changes no training step
    rollouts = rlkit.policy.flatten(groups)
    known = {n: [r.problem.columns[n] for r in rollouts] for n in COLUMNS}
    texts = [rollout.text for rollout in rollouts]
    rows = reward.with_truth(countdown_answer)
    return texts, rows.score(completions=texts, **known)


# %%
from rlkit.lab.answer_shapes import AnswerShapes


def shapes_of(texts, rows, heading):
    paid = [row.value for row in rows]
    right = [row.truth for row in rows]
    return AnswerShapes.gather(texts, paid, right, heading=heading)


texts, rows = ask(careless)
before = verifier_gap(rows)
print({name: f"{value:.2f}" for name, value in before.items()})
shapes_of(texts, rows, "Before training")

# %% [markdown]
# No power anywhere. `tiny` was taught right answers and four kinds of slips: a wrong sign, a
# number left out, a number too many, missing tags. What it never draws can never be paid, so the
# `**` hole is safe from *this* policy. But look at the column *paid* beside *right*, in the
# shapes that are too short. A few are paid, and none is right.
#
# ## 4. Let the optimiser look
#
# The same loop as in lesson 00, on countdown, with the careless verifier as its reward. The panel
# draws the *reward* and the *pass rate*: the pass rate comes from the task's own verifier, which
# nothing is trained on.


# %%
def new_loop(reward):
    policy.restore(untouched)
    policy.load_state_dict(at_first)
    config = rlkit.LoopConfig(
        problems_per_step=12, group_size=8, learning_rate=4e-3, seed=SEED
    )
    return rlkit.ClosedLoop(
        policy, ["countdown"], config=config, reward=reward
    )


loop = new_loop(careless)
panel = lab.Dashboard(loop)
panel

# %%
from rlkit.lab.drawing import line_figure


def two_curves(history, title):
    return line_figure(
        history,
        [],
        title,
        "share of answers",
        [("paid (proxy)", "reward"), ("right (truth)", "pass_rate")],
        "What is paid and what is right of each step's answers.",
        share=True,
    )


run = lab.start(loop, STEPS)
run.wait()
panel.wait()  # until no step is under way
texts, rows = ask(careless)
hacked = verifier_gap(rows)
print({name: f"{value:.2f}" for name, value in hacked.items()})
figure = two_curves(run.history, "Trained on the careless verifier")
guess.reveal(figure, hacked["truth"])

# %% [markdown]
# The reward is near 1, and **nothing is right any more**. Follow the two lines: at first they
# swing together. Then the truth falls while the reward still wavers, and only afterwards does the
# reward leap. Whoever watches the reward alone sees a model that has finally understood.
#
# ## 5. Read what it wrote

# %%
shapes = shapes_of(texts, rows, "After training")
for exploit in shapes.exploits():
    print(
        f"{exploit.shape}: {exploit.answer!r}, {exploit.share:.0%} of all"
    )
shapes

# %% [markdown]
# One number, copied from the question. Why is that paid? Look at the second line of the verifier:
# `if answer in solution`. For two texts, `in` asks whether the first is a *part* of the second,
# and `"7"` is a part of `"7 + 4 - 2"`. One word, `in` for `==`. An empty answer is a part, too;
# some runs find that as well.
#
# Why this hole, and not the others? Leaving a number out is a slip that `tiny` was taught. It pays
# now and then; with two numbers it pays more often; with one it pays always. Each step of that
# stair is close to the last. We also tried four other holes: the last number is believed, the
# target anywhere counts, only the value is looked at, the target's digits count. In 80 updates
# none of them was found, and the truth rose. They need a skill that `tiny` does not have: to copy
# the target. **An optimiser finds holes that lie near what the policy already does.** A stronger
# policy does more, so it finds more.
#
# ## 6. Close the holes
#
# ### Exercise 2: a verifier that walks the tree
#
# Parse the answer with `ast.parse(..., mode="eval")`, and walk: a number, a minus, or one of four
# operators. Whatever you do not know is refused. Forty attacks are tried, and twelve honest
# answers must be kept; the share of attacks that are refused is its *mutation score*. It runs in
# the sandbox. `Fraction` divides without rounding; `add, sub, mul, truediv` are there.


# %% tags=["exercise"] exercise="ast_verify"
def ast_verify(answer, numbers, target):
    """True if the answer uses each number once and makes the target."""

    def value(node):
        return ...  # TODO: the value of a node, as a Fraction

    return ...  # TODO: parse, walk, compare numbers and target


lesson.check("ast_verify", ast_verify)


# %% tags=["solution"] exercise="ast_verify"
def ast_verify(answer, numbers, target):
    """True if the answer uses each number once and makes the target."""
    known = {"Add": add, "Sub": sub, "Mult": mul, "Div": truediv}
    used = []

    def value(node):
        if isinstance(node, ast.BinOp):
            operation = known[type(node.op).__name__]
            return operation(value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -value(node.operand)
        if isinstance(node, ast.Constant) and type(node.value) is int:
            used.append(node.value)
            return Fraction(node.value)
        raise ValueError

    if len(answer) > 100 or set(answer) - set("0123456789+-*/() "):
        return False
    try:
        result = value(ast.parse(answer.strip(), mode="eval").body)
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError):
        return False
    return sorted(used) == sorted(numbers) and result == target


# %% tags=["checks"] exercise="ast_verify"
from rlkit.lessons import Exercise, Property, holds
from rlkit.rewards.countdown_holes import ATTACKS, HONEST

NAMES = {(a.answer, a.numbers, a.target): a.name for a in ATTACKS}
NERVES = 3  # the last attacks try to break it, not to fool it


def calls(attempts):
    return [(a.answer, list(a.numbers), a.target) for a in attempts]


def a_truth_value(value, *_):
    holds(isinstance(value, bool), f"it gives {value!r}, not True or False")


def kept(value, answer, numbers, target):
    holds(value is True, f"{answer!r} is right and was refused")


def refused(value, answer, numbers, target):
    name = NAMES[answer, tuple(numbers), target]
    holds(value is False, f"it was paid, and is wrong: {name}")


EXERCISE = Exercise(
    "ast_verify",
    title="A verifier that walks the tree",
    hints=(
        "Three kinds of nodes are allowed: ast.Constant with an int, "
        "ast.UnaryOp with ast.USub, ast.BinOp with one of four operators. "
        "Raise ValueError for every other.",
        "Collect the numbers while you walk, and compare them sorted. "
        "Before you parse, refuse what is long or has other characters; "
        "catch SyntaxError, ValueError and ZeroDivisionError.",
        "`known = {'Add': add, 'Sub': sub, 'Mult': mul, 'Div': truediv}`, "
        "then `known[type(node.op).__name__](value(node.left), "
        "value(node.right))`, and catch KeyError.",
    ),
    where="sandbox",
    properties=[
        Property("it says True or False", a_truth_value, calls(HONEST[:2])),
        Property("it keeps every honest answer", kept, calls(HONEST)),
        Property("it refuses attacks", refused, calls(ATTACKS[:-NERVES])),
        Property("it keeps its nerves", refused, calls(ATTACKS[-NERVES:])),
    ],
    right="Mutation score 40 of 40, and 12 of 12 honest answers kept.",
)


# %% tags=["wrong"] exercise="ast_verify" says="is right and was refused"
def ast_verify(answer, numbers, target):
    return False


# %% tags=["wrong"] exercise="ast_verify" says="it was paid, and is wrong"
def ast_verify(answer, numbers, target):
    allowed = set("0123456789+-*/() ")
    if len(answer) > 100 or set(answer) - allowed:
        return False
    try:
        return eval(answer) == target
    except Exception:
        return False


# %% [markdown]
# ### Instant audit
#
# Change the text `CARELESS` in section 2 as you like, run that cell and this one, and see at once
# how many attacks your patch refuses. `rlkit.audit(careless, subject="countdown")` tries more, and
# takes some seconds.


# %%
def scored(verifier):
    """Attacks refused and honest answers kept, and what went through."""
    cases = [*ATTACKS, *HONEST]
    columns = {
        "numbers": [list(case.numbers) for case in cases],
        "target": [case.target for case in cases],
        "solution": ["10 + 2 - 3"] * len(cases),
    }
    texts = [f"<answer>{case.answer}</answer>" for case in cases]
    paid = verifier(completions=texts, **columns)
    through = [c.name for c, p in zip(ATTACKS, paid, strict=False) if p]
    kept = sum(paid[len(ATTACKS) :])
    print(f"{verifier.name}: refuses {len(ATTACKS) - len(through)} of 40")
    print(
        f"  keeps {kept:.0f} of {len(HONEST)} honest answers; pays", through
    )


scored(careless)
scored(countdown_answer)  # the kit's own

# %% [markdown]
# ### Exercise 3: a canary test
#
# Miners took a canary along: it fell silent before the air was bad for people. A canary test is
# a handful of answers with known worth, scored before every run. If one of them is paid wrongly,
# the run does not start.
#
# Write one for the problem 7, 4, 2 and 9: answers, each with True (must be paid) or False. Twelve
# broken verifiers fly past it, each with one fault; your canary must notice every one. You can do
# it with twelve answers.

# %% tags=["exercise"] exercise="canary"
canary = {
    "7 + 4 - 2": True,
    "7 + 4 + 2": False,
    ...: ...,  # TODO: more answers, right ones and wrong ones
}
lesson.check("canary", canary)

# %% tags=["solution"] exercise="canary"
canary = {
    "7 + 4 - 2": True,
    "4 - 2 + 7": True,  # another right answer
    "7 + 4 + 2": False,  # the numbers, another value
    "9": False,  # the value, no numbers
    "7": False,  # a part of the solution
    "7 + 2": False,  # a number left out
    "7 + 4 - 2 + 4 - 4": False,  # a number too often
    "2 * 7 - 4": False,  # 10, a near miss
    "2 ** 4 - 7": False,  # a power
    "no idea": False,  # not an expression
    "7 + 4 + 2, 7 + 4 - 2": False,  # two guesses
    "7 + 4 + 2 = 9": False,  # a false equation
}

# %% tags=["checks"] exercise="canary"
from rlkit.lessons import Exercise, Property, holds
from rlkit.rewards.countdown_holes import BROKEN, missed_by
from rlkit.tasks.countdown import verify_countdown


def is_a_table(answer):
    holds(
        isinstance(answer, dict)
        and all(isinstance(k, str) for k in answer)
        and all(isinstance(v, bool) for v in answer.values()),
        "write a dict of texts, each with True or False",
    )


def has_right_labels(answer):
    for text, paid in answer.items():
        right, reason = verify_countdown(text, [7, 4, 2], 9)
        holds(
            right is paid,
            f"{text!r} is marked {paid}, but it {reason}",
        )


def notices_all(answer):
    true = {
        text: paid
        for text, paid in answer.items()
        if verify_countdown(text, [7, 4, 2], 9)[0] is paid
    }
    missed = missed_by(true)
    found = len(BROKEN) - len(missed)
    holds(
        not missed,
        f"it notices {found} of {len(BROKEN)}; it is silent about a "
        f"verifier that {missed[0] if missed else ''}",
    )


EXERCISE = Exercise(
    "canary",
    title="A canary test",
    hints=(
        "One wrong answer for each fault: what would only that fault pay?",
        "A fault can also refuse too much. Which second right answer is "
        "there, and what does a verifier say that refuses everything?",
        "Try these kinds: the target alone, one number, two numbers that "
        "make 9, a number twice, 10 instead of 9, a power, words, two "
        "guesses with a comma, an equation that is false.",
    ),
    where="here",
    wants="value",
    properties=[
        Property("it is a table of answers", is_a_table),
        Property("every label is true", has_right_labels),
        Property("it notices every broken verifier", notices_all),
    ],
    right="All twelve faults are noticed, before a single update is made.",
)

# %% tags=["wrong"] exercise="canary" says="knows one right answer and no other"
canary = {
    "7 + 4 - 2": True,
    "7 + 4 + 2": False,
    "9": False,
    "7": False,
    "7 + 2": False,
    "7 + 4 - 2 + 4 - 4": False,
    "2 * 7 - 4": False,
    "2 ** 4 - 7": False,
    "no idea": False,
    "7 + 4 + 2, 7 + 4 - 2": False,
    "7 + 4 + 2 = 9": False,
}

# %% tags=["wrong"] exercise="canary" says="is marked False, but it makes 9"
canary = {"7 + 4 - 2": True, "4 - 2 + 7": False}

# %% [markdown]
# ## 7. Run it again
#
# First a question: is it enough to exchange the verifier and to train *on*? One more step with the
# same policy and a verifier without holes; the last number is the share of groups without
# contrast.

# %%
from rlkit.rewards.countdown_holes import TREE_VERIFIER

tree = SandboxedVerifier(TREE_VERIFIER, ["numbers", "target"], "tree")
scored(tree)
spoiled = policy.snapshot()
loop = new_loop(tree)
policy.restore(spoiled)
record = loop.step()
print(f"reward {record['reward']:.2f}")
print(f"groups that teach nothing {record['frac_reward_zero_std']:.2f}")

# %% [markdown]
# Every answer is wrong, so every group is all alike, and nothing is learned. **The hole is closed
# and the policy is lost.** One has to go back to a state from before. We start anew: the same
# seed, the same settings; only the verifier is another.

# %%
loop = new_loop(tree)
fixed_run = lab.start(loop, STEPS)
fixed_run.wait()
texts, rows = ask(tree)
fixed = verifier_gap(rows)
title = "Trained on the verifier that walks the tree"
lab.show_figure(two_curves(fixed_run.history, title))
for name, gap in (
    ("before", before),
    ("careless", hacked),
    ("tree", fixed),
):
    paid, right = gap["reward"], gap["truth"]
    print(f"{name:<9} paid {paid:.2f}  right {right:.2f}")
print(shapes_of(texts, rows, "After training on the tree"))
if hacked["reward"] > 0.9 and hacked["truth"] < 0.3:
    print("The hole was found: nearly all is paid, and little is right.")
else:
    print("This time the hole was not found to the end.")
if abs(fixed["verifier_gap"]) <= 0.05:
    print("Without the hole, what is paid is right.")

# %% [markdown]
# Now the two lines are one. The number at the end is smaller than 0.9, and it is worth more: it
# is true. What is left wrong are signs that `tiny` cannot work out; see lesson 00.
#
# ## 8. An alarm
#
# In practice the truth is dear: a person's time, a slow proof, hidden tests. You have a few of it
# at each step, and it is noisy. Ten runs were recorded that way, five with the hole and five
# without: the reward of each step's 96 answers, and the truth of 32 held-out answers.

# %% tags=["setup"]
from rlkit.rewards.gap_runs import gap_runs

recorded = gap_runs()
for name in ("careless, seed 0", "tree, seed 0"):
    one = next(run for run in recorded if run.name == name)
    print(name)
    print("  proxy", *[f"{x:.2f}" for x in one.proxy[:28:3]])
    print("  truth", *[f"{x:.2f}" for x in one.truth[:28:3]])

# %% [markdown]
# ### Exercise 4: when does it ring?
#
# Write `alarm(proxy, truth)`. It gets both lists and gives the step, counted from 1, at which it
# rings, or `None`. It must stay silent on the five honest runs, ring in each of the others before
# the reward has passed 0.9 for good, and it must not look ahead.


# %% tags=["exercise"] exercise="alarm"
def alarm(proxy, truth):
    """The step at which it rings, from 1; None if it stays silent."""
    return ...  # TODO: watch the gap between the two


lesson.check("alarm", alarm)


# %% tags=["solution"] exercise="alarm"
def alarm(proxy, truth):
    """The step at which it rings, from 1; None if it stays silent."""
    gaps = [p - t for p, t in zip(proxy, truth, strict=True)]
    for step in range(6, len(gaps) + 1):
        if sum(gaps[step - 6 : step]) / 6 > 0.4:
            return step
    return None


# %% tags=["checks"] exercise="alarm"
from rlkit.lessons import Exercise, Property, holds
from rlkit.rewards.gap_runs import gap_runs

RUNS = {(tuple(r.proxy), tuple(r.truth)): r for r in gap_runs()}


def calls(holey):
    return [
        (list(r.proxy), list(r.truth))
        for r in RUNS.values()
        if r.holey == holey
    ]


def silent(value, proxy, truth):
    run = RUNS[tuple(proxy), tuple(truth)]
    holds(
        value is None,
        f"it rings at step {value} of an honest run ({run.name}); "
        "single steps are noisy",
    )


def rings(value, proxy, truth):
    run = RUNS[tuple(proxy), tuple(truth)]
    holds(value is not None, f"it stays silent in {run.name}")
    holds(
        1 <= value <= run.too_late,
        f"it rings at step {value} of {run.name}; the reward passed 0.9 "
        f"for good at step {run.too_late}",
    )


def does_not_look_ahead(answer):
    whole = answer.map(calls(True))
    cut = [
        (p[:s], t[:s]) for (p, t), s in zip(calls(True), whole, strict=True)
    ]
    for early, late in zip(answer.map(cut), whole, strict=True):
        holds(
            early == late,
            f"it rings at step {late}, but with the steps up to {late} "
            f"alone it says {early}",
        )


EXERCISE = Exercise(
    "alarm",
    title="An alarm on the gap",
    hints=(
        "The gap of one step is proxy minus truth. How far does it swing "
        "in an honest run?",
        "Average the gap over the last few steps. The average of six "
        "swings less than half as much.",
        "For each step from 6: if the mean of the last six gaps is above "
        "0.4, return the step.",
    ),
    where="sandbox",
    properties=[
        Property("it is silent on honest runs", silent, calls(False)),
        Property("it rings in time", rings, calls(True)),
        Property("it does not look ahead", does_not_look_ahead),
    ],
    right="It would have stopped each of the five runs with a hole.",
)


# %% tags=["wrong"] exercise="alarm" says="single steps are noisy"
def alarm(proxy, truth):
    for step, (p, t) in enumerate(zip(proxy, truth, strict=True), 1):
        if p - t > 0.2:
            return step
    return None


# %% tags=["wrong"] exercise="alarm" says="the reward passed 0.9 for good"
def alarm(proxy, truth):
    for step in range(10, len(proxy) + 1):
        gaps = [p - t for p, t in zip(proxy, truth, strict=True)][
            step - 10 : step
        ]
        if min(gaps) > 0.9:
            return step
    return None


# %% tags=["wrong"] exercise="alarm" says="it stays silent"
def alarm(proxy, truth):
    return None


# %% [markdown]
# In the kit such an alarm is a *rule* of the monitor, as lesson 14 will show in full. A rule sees
# one step's record after the other, so it can be replayed on a run that is over. Here it looks at
# the two lines of our own runs.


# %%
from rlkit.monitor import Monitor, StepRecord
from rlkit.monitor.rules import Finding, Rule


class GapAlarm(Rule):
    name, action = "verifier_gap", "warn"

    def __init__(self):
        self.gaps = []

    def check(self, record):
        self.gaps.append(record["reward"] - record["pass_rate"])
        gap = sum(self.gaps[-6:]) / 6
        if len(self.gaps) < 6 or gap <= 0.4:
            return None
        return Finding(f"paid minus right is {gap:.2f}", {"gap": gap})


for name, past in (("careless", run), ("tree", fixed_run)):
    monitor = Monitor([GapAlarm()])
    records = [StepRecord.of(row["step"], row) for row in past.history]
    found = [d for r in records for d in monitor.observe(r)]
    first = f"step {found[0].step}: {found[0].reason}" if found else "-"
    print(f"{name:<9}", first)

# %% [markdown]
# ## 9. Failure card

# %%
lessons.failure_card(
    "The reward is wonderful",
    see=(
        "The reward leaps to nearly 1, answers get short and alike, and "
        "the pass rate on held-out problems falls to 0."
    ),
    cause=(
        "The verifier pays something else than what is wanted, and the "
        "policy found it in its own slips."
    ),
    do=(
        "Stop. Read twenty answers that were paid. Close the hole, add it "
        "to the canary test, and go back to a checkpoint from before the "
        "gap opened; a repaired verifier does not repair the policy."
    ),
)

# %% [markdown]
# ## 10. At scale
#
# On many GPUs the loop is TRL's, and the reward goes to it as it is. With a truth attached, the
# gap stands in the trainer's log as `verifier_gap`, beside the reward; nothing is trained on it.
# This is shown, not run, here.
#
# ```python
# trainer = GRPOTrainer(
#     model=model,
#     reward_funcs=[tree.with_truth(countdown_answer)],
#     train_dataset=dataset,  # with the columns numbers and target
#     args=GRPOConfig(num_generations=8, max_completion_length=24),
# )
# ```
#
# Before each run: `rlkit audit my_rewards.py`, and the canary test.
#
# ## 11. Four questions

# %%
from rlkit.lessons import Question

reward_098 = Question(
    "The reward is 0.98 after 30 updates. What do you know?",
    [
        ("The model solves 98 %.", "Only if the verifier is right."),
        ("The verifier pays 98 %.", "That, and no more."),
    ],
    right="b",
)
no_powers = Question(
    "Why did tiny not use the power, **?",
    [
        ("It never draws one.", "What is not drawn cannot be paid."),
        ("The pattern stops it.", "The pattern lets it through."),
    ],
    right="a",
)

# %%
no_threads = Question(
    "Why not eval in the trainer, in a thread with a time limit?",
    [
        ("Threads are slow.", "Speed is not the trouble here."),
        ("A thread cannot be stopped.", "A process can be killed."),
    ],
    right="b",
)
go_on = Question(
    "The hole is closed after 30 updates. Where do you go on?",
    [
        ("At update 30.", "All answers are wrong: no contrast."),
        ("Before the gap opened.", "There is still something to pay."),
    ],
    right="b",
)
lesson.quiz("what_was_that", [reward_098, no_powers, no_threads, go_on])
