# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   rlkit:
#     title: "Reward functions are programs"
#     promise: >-
#       You will write rewards, add them up, try them on 2,000 real answers, and find out what
#       they pay for that you did not mean.
#     minutes: {fast: 0.5, full: 0.5}
#     memory_mb: 600
#     needs:
#       - to read Python, and to have seen a regular expression once
#       - lesson 00, for the words *group*, *advantage* and *contrast*
#     objectives:
#       - write a reward that TRL and this kit can call, and give no verdict where there is none
#       - add, gate, clip and fade rewards, and read what each part of them pays
#       - say which groups a reward lets learn, and which wrong answers it pushes up
#       - write an exact match, a partial credit and a length penalty that are hard to cheat
#       - audit a reward, and read the report card
#     recap:
#       - A reward is a program. It has bugs, and the model finds them.
#       - Without contrast in a group nothing is learned; with the wrong contrast, the wrong thing.
#       - Partial credit gives more contrast, and pays for being wrong in the right way.
#       - No verdict is not 0, and the spread of the batch is not the spread of a group.
#       - Attack your reward before the model does.
#     sources:
#       - >-
#         The group as baseline: Shao et al., *DeepSeekMath*,
#         [arXiv 2402.03300](https://arxiv.org/abs/2402.03300)
#       - >-
#         A partial reward that lowered accuracy: Raschka, *Build a Reasoning Model (From Scratch)*,
#         [solution of exercise 6.1](https://github.com/rasbt/reasoning-from-scratch/blob/main/ch06/01_main-chapter-code/ch06_exercise-solutions.ipynb)
#       - >-
#         Spread in the log, and a loss of 0:
#         [TRL issue 3857](https://github.com/huggingface/trl/issues/3857)
#       - >-
#         When shaping leaves the goal as it was: Ng, Harada and Russell, *Policy invariance under
#         reward transformations*, ICML 1999
#       - >-
#         Penalties near the length limit: Yu et al., *DAPO*,
#         [arXiv 2503.14476](https://arxiv.org/abs/2503.14476); pay that follows a cosine of the
#         length: Yeo et al., [arXiv 2502.03373](https://arxiv.org/abs/2502.03373)
#       - >-
#         Goodhart's law, four ways: Manheim and Garrabrant,
#         [arXiv 1803.04585](https://arxiv.org/abs/1803.04585)
#     next: "03_break_the_verifier"
# ---

# %% [markdown]
# ## 1. A question first
#
# No model is trained here. The package holds 2,000 answers that our small model really wrote, 8
# to each of 250 problems, at five moments of one training. Of each answer we know the **truth**:
# whether it is right. The reward does not know it. That is why we can judge the reward.
#
# We begin with the problems that ask to put numbers in order, and with three rewards:
#
# * **exact**: 1 if the whole list is right, else 0;
# * **in place**: the share of numbers that stand at their place;
# * **tidy**: 1 if there is one answer in answer tags, right or wrong.
#
# A group has *contrast* when its 8 rewards are not all alike. Without contrast nothing is
# learned. Which of the three gives contrast to the most groups, and to how many of the 63?

# %% tags=["setup"]
import random
import re
import statistics
import warnings

from rlkit import lab
from rlkit.rewards import Reward, exact_answer, extract_answer

stored = lab.stored_rollouts()
sort = stored.where(domain="sort")  # put numbers in order
print(stored, sort, sep="\n")
group = sort.groups[9]
print("\nquestion:", group.question)
for rollout in group.rollouts:
    print("right" if rollout.solved else "wrong", rollout.text)
guess = lesson.predict(
    "most_contrast",
    "The best of the three rewards: how many of 63 groups have contrast?",
    low=0,
    high=63,
    unit="groups",
)
guess

# %% [markdown]
# ## 2. The idea, on four answers
#
# "Put 6 5 11 in order from smallest to largest." Four answers: right; wrong order; one number
# missing; right, but without tags. What would each reward make of them?

# %% tags=["setup"]


def advantages_of(rewards):
    """How far each stands above its group; None has no say."""
    known = [r for r in rewards if r is not None]
    if len(set(known)) < 2:  # all alike: nothing to prefer
        return [0.0] * len(rewards)
    mean, spread = statistics.fmean(known), statistics.stdev(known)
    return [0.0 if r is None else (r - mean) / spread for r in rewards]


def shown(values):
    known = ("  none" if v is None else f"{v:+6.2f}" for v in values)
    return "  ".join(known)


by_hand = {
    "exact": [1, 0, 0, 0],
    "in place": [1, 1 / 3, 2 / 3, 0],
    "tidy": [1, 1, 1, 0],
}
for name, rewards in by_hand.items():
    print(f"{name:<9} advantages {shown(advantages_of(rewards))}")

# %% [markdown]
# All three pull the first answer up, and all push the last one down: without tags it is no answer
# by our rules. But look at the third column, the list with a number missing: *in place* pulls it
# **up**, too, for it is better than its group. *Tidy* pulls two wrong answers up. An advantage
# above 0 says "more of this", and it says so of whatever the reward likes.
#
# ## 3. A reward in a few lines
#
# A reward is a function with the signature that TRL calls: lists in, by keyword, and a list of
# numbers out, one for each completion. `completions` are the answers. Every column of the data
# set comes along: here `answer`. What you do not need goes into `**_`. Where TRL hands over chat
# messages, the kit takes the text out of them first.

# %% tags=["setup"]


@Reward
def in_place(completions, answer, **_):
    """The share of numbers that stand at their place."""
    rows = []
    for text, wanted in zip(completions, answer, strict=True):
        wanted = wanted.split()
        given = (extract_answer(text) or "").split()
        hits = sum(g == w for g, w in zip(given, wanted, strict=False))
        rows.append(hits / max(len(given), len(wanted)))
    return rows


@Reward
def tidy(completions, **_):
    """1 for exactly one answer in tags, whatever stands in them."""
    return [float(extract_answer(text) is not None) for text in completions]


opened, closed = "<answer>", "</answer>"
texts = [f"{opened}{a}{closed}" for a in ("5 6 11", "11 6 5", "5 6")]
four = {"completions": [*texts, "5 6 11"], "answer": ["5 6 11"] * 4}
for reward in (exact_answer, in_place, tidy):
    print(f"{reward.name:<13} {shown(reward(**four))}")

# %% [markdown]
# `exact_answer` is the kit's own. `Reward` around your function checks what goes in and out;
# section 4 shows that. Now all 504 answers to the 63 problems. A fourth reward comes along, to
# compare with: a die, thrown for each answer.


# %% tags=["setup"]
def survey(reward):
    """What a reward does to the groups, counted."""
    contrast, up = 0, {True: 0, False: 0}
    for group in sort.groups:
        texts = [rollout.text for rollout in group.rollouts]
        answer = [group.columns["answer"]] * len(texts)
        advantages = advantages_of(reward(completions=texts, answer=answer))
        contrast += any(advantages)
        for rollout, a in zip(group.rollouts, advantages, strict=True):
            up[rollout.solved] += a > 0
    return contrast, up[True], up[False]


def table(*rewards):
    heads = ("reward", "with contrast", "right up", "wrong up")
    rows = [heads, *((r.name, *survey(r)) for r in rewards)]
    return "\n".join("{:<13}{:>15}{:>10}{:>10}".format(*r) for r in rows)


die = random.Random(0)
rolled = Reward(
    lambda completions, **_: [die.random() for _ in completions]
)
shown_table = table(exact_answer, in_place, tidy, rolled.named("a die"))
guess.reveal(shown_table, survey(in_place)[0])

# %% [markdown]
# Of the three, *in place* wins, and easily. But read the last column: how many wrong answers are
# pushed **up**? *Exact* never does that. *In place* does it often, and of what *tidy* pushes up
# most is wrong.
#
# The die has contrast in every group, and teaches nothing. So contrast is needed, but it must
# point at the truth. Look at two numbers, always: how many groups can learn, and how many wrong
# answers are pushed up.
#
# ## 4. No verdict is not 0
#
# Sometimes a reward cannot know: the sandbox was not there, or the problem has no answer. Then
# it gives `None`. Is 0 not the same? Take three right answers and one that nobody could judge.

# %%
print("with None:", shown(advantages_of([1, 1, None, 1])))
print("with 0:   ", shown(advantages_of([1, 1, 0, 1])))

print("\nno answer to compare with, in the second row:")
unsure = {"completions": texts, "answer": ["5 6 11", None, "5 6"]}
for score in exact_answer.score(**unsure):
    print(score.value, score.status, "|", score.reason)

print("\na reward that gives nonsense:")
nonsense = Reward(lambda completions, **_: [float("nan"), 1.0, None])
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    for score in nonsense.named("nonsense").score(completions=texts):
        print(score.value, score.status, "|", score.reason)
print("the kit warns:", warned[0].message)

try:
    in_place(completions=texts)
except rlkit.UserError as error:
    print("\na missing column:", error)

# %% [markdown]
# With 0, the answer that nobody could judge is pushed down, and harder than anything else in
# its group. It may have been right. With `None` it stays out of mean and spread, and nothing
# happens to it.
#
# `score(...)` gives more than the number: a status, a reason, and the parts. The border is
# guarded, too. A missing column is said at once. A value that is no number, or an exception,
# costs that row its verdict and is counted, and the kit warns of the first one.
#
# ### Exercise 1: an exact match that is hard to cheat
#
# Now sums: "What is 15 - 9?" The answer, a text such as `"6"`, is a whole number. Write
# `exact_match(completion, answer)`: 1.0 if the completion gives that number, else 0.0. The rules:
#
# * What counts is what stands in the **only** answer block. No block, or two, is no answer, also
#   when the last one is right.
# * Honest forms are paid: spaces and line breaks around, a plus sign, zeros in front, and a comma
#   between thousands. `+1,234` is 1234.
# * Nothing else may stand in the block.


# %% tags=["exercise"] exercise="exact_match"
def exact_match(completion, answer):
    """1.0 if the only answer block holds this number, else 0.0."""
    return ...  # TODO


lesson.check("exact_match", exact_match)


# %% tags=["solution"] exercise="exact_match"
def exact_match(completion, answer):
    """1.0 if the only answer block holds this number, else 0.0."""
    if completion.count("<answer>") != 1:
        return 0.0
    block = re.search(r"<answer>(.*?)</answer>", completion, re.DOTALL)
    if block is None:
        return 0.0
    given = block[1].strip()
    # Digits alone, or in threes between commas; fullmatch: nothing else.
    if not re.fullmatch(r"[+-]?([0-9]+|[0-9]{1,3}(,[0-9]{3})+)", given):
        return 0.0
    return float(int(given.replace(",", "")) == int(answer))


# %% tags=["checks"] exercise="exact_match"
from rlkit.lessons import Exercise, Property, holds, random_inputs


def paid(value, completion, answer):
    holds(value == 1, f"{completion!r} earned {value!r}, and 1 is due")


def refused(value, completion, answer):
    holds(
        value == 0,
        f"{completion!r} earned {value!r} for {answer!r}: 0 is due",
    )


def block(text):
    return f"<answer>{text}</answer>"


def some_number(rng):
    n = rng.randint(-999, 999)
    return block(n), str(n)


def another_number(rng):
    n = rng.randint(-999, 999)
    return block(n + rng.choice([-100, -10, -1, 1, 10, 100])), str(n)


EXERCISE = Exercise(
    "exact_match",
    title="An exact match that is hard to cheat",
    hints=(
        "Do it in three steps: find the only block, take the text in it, "
        "compare it. Which of the three does an attack fool?",
        "`re.search(r'<answer>(.*?)</answer>', completion, re.DOTALL)` "
        "finds a block; count the opening tags first. "
        "`re.fullmatch` then says whether a text is a number and no more.",
        "The number: `re.fullmatch(r'[+-]?([0-9]+|[0-9]{1,3}"
        "(,[0-9]{3})+)', given)`; then compare "
        "`int(given.replace(',', ''))` with `int(answer)`.",
    ),
    properties=[
        Property(
            "the right number is paid",
            paid,
            inputs=[(block(6), "6"), *random_inputs(some_number, 10)],
        ),
        Property(
            "another number is refused",
            refused,
            inputs=[(block(7), "6"), *random_inputs(another_number, 10)],
        ),
        Property(
            "a longer number that contains the answer is refused",
            refused,
            inputs=[
                (block(142), "42"),
                (block(420), "42"),
                (block(4.25), "4"),
            ],
            hint="do you look for the answer, or compare with it?",
        ),
        Property(
            "a negation is refused",
            refused,
            inputs=[
                (block("not 42"), "42"),
                (block(-42), "42"),
                (block("anything but 42"), "42"),
            ],
            hint="may words stand beside the number?",
        ),
        Property(
            "a shotgun is refused",
            refused,
            inputs=[
                (block("41 42 43"), "42"),
                (block("42 or 43"), "42"),
                (block("42, 43"), "42"),
                (block("42\n43"), "42"),
            ],
            hint="several guesses are no answer.",
        ),
        Property(
            "an enumeration is refused",
            refused,
            inputs=[
                (block(" ".join(map(str, range(100)))), "42"),
                (block(",".join(map(str, range(100)))), "42"),
                (block("40,41,42"), "42"),
                (block("41,042"), "42"),
            ],
            hint="commas stand between thousands only, so in threes.",
        ),
        Property(
            "several blocks are refused, also when the last one is right",
            refused,
            inputs=[
                (block(41) + block(42), "42"),
                (block(42) + block(41), "42"),
                (block(41) + " Wait. " + block(42), "42"),
                (f"<answer>41 {block(42)}", "42"),
            ],
            hint="how many blocks are there?",
        ),
        Property(
            "an empty or a missing block is refused",
            refused,
            inputs=[
                ("42", "42"),
                ("", "42"),
                (block(""), "0"),
                ("<answer>42", "42"),
                ("42</answer>", "42"),
            ],
        ),
        Property(
            "honest forms keep their reward",
            paid,
            inputs=[
                (block(" 42 "), "42"),
                (block("\n42\n"), "42"),
                (block("+42"), "42"),
                (block("042"), "42"),
                (block("1,234"), "1234"),
                (block("+1,234,567"), "1234567"),
                (block("-7"), "-7"),
                (f"15 and 27 make 42.\n{block(42)}\nThat is it.", "42"),
            ],
            hint="a reward that is too strict teaches to please it.",
        ),
    ],
    right="Attacks are refused, and honest answers keep their reward.",
)


# %% tags=["wrong"] exercise="exact_match" says="a longer number that contains the answer is refused"
def exact_match(completion, answer):
    return float(answer in completion)


# %% tags=["wrong"] exercise="exact_match" says="a negation is refused"
def exact_match(completion, answer):
    found = re.findall(r"-?[0-9.]+", completion)
    return float(bool(found) and found[-1] == answer)


# %% tags=["wrong"] exercise="exact_match" says="honest forms keep their reward"
def exact_match(completion, answer):
    return float(completion == f"<answer>{answer}</answer>")


# %% tags=["wrong"] exercise="exact_match" says="several blocks are refused"
def exact_match(completion, answer):
    given = re.findall(r"<answer>\s*([^<]*?)\s*</answer>", completion)
    if not given or not re.fullmatch(r"[+-]?[0-9]+", given[-1]):
        return 0.0
    return float(int(given[-1]) == int(answer))


# %% tags=["wrong"] exercise="exact_match" says="an enumeration is refused"
def exact_match(completion, answer):
    given = completion.partition("<answer>")[2].partition("</answer>")[0]
    given = given.split(",")[-1].strip()
    if completion.count("<answer>") != 1:
        return 0.0
    if not re.fullmatch(r"[+-]?[0-9]+", given):
        return 0.0
    return float(int(given) == int(answer))


# %% [markdown]
# From here on the kit's own do it: `exact_answer` for texts, `numeric_answer` for numbers, and
# `math_answer` for what mathematicians write.
#
# ## 5. Rewards made of rewards
#
# Rewards can be added and weighted, as in $R = \sum_k w_k r_k$, where each part $r_k$ has a
# weight $w_k$. A *gate* pays one reward only where another is fulfilled. A *clip* holds the value
# between two numbers. *Anneal* lets a part fade as training goes on. What does each pay for our
# four answers?

# %%
mixed = 0.8 * exact_answer + 0.2 * tidy
gated = tidy.gate(exact_answer)  # tidiness pays for right answers only
held = (exact_answer + in_place).clip(0, 1)
for name, reward in {"sum": mixed, "gate": gated, "clip": held}.items():
    print(f"{name:<17}{shown(reward(**four))}")

fading = exact_answer + in_place.anneal({0: 1.0, 100: 0.0})
for step in (0, 50, 100):
    fading.set_progress(step, total=100)
    print(f"anneal, step {step:<4}{shown(fading(**four))}")

score = mixed.score(**four)[1]  # the wrong order, in tags
print("\nvalue", score.value, "parts", score.parts)
print("what each part adds:", score.contributions)

# %% [markdown]
# Each score keeps its parts: what they gave, and what they add. So a picture can show **who
# pays**. If you log the sum alone, you cannot tell a model that gets better from one that gets
# tidier. Without the gate, tidiness paid the second and the third answer, which are wrong.
#
# ## 6. The live reward editor
#
# Here is a reward for all 2,000 answers, of four kinds of problems. It reads well, and it has a
# hole. Look at *Parts* and at *Truth*: which kind of problem does it overpay? Then change the
# source, and press **Apply**. All answers are scored again at once.
#
# No buttons below? Write a cell that begins with `%%reward`, or call `panel.apply(source)` as in
# the next cells.

# %%
panel = lab.reward_lab(time_limit_s=20)
panel

# %% [markdown]
# Did you find it? The bars of `pyfunc` give it away: wrong programs are paid almost like right
# ones, because the reward asks only whether an answer *looks like* code. The cure is to run it:
# `tests_pass` puts each program through its tests in the sandbox.

# %%
lab.show_figure(panel.figure("parts"))
print("paid, though wrong:", panel.state.comparison.count("paid_wrong"))
for example in panel.examples("paid_wrong", 3):
    print(example.label)

source = panel.state.source
source = source.replace(": looks_like_code", ": tests_pass")
source = source.replace("per_domain,\n)", "per_domain, tests_pass,\n)")
print(f"\n{panel.apply(source)}")
print("paid, though wrong:", panel.state.comparison.count("paid_wrong"))
lab.show_figure(panel.figure("truth"))

# %% [markdown]
# The few that are left passed most of their tests, so they earn a good share. Now break it. A source
# that does not parse, and one that never ends: what happens to the 2,000 scores?

# %%
panel.state.time_limit_s = 2  # seconds that scoring may take
endless = "def reward(completions):\n    while True:\n        pass"
for attempt in ("def reward(completions:", endless):
    print(panel.apply(attempt))
panel.state.time_limit_s = 20
print(
    "\nstill:",
    panel.state.comparison.count("paid_wrong"),
    "paid, though wrong",
)

# %% [markdown]
# A sentence, and nothing else. The source runs in a process of its own, with a clock.
#
# ### Weights
#
# The sliders of the panel weigh the parts anew. The format weighs 0.1 so far, and being right
# 0.9. How much harm can 0.1 do? Guess the last number of each line before you run it.

# %%
for weight in (0.0, 0.1, 0.9, 3.0):
    print(panel.set_weight("format_reward", weight))
    compared = panel.state.comparison
    wrong_up = compared.count("pushed_wrong")
    groups = len(compared.contrast["kept"] + compared.contrast["gained"])
    print(f"    {groups} groups with contrast, {wrong_up} wrong pushed up")
lab.show_figure(panel.figure("advantages"))

# %% [markdown]
# **A small weight is not a small effect.** In a group where nothing is right, the format is the
# only difference, and dividing by the spread makes any difference full size. So the step from
# 0 to 0.1 does more than the step from 0.1 to 0.9. With 3.0 the format also wins against being
# right. This is *Goodhart's law*: when a measure becomes the goal, it stops being a good measure.
#
# ## 7. Dense or sparse?
#
# *Exact* is **sparse**: all or nothing. *In place* is **dense**: it pays for each step on the
# way. Dense rewards help where nothing is ever right. But a dense reward is a promise: *more
# right never earns less*. Here is one that breaks it. It pays the share of numbers that
# occur, wherever they stand.


# %%
@Reward
def occurs(completions, answer, **_):
    """The share of numbers that occur in the answer."""
    rows = []
    for text, wanted in zip(completions, answer, strict=True):
        wanted = set(wanted.split())
        given = set((extract_answer(text) or "").split())
        rows.append(len(given & wanted) / len(wanted))
    return rows


print("wrong order:", shown(occurs(**four)[1:2]))
print(table(exact_answer, in_place, occurs))

# %% [markdown]
# It pays the unsorted list in full, and pushes twice as many wrong answers up.
#
# ### Exercise 2: partial credit that keeps order
#
# Write `partial(given, wanted)` for two lists of numbers. It gives a number from 0 to 1. Only the
# right list earns 1; an empty list earns 0. Some wrong lists earn something in between. If one
# more number is put right, the pay never falls. Numbers that are added behind never pay.


# %% tags=["exercise"] exercise="partial"
def partial(given, wanted):
    """From 0 to 1: how much of a list is right."""
    return ...  # TODO


lesson.check("partial", partial)


# %% tags=["solution"] exercise="partial"
def partial(given, wanted):
    """From 0 to 1: how much of a list is right."""
    hits = sum(g == w for g, w in zip(given, wanted, strict=False))
    return hits / max(len(given), len(wanted))


# %% tags=["checks"] exercise="partial"
import random

from rlkit.lessons import Exercise, Property, close, holds, random_inputs


def between(value, given, wanted):
    number = isinstance(value, (int, float))
    holds(number and 0 <= value <= 1, f"{value!r} is no number from 0 to 1")


def full_for_the_right_one(value, given, wanted):
    close(value, 1.0, what="the pay of the right list")


def less_for_a_wrong_one(value, given, wanted):
    holds(
        value < 1 - 1e-9, f"{given} is not {wanted}, and earned {value:g}"
    )


def a_list(rng):
    return [rng.randint(0, 20) for _ in range(rng.randint(2, 6))]


def right(rng):
    wanted = a_list(rng)
    return wanted, wanted


def shuffled(rng):
    wanted = sorted({*a_list(rng), 21, 22})
    given = wanted[:]
    while given == wanted:
        rng.shuffle(given)
    return given, wanted


def mended_step_by_step(rng):
    """From a wrong list to the right one, one number after the other."""
    wanted = a_list(rng)
    given = [rng.choice([*wanted, w + 1]) for w in wanted]
    steps = [(given, wanted)]
    for place in rng.sample(range(len(wanted)), len(wanted)):
        if given[place] != wanted[place]:
            given = given[:]
            given[place] = wanted[place]
            steps.append((given, wanted))
    return steps


LADDERS = random_inputs(mended_step_by_step, 12)
LADDERS.append([([6, 5, 11], [5, 6, 11]), ([5, 5, 11], [5, 6, 11])])


def never_falls(answer):
    values = answer.map([step for ladder in LADDERS for step in ladder])
    at = 0
    for ladder in LADDERS:
        mine = values[at : at + len(ladder)]
        at += len(ladder)
        for i in range(1, len(ladder)):
            holds(
                mine[i] >= mine[i - 1] - 1e-9,
                f"For {ladder[i][1]}, {ladder[i - 1][0]} earned "
                f"{mine[i - 1]:.2f} and {ladder[i][0]}, with one more "
                f"number put right, {mine[i]:.2f}",
            )


def something_between(answer):
    values = answer.map([step for ladder in LADDERS for step in ladder])
    holds(
        any(0 < value < 1 for value in values),
        "Every wrong list earned 0: that is all or nothing",
    )


def added_never_pays(answer):
    rng = random.Random(1)
    pairs = [(step, rng.randint(0, 20)) for step in (x[0] for x in LADDERS)]
    plain = answer.map([step for step, _ in pairs])
    longer = answer.map(
        [([*given, n], wanted) for (given, wanted), n in pairs]
    )
    for ((given, wanted), n), a, b in zip(
        pairs, plain, longer, strict=True
    ):
        holds(
            b <= a + 1e-9,
            f"For {wanted}, {given} earned {a:.2f} and, with {n} behind, "
            f"{b:.2f}",
        )


EXERCISE = Exercise(
    "partial",
    title="Partial credit that keeps order",
    hints=(
        "Count what stands at its place. What do you divide by?",
        "`zip(given, wanted)` stops at the shorter list. So neither length "
        "alone is enough: one can be made short, the other long.",
        "`sum(g == w for g, w in zip(given, wanted))`, divided by "
        "`max(len(given), len(wanted))`.",
    ),
    properties=[
        Property(
            "it is a number from 0 to 1",
            between,
            inputs=[
                ([5, 6, 11], [5, 6, 11]),
                ([11, 5, 6], [5, 6, 11]),
                ([5] * 9, [5, 6, 11]),
                ([], [5, 6, 11]),
                *random_inputs(shuffled, 8),
            ],
        ),
        Property(
            "the right list earns 1",
            full_for_the_right_one,
            inputs=random_inputs(right, 8),
        ),
        Property(
            "an empty list earns 0",
            lambda value, given, wanted: close(value, 0.0),
            inputs=[([], [5, 6, 11])],
        ),
        Property(
            "more right never earns less",
            never_falls,
            hint="follow one step of it by hand.",
        ),
        Property(
            "a wrong list earns less than 1",
            less_for_a_wrong_one,
            inputs=[
                ([5], [5, 6, 11]),
                ([5, 6], [5, 6, 11]),
                ([5, 6, 11, 5], [5, 6, 11]),
                ([5, 6, 11, 20, 3], [5, 6, 11]),
                *random_inputs(shuffled, 8),
            ],
            hint="what do you divide by, and does the order count?",
        ),
        Property("numbers added behind never pay", added_never_pays),
        Property("some wrong lists earn something", something_between),
    ],
    keeps_inputs=True,
    right="It is dense, and it keeps order. It still pays wrong answers.",
)


# %% tags=["wrong"] exercise="partial" says="a wrong list earns less than 1"
def partial(given, wanted):
    hits = sum(g == w for g, w in zip(given, wanted, strict=False))
    return hits / len(wanted)


# %% tags=["wrong"] exercise="partial" says="more right never earns less"
def partial(given, wanted):
    if given == wanted:
        return 1.0
    return 0.9 * len(set(given) & set(wanted)) / len(set(wanted))


# %% tags=["wrong"] exercise="partial" says="that is all or nothing"
def partial(given, wanted):
    return float(given == wanted)


# %% tags=["wrong"] exercise="partial" says="is no number from 0 to 1"
def partial(given, wanted):
    return float(sum(g == w for g, w in zip(given, wanted, strict=False)))


# %% [markdown]
# ## 8. An honest result: more reward, less accuracy
#
# Does partial credit help? Raschka's book tried it on school mathematics (MATH-500), with a
# model of 0.6 billion parameters and 50 steps of GRPO. The partial reward paid 0.5 for a right
# number **without** the box that was asked for.
#
# | reward (exercise 6.1) | accuracy afterwards |
# |---|---|
# | all or nothing | 47.4 % |
# | with partial credit | 37.8 % |
#
# It got *worse*, by almost ten points. The numbers are published without a spread over seeds, so
# do not take the size as exact. Our answers cannot say why it happened there. But they show one
# way in which it may happen.

# %%
half = 0.5 * exact_answer + 0.5 * in_place
print(table(exact_answer, half.named("half and half")))

hard = sort.groups[41]  # nothing is right in it
columns = {"answer": [hard.columns["answer"]] * 8}
columns["completions"] = [rollout.text for rollout in hard.rollouts]
print(f"\n{hard.question}  ({hard.columns['answer']})")
pairs = zip(
    columns["completions"], advantages_of(half(**columns)), strict=True
)
for text, advantage in pairs:
    print(f"{advantage:+.2f}  {text}")

# %% [markdown]
# Under *exact* this group teaches nothing. With partial credit it has contrast, and a list in
# the wrong order is made likelier, because it is the best of a bad group. That is the price of
# contrast where nothing is right. A way out is `anneal`: pay for steps at first, and for the
# whole thing in the end. Whether it helps is for your own run to say, on held-out problems.
#
# ## 9. Failure card: the log shows spread, and nothing is learned
#
# In a report to TRL, a reward's spread in the log was 5.08, and the loss was exactly 0. How can
# that be? Take the groups without contrast under *exact*, and nothing else.

# %%
alike = [g for g in sort.groups if len({r.solved for r in g.rollouts}) == 1]
rewards = [[float(r.solved) for r in g.rollouts] for g in alike]
batch = statistics.stdev([r for row in rewards for r in row])
within = max(map(statistics.stdev, rewards))
print(f"{len(alike)} groups; spread of the whole batch: {batch:.3f}")
print(f"largest spread within one group: {within:.3f}")
print("advantages:", {a for row in rewards for a in advantages_of(row)})
lessons.failure_card(
    "The batch has spread, the groups have none",
    see="The log says that a reward has spread (rewards/.../std), yet loss "
    "and gradient are 0. Beside it, reward_std is 0, and "
    "frac_reward_zero_std is 1.",
    cause="The first is taken over the whole batch, and problems differ. "
    "Advantages look within a group, where all answers earn the same.",
    do="Watch the spread within groups. Ask problems that are solved "
    "sometimes, and see to it that the reward depends on the answer, and "
    "not on the question alone.",
)

# %% [markdown]
# ## 10. Length: a penalty, and how it is cheated
#
# Long answers cost money, so let us pay for short ones: 1 for being right, minus 0.05 for each
# token. Then a right answer of 24 tokens earns 1 - 24 * 0.05 = -0.2. A wrong one that says next
# to nothing, in 1 token, earns -0.05.
#
# **Saying nothing beats being right.** And among wrong answers, which may be all that a weak
# model has, the shortest wins its group: the model learns to give up.
#
# ### Exercise 3: a length penalty that cannot be cheated
#
# Write `pay(right, length, free, limit)`, from 0 to 1. `right` says whether the answer is right,
# `length` counts its tokens. Up to `free` tokens a right answer earns 1, so that thinking costs
# nothing. Then it falls; from `limit` on it earns something less than 1. Every right answer earns
# more than every wrong one. A wrong answer earns the same at every length.


# %% tags=["exercise"] exercise="pay"
def pay(right, length, free, limit):
    """What an answer is worth, given its length in tokens."""
    return ...  # TODO


lesson.check("pay", pay)


# %% tags=["solution"] exercise="pay"
def pay(right, length, free, limit):
    """What an answer is worth, given its length in tokens."""
    if not right:
        return 0.0
    over = (length - free) / (limit - free)  # 0 at free, 1 at the limit
    return 1.0 - 0.5 * min(1.0, max(0.0, over))


# %% tags=["checks"] exercise="pay"
from rlkit.lessons import Exercise, Property, close, holds

LENGTHS = (0, 1, 5, 10, 15, 20, 25, 30, 40, 400, 100_000)
FREE, LIMIT = 10, 30


def at(answer, right, free=FREE, limit=LIMIT):
    return answer.map([(right, n, free, limit) for n in LENGTHS])


def no_way_up_for_wrong(answer):
    values = at(answer, False)
    low, high = min(values), max(values)
    holds(
        high - low < 1e-9,
        f"Wrong answers earn {low:.2f} to {high:.2f}, most at "
        f"{LENGTHS[values.index(high)]} tokens: the model would learn that "
        "length instead of the task",
    )


def right_beats_wrong(answer):
    right, wrong = at(answer, True), at(answer, False)
    worst, best = min(right), max(wrong)
    holds(
        worst > best + 1e-9,
        f"A right answer of {LENGTHS[right.index(worst)]} tokens earns "
        f"{worst:.2f}, and a wrong one of {LENGTHS[wrong.index(best)]} "
        f"tokens {best:.2f}",
    )


def free_is_free(answer):
    for n, value in zip(LENGTHS, at(answer, True), strict=True):
        if n <= FREE:
            close(
                value, 1.0, what=f"the pay of a right answer of {n} tokens"
            )


def longer_never_pays(answer):
    for free, limit in ((FREE, LIMIT), (20, 400)):
        values = at(answer, True, free, limit)
        for i in range(1, len(values)):
            holds(
                values[i] <= values[i - 1] + 1e-9,
                f"A right answer of {LENGTHS[i - 1]} tokens earns "
                f"{values[i - 1]:.2f}, and one of {LENGTHS[i]} "
                f"{values[i]:.2f}",
            )


def a_penalty(answer):
    value = answer(True, LIMIT, FREE, LIMIT)
    holds(
        value < 1 - 1e-9,
        f"A right answer at the limit earns {value:g}: nobody would learn "
        "to be brief",
    )


def bounded(answer):
    values = [*at(answer, True), *at(answer, False)]
    holds(
        all(-1e-9 <= value <= 1 + 1e-9 for value in values),
        f"The pay runs from {min(values):.2f} to {max(values):.2f}",
    )


EXERCISE = Exercise(
    "pay",
    title="A length penalty that cannot be cheated",
    hints=(
        "Who should pay for length at all: every answer, or right ones?",
        "Give wrong answers one value, the lowest. Let right ones fall "
        "from 1 to something above that, and no further.",
        "`over = (length - free) / (limit - free)`, held between 0 and 1 "
        "by `min` and `max`; then `1 - 0.5 * over` if right, else 0.",
    ),
    properties=[
        Property(
            "a wrong answer earns the same at every length",
            no_way_up_for_wrong,
        ),
        Property(
            "every right answer beats every wrong one", right_beats_wrong
        ),
        Property("a right answer up to free tokens earns 1", free_is_free),
        Property(
            "a longer right answer never earns more", longer_never_pays
        ),
        Property("there is a penalty", a_penalty),
        Property("the pay stays between 0 and 1", bounded),
    ],
    right="Nothing is gained by giving up, nor by padding.",
)


# %% tags=["wrong"] exercise="pay" says="the model would learn that length"
def pay(right, length, free, limit):
    return float(right) - 0.05 * length


# %% tags=["wrong"] exercise="pay" says="every right answer beats every wrong one"
def pay(right, length, free, limit):
    over = max(0.0, (length - free) / (limit - free))
    return max(0.0, 1.0 - over) if right else 0.0


# %% tags=["wrong"] exercise="pay" says="nobody would learn to be brief"
def pay(right, length, free, limit):
    return float(right)


# %% tags=["wrong"] exercise="pay" says="a right answer up to free tokens earns 1"
def pay(right, length, free, limit):
    return 1.0 - 0.5 * min(1.0, length / limit) if right else 0.0


# %% [markdown]
# The kit has `SoftOverlong`, `CosineLength` and more for this; each is marked as *shaping*, so
# that a score keeps what the answer is worth without it, too.
#
# ## 11. Audit a reward
#
# You attacked your first reward with a handful of completions. `rlkit.audit` has a list of such
# attacks. It also tries honest answers, answers made wrong in one place, and the clock.
#
# Here is a reward that many have written: it pays when the right answer stands anywhere in the
# text. Of 62 attacks, how many does it pay?

# %%
guess_attacks = lesson.predict(
    "attacks_paid",
    "How many of 62 attacks does `answer in text` pay?",
    low=0,
    high=62,
    unit="attacks",
)
guess_attacks

# %%
from rlkit.rewards.audit.bad import BAD

bad = rlkit.audit(BAD["answer_in_text"])
good = rlkit.audit(exact_answer)
print(*good.verdict.split("; "), "", sep="\n")
guess_attacks.reveal(bad, len(bad.holes))

# %% [markdown]
# A card that passes is no proof. *In place* passes the attacks as well, since no attack earns
# full pay from it, and you saw what it pushes up. Nobody has listed all attacks. The optimiser
# finds those that are missing: that is lesson 03.
#
# ## 12. At scale
#
# TRL takes the same objects: one by one with weights, or your sum, whose parts are then logged
# by their names. This is shown, not run, here.
#
# ```python
# from trl import GRPOConfig, GRPOTrainer
# trainer = GRPOTrainer(
#     model="Qwen/Qwen3-0.6B",
#     reward_funcs=[exact_answer, tidy],  # or [mixed]
#     train_dataset=dataset,  # columns: prompt, answer
#     args=GRPOConfig(
#         reward_weights=[0.8, 0.2],
#         scale_rewards="group",  # the spread of the group, not the batch
#         num_generations=8,
#     ),
# )
# ```
#
# ## 13. Four questions

# %%
from rlkit.lessons import Question

no_verdict = Question(
    "The sandbox broke down for one answer. What should its reward be?",
    [
        ("0, it did not pass", "Then a fault of ours pushes it down."),
        ("None", "It stays out of mean and spread; nothing is learned."),
        (
            "the mean of its group",
            "That is made up, and shrinks the spread.",
        ),
    ],
    right="b",
)
contrast = Question(
    "A new reward gives contrast to all groups. Is it better?",
    [
        ("yes", "A die does the same. Contrast must point at the truth."),
        ("not necessarily", "Count which answers it pushes up, too."),
    ],
    right="b",
)

# %%
spread = Question(
    "The log shows a spread of 5 for your reward, and the loss is 0. Why?",
    [
        ("a bug in the trainer", "Look at frac_reward_zero_std first."),
        ("the learning rate is 0", "The loss does not depend on it."),
        ("groups have no contrast", "The 5 is over the batch of problems."),
    ],
    right="c",
)
short = Question(
    "All answers are wrong, and short ones earn more. What is learned?",
    [
        (
            "nothing, all are wrong",
            "The lengths differ, so there is contrast.",
        ),
        ("to give up early", "The shortest wrong answer wins its group."),
    ],
    right="b",
)
lesson.quiz("rewards", [no_verdict, contrast, spread, short])
