# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   rlkit:
#     title: "Start here: the loop in five minutes"
#     promise: >-
#       You will let a small language model write Python functions, judge them in a sandbox, and
#       watch it get better, one update at a time.
#     minutes: {fast: 1, full: 1.5}
#     memory_mb: 1200
#     needs:
#       - to read Python; a gradient should not be a new word, and nothing else is assumed
#       - two processor cores; no GPU, no account, no download
#     objectives:
#       - say what each of the five steps of the loop takes in and gives out
#       - compute an *advantage* by hand, and say why eight equal answers teach nothing
#       - start, steer and stop a training run from a panel, and read its pass rate
#       - find the weight at which a reward begins to pay for the wrong thing
#     recap:
#       - The advantage compares an answer with its own group; without contrast there is no signal.
#       - The loss says nothing about progress; the pass rate on held-out problems does.
#       - The reward is all that the model knows of your wishes.
#     sources:
#       - >-
#         GRPO, the group as baseline: Shao et al., *DeepSeekMath*,
#         [arXiv 2402.03300](https://arxiv.org/abs/2402.03300)
#       - >-
#         The clipped ratio behind the loss: Schulman et al., *Proximal policy optimization
#         algorithms*, [arXiv 1707.06347](https://arxiv.org/abs/1707.06347)
#       - >-
#         The mean over tokens: Yu et al., *DAPO*,
#         [arXiv 2503.14476](https://arxiv.org/abs/2503.14476)
#       - >-
#         Adapters: Hu et al., *LoRA*, [arXiv 2106.09685](https://arxiv.org/abs/2106.09685); four
#         bits: Dettmers et al., *QLoRA*, [arXiv 2305.14314](https://arxiv.org/abs/2305.14314)
# ---

# %% [markdown]
# The whole of this kit is one loop:
#
# 1. **ask**: a *curriculum* picks problems;
# 2. **answer**: a *policy*, the language model, answers each problem several times;
# 3. **judge**: a *sandbox* runs what it wrote, and a *reward* says what that is worth;
# 4. **learn**: an *objective* turns worth into a gradient, and one *update* follows;
# 5. **watch**: a *monitor* looks at the numbers and steps in when they go wrong. Then again.
#
# ## 1. A question first
#
# Write a number down before you look: that is how you notice a surprise. At the start the model
# solves about half of the problems it has never seen. One update looks at 64 answers, 8 to each
# of 8 problems.

# %%
from rlkit import lab

STEPS = lessons.pick(fast=20, full=60)  # updates of the panel's run
HELD_OUT = lessons.pick(fast=100, full=200)  # never trained on
print(
    f"This is the {lessons.mode()} length: {STEPS} updates, and "
    f"{HELD_OUT} held-out problems before and after."
)
guess = lesson.predict(
    "after_training",
    f"After {STEPS} updates, what share of unseen problems will the "
    "model solve?",
    low=0,
    high=1,
    unit="of all problems",
)
guess

# %% [markdown]
# ## 2. The idea, on four numbers
#
# The model answered one problem four times. The first answer is right and earns 1, the others
# earn 0. Which answers should become more likely, and by how much?
#
# Compare each with **its own group**: take the group's mean away, and divide by the group's
# spread. The result is called the *advantage*. Above 0: more of this. Below 0: less of this.

# %% tags=["setup"]
import statistics

rewards = [1.0, 0.0, 0.0, 0.0]
mean = statistics.fmean(rewards)  # 0.25
spread = statistics.stdev(rewards)  # 0.5, with n - 1 below
advantages = [(r - mean) / spread for r in rewards]
print("advantages:", advantages)
assert advantages == [1.5, -0.5, -0.5, -0.5]

# %% [markdown]
# One right answer among four is rare, so it is pulled up strongly; each of the three wrong ones
# is pushed down a little, and all of it adds up to 0.
#
# In symbols, for the reward $r_i$ of answer $i$ out of $G$:
#
# $$A_i = \frac{r_i - \operatorname{mean}(r_1,\dots,r_G)}{\operatorname{std}(r_1,\dots,r_G)}$$
#
# This is the heart of GRPO, *group-relative policy optimisation*.
#
# ### Exercise 1: a group of one
#
# One problem, one answer; it is right and earns 1. What is its advantage? Put your number in the
# place of `...` and run the cell; `lesson.hint("group_of_one")` helps, in three steps.

# %% tags=["exercise"] exercise="group_of_one"
advantage_of_one = ...  # TODO: a number
lesson.check("group_of_one", advantage_of_one)

# %% tags=["solution"] exercise="group_of_one"
# A lone answer is its group's mean, so it stands 0 above it.
advantage_of_one = 0.0

# %% tags=["checks"] exercise="group_of_one"
from rlkit.lessons import Exercise, Property, close, holds


def compared_with_its_group(answer):
    holds(
        answer != 1,
        "1 is its reward; take away the mean of its group, which is 1, too",
    )
    close(answer, 0.0, what="the advantage")


EXERCISE = Exercise(
    "group_of_one",
    title="A group of one",
    hints=(
        "Whom is the answer compared with?",
        "The group is this one answer. What is the mean of its rewards?",
        "The mean is 1, the reward is 1: take the one from the other.",
    ),
    where="here",
    wants="value",
    properties=[
        Property(
            "the answer is compared with its own group",
            compared_with_its_group,
        )
    ],
    right=(
        "A lone answer is its group's mean. Nothing is learned, not "
        "even from a right answer: being equal kills the signal."
    ),
)

# %% tags=["wrong"] exercise="group_of_one" says="1 is its reward"
advantage_of_one = 1.0

# %% tags=["wrong"] exercise="group_of_one" says="the advantage"
advantage_of_one = 0.5

# %% [markdown]
# ### Exercise 2: the advantages of any group
#
# Write what you just computed as a function. It takes the rewards of one group, a list, and gives
# the list of advantages. Where all rewards are alike there is nothing to prefer: give zeros.


# %% tags=["exercise"] exercise="advantages"
def advantages_of(rewards):
    """The advantage of each answer of one group, as a list."""
    return ...  # TODO: compare each reward with the group


lesson.check("advantages", advantages_of)


# %% tags=["solution"] exercise="advantages"
def advantages_of(rewards):
    """The advantage of each answer of one group, as a list."""
    if len(set(rewards)) < 2:  # all alike: nothing to prefer
        return [0.0] * len(rewards)
    mean = statistics.fmean(rewards)
    spread = statistics.stdev(rewards)
    return [(r - mean) / spread for r in rewards]


# %% tags=["checks"] exercise="advantages"
import statistics

from rlkit.lessons import (
    Exercise,
    Property,
    close,
    holds,
    random_inputs,
    same_as,
)


def by_hand(rewards):
    mean, spread = statistics.fmean(rewards), statistics.stdev(rewards)
    return [(r - mean) / spread for r in rewards]


def one_for_each(value, rewards):
    holds(
        isinstance(value, (list, tuple)) and len(value) == len(rewards),
        f"there must be a list of {len(rewards)} advantages, one for each",
    )


def better_is_above(value, rewards):
    best = value[rewards.index(max(rewards))]
    holds(
        best > 0,
        f"the best answer got {best:+.2f}, so it would be pushed down: "
        "which of reward and mean is taken away from which?",
    )


def zeros(value, rewards):
    close(value, [0.0] * len(rewards), what="advantages of equal rewards")


def some_rewards(rng):
    rewards = [round(rng.random(), 2) for _ in range(rng.randint(2, 8))]
    return [*rewards, rewards[0] + 0.5]  # never all alike


EXERCISE = Exercise(
    "advantages",
    title="The advantages of any group",
    hints=(
        "You have seen every line of it at work on four numbers above.",
        "Mean and spread are statistics.fmean and statistics.stdev; "
        "what is the spread of rewards that are all alike?",
        "`[(r - mean) / spread for r in rewards]`, and before it: "
        "`if len(set(rewards)) < 2: return [0.0] * len(rewards)`.",
    ),
    inputs=[[1.0, 0.0, 0.0, 0.0], [0.0, 1.0], *random_inputs(some_rewards)],
    properties=[
        Property("there is one advantage for each reward", one_for_each),
        Property(
            "what is better than its group is above 0", better_is_above
        ),
        same_as(
            by_hand,
            name="each is its distance from the mean, in spreads",
            what="the advantages",
            hint="did you divide by stdev, the spread with n - 1 below?",
        ),
        Property(
            "rewards that are all alike give zeros",
            zeros,
            inputs=[[1.0, 1.0, 1.0], [0.0] * 8, [0.5]],
            hint="what is divided by the spread when the spread is 0?",
        ),
    ],
    right="From here on the kit's own does it, for tensors.",
)


# %% tags=["wrong"] exercise="advantages" says="which of reward and mean"
def advantages_of(rewards):
    if len(set(rewards)) < 2:
        return [0.0] * len(rewards)
    mean = statistics.fmean(rewards)
    spread = statistics.stdev(rewards)
    return [(mean - r) / spread for r in rewards]


# %% tags=["wrong"] exercise="advantages" says="did you divide by stdev"
def advantages_of(rewards):
    mean = statistics.fmean(rewards)
    return [r - mean for r in rewards]


# %% tags=["wrong"] exercise="advantages" says="rewards that are all alike give zeros"
def advantages_of(rewards):
    mean = statistics.fmean(rewards)
    spread = statistics.stdev(rewards)
    return [(r - mean) / spread for r in rewards]


# %% [markdown]
# ## 3. The loop by hand
#
# ### The policy
#
# `tiny` is our own model, and it is small: it fits into a few megabytes. Its weights are frozen
# in four bits (*NF4*); what is trained is a thin *adapter* beside them (*LoRA*). The two together
# are called QLoRA.
#
# **Said plainly:** nobody found this model. We taught it, from the same generators that make the
# problems below, right answers *and wrong ones on purpose*, so that it starts neither helpless
# nor finished. Held-out problems were never among its lessons. The cell says how many of each.

# %%
policy = rlkit.Policy.load("tiny", quantize="nf4", lora=rlkit.LoraSpec())
untouched = policy.snapshot()  # a copy of the adapter, to come back to
parameters, trained = policy.parameter_counts()
print(f"{parameters:,} parameters, of which {trained:,} are trained")
print("precision in force:", policy.precision)
for name, count in rlkit.policy.tiny_facts()["taught"].items():
    print(
        f"{name:<10} {count['right']:>9,} right and "
        f"{count['wrong']:>9,} wrong answers were taught"
    )

# %% [markdown]
# ### Ask and answer
#
# A *domain* is an endless source of problems. `pyfunc` asks for a small Python function. The
# policy answers each problem eight times; such a *group* is what answers are compared within.

# %%
import itertools

domain = rlkit.get_domain("pyfunc")
problems = list(itertools.islice(domain.stream(seed=3), 8))
groups = policy.generate(problems, 8, domain.max_new_tokens)

print("question:", problems[0].question)
for text in sorted({r.text for r in groups[0].rollouts}):
    print("-" * 30, text, sep="\n")

# %% [markdown]
# ### Judge: the sandbox
#
# What a model wrote is never run in *this* process. It goes to a sandbox: a fresh process with
# limits on time and memory, which gets only the inputs of the tests and hands back values. They
# are compared with the expected ones out here. The result is a *verdict*: a status and a message
# for each test. Here are the verdicts of eight answers, and all of one that failed.

# %%
from rlkit.rewards import extract_code


def job_of(rollout):
    """An answer's code, and the hidden tests of its problem."""
    wanted = rollout.problem.columns
    code = extract_code(rollout.text, wanted["entry"]) or rollout.text
    tests = [
        rlkit.TestSpec(f"test {i}", args=t["args"], expected=t["expected"])
        for i, t in enumerate(wanted["tests"], start=1)
    ]
    return rlkit.Job(source=code, entry=wanted["entry"], tests=tests)


firsts = [group.rollouts[0] for group in groups]
with rlkit.Sandbox() as sandbox:
    verdicts = sandbox.run_many([job_of(rollout) for rollout in firsts])
for verdict in verdicts:
    print(f"{verdict.status!s:<14} {verdict.summary}")
i = max(range(8), key=lambda i: verdicts[i].status == "FAIL")
print("", firsts[i].problem.question, firsts[i].text, sep="\n")
for test in verdicts[i].tests:
    print(f"{test.name}: {test.status!s:<14} {test.message}")

# %% [markdown]
# ### Judge: the reward
#
# The reward is the share of tests passed. It is a plain callable: lists of completions and
# columns in, a list of numbers out. `None` would mean *no verdict*, which is not the same as 0.
#
# Each line will be a group of eight. Lines whose numbers are all alike have no *contrast*: there
# is nothing to prefer. The others are what the model learns from. Below the lines stands one of
# them, with its advantages, computed as in section 2 (plus a tiny number below the line, against
# dividing by 0).

# %%
import torch


def score(group):
    """A reward for each answer of a group."""
    known = {n: group.problem.columns[n] for n in ("entry", "tests")}
    columns = {name: [value] * len(group) for name, value in known.items()}
    texts = [rollout.text for rollout in group.rollouts]
    return rlkit.tests_pass(completions=texts, **columns)


rewards_BG = [score(group) for group in groups]
for row in rewards_BG:
    print("  ".join(f"{r:.1f}" for r in row))
objective = rlkit.GRPO()
advantages_BG, alive_B = objective.advantages(torch.tensor(rewards_BG))
with_contrast = alive_B.tolist().index(True)  # the first such group
lab.GroupView(
    question=problems[with_contrast].question,
    texts=[r.text for r in groups[with_contrast].rollouts],
    rewards=rewards_BG[with_contrast],
    advantages=advantages_BG[with_contrast].tolist(),
    solved=[r == 1 for r in rewards_BG[with_contrast]],
)

# %% [markdown]
# ### Learn: loss, gradient, update
#
# The policy now *scores* its own answers: how likely is each token that it wrote? The loss asks
# for more of what has a positive advantage and less of what has a negative one, token by token:
#
# $$\text{loss} = -\frac{1}{\text{tokens}} \sum_{i}\sum_{t}
# \frac{\pi(\text{token}_{i,t})}{\pi_{\text{old}}(\text{token}_{i,t})}\, A_i$$
#
# $\pi$ is the probability now, $\pi_\text{old}$ the one when the token was drawn. Nothing has
# changed since, so each fraction is 1 and the loss is close to 0. **Its gradient is not.**

# %%
rollouts = rlkit.policy.flatten(groups)


def put_gradient(rollouts, advantages_N):
    """Puts the loss's gradient on the adapter; gives loss and length."""
    policy.model.zero_grad()
    scored = policy.score(rollouts)
    ratio_NT = torch.exp(scored.logprobs_NT - scored.behaviour_NT)
    gain_NT = ratio_NT * advantages_N[:, None]
    loss = -gain_NT[scored.mask_NT].mean()
    loss.backward()
    gradients = [p.grad.flatten() for p in policy.trainable().values()]
    return loss.item(), torch.cat(gradients).norm().item()


loss, length = put_gradient(rollouts, advantages_BG.flatten())
print(f"loss {loss:.4f}, length of the gradient {length:.4f}")
assert length > 0

# %% [markdown]
# One update: a step against the gradient. Did answers with a positive advantage become more
# likely? Compare the log-probability of every answer before and after. Log-probabilities are
# counted in *nats*: one nat more is 2.7 times as likely.
#
# Then a question. Somebody writes `mean - reward` where `reward - mean` was meant. Every
# advantage changes its sign; nothing crashes, the loss looks as before. By how much does one
# update then change the better answers?


# %%
def change_after_one_update(advantages_N):
    """Mean change (nats an answer) of what is above and below average."""
    kept = policy.snapshot()
    policy.restore(untouched)  # every call begins at the same place
    put_gradient(rollouts, advantages_N)
    torch.optim.AdamW(policy.trainable().values(), lr=1e-3).step()
    with torch.no_grad():
        scored = policy.score(rollouts)
    change_N = (scored.logprobs_NT - scored.behaviour_NT).sum(-1)
    policy.restore(kept)
    means = (advantages_BG.flatten() > 0, advantages_BG.flatten() < 0)
    return [change_N[chosen].mean().item() for chosen in means]


SAYS = (
    "better than their group: {:+.3f} nats an answer\n"
    "worse than their group:  {:+.3f} nats an answer"
)
above, below = change_after_one_update(advantages_BG.flatten())
print(SAYS.format(above, below))
assert above > below
question = "By how much do the better ones change with the wrong sign?"
guess_sign = lesson.predict("wrong_sign", question, unit="nats an answer")
guess_sign

# %%
SIGN = -1  # put +1 here to see the first result again
flipped = change_after_one_update(SIGN * advantages_BG.flatten())
guess_sign.reveal(SAYS.format(*flipped), flipped[0])

# %% [markdown]
# With the wrong sign the model is taught to be wrong, and nothing in the loss gives it away.
#
# ## 4. The loop as one object
#
# `ClosedLoop` does what you did by hand, and adds the curriculum and the monitor. It refuses a
# group of one at once, instead of computing for nothing.
#
# Before it trains, we measure *pass@1*: the share of problems that one answer solves. The problems
# are *held out*: which ones they are is decided by a hash of their content, so training never
# sees them. The brackets hold the range that such a measurement may be off by (95 %).
#
# ## 5. Run it
#
# Press **Run one step** a few times. Each press asks 8 problems, takes 64 answers, judges them
# and makes one update; you then see one of its groups. Training runs in a background thread, so
# you can press *Stop*, move the learning rate, or run other cells meanwhile.
#
# No buttons below? Your front end shows no widgets. `panel.snapshot()` shows the same without
# them, and in Colab `from google.colab import output; output.enable_custom_widget_manager()`
# may bring them back.


# %%
def new_loop(group_size):
    config = rlkit.LoopConfig(
        problems_per_step=8, group_size=group_size, seed=0
    )
    return rlkit.ClosedLoop(policy, ["pyfunc"], objective, config)


try:
    new_loop(group_size=1)
except rlkit.UserError as error:
    print("ClosedLoop says:", error)
loop = new_loop(group_size=8)
before = loop.evaluate(HELD_OUT)
print("before:", before.by_domain["pyfunc"])
panel = lab.Dashboard(loop)
panel.add_evaluation(before)
panel

# %% [markdown]
# When you have seen enough single steps, run the next cell: it takes the rest in one go, and
# waits; then it measures again, on the same held-out problems. The panel above moves along. To
# end it early, interrupt the kernel (■): the step under way is finished, and nothing breaks.
#
# If you run the cell a second time, it says that it *continues*: the model does not start anew,
# unless you ask for it with `lab.start(loop, STEPS, fresh=True)`.
#
# ## 6. Did it learn?

# %%
run = lab.start(loop, STEPS)
run.wait()
panel.wait()  # until no step is under way
after = loop.evaluate(HELD_OUT)
panel.add_evaluation(after)
print("before:", before.by_domain["pyfunc"])
guess.reveal(panel.figure(), after.pass_at_1)

# %% [markdown]
# The line jumps about: each of its points is only 64 answers to 8 problems, easy ones in one step
# and hard ones in the next. That is why we measure on the same held-out problems, and give the
# range.
#
# ## 7. Look at what it wrote
#
# A number that rises is not yet a model that does what you want. **Read the answers**, always.
# First, from the latest step, each way of failing with an example; then one of its groups.

# %%
example = {}
for _, _, rollout, judged, solved, _ in loop.batch.rows():
    if not solved:
        example.setdefault(judged.status, (rollout, judged.reason))
for status, (rollout, reason) in example.items():
    print(f"{status}: {reason}")
    print(rollout.problem.question, rollout.text, sep="\n", end="\n\n")
if not example:
    print("Every answer of this step passed all of its tests.")
lab.GroupView.of(loop.batch)

# %% [markdown]
# ## 8. Break it: what do you pay for?
#
# Rewards can be added. Say that you want right answers, and also a tidy code block, so you mix:
# `(1 - w) * tests_pass + w * format_reward`. Four answers to "f(x) returns x plus 3":
# **A** right and tidy; **B** right, but without the code block; **C** tidy, but wrong;
# **D** neither. Now the format gets the weight 0.9, and the tests 0.1.

# %%
guess_tidy = lesson.predict(
    "tidy_but_wrong",
    "C is tidy but wrong. What is its advantage when format weighs 0.9?",
    low=-2,
    high=2,
    unit="spreads",
)
guess_tidy

# %%
RIGHT, WRONG = (f"def f(x):\n    return x {sign} 3" for sign in "+-")
tidy = "```python\n{}\n```".format
texts = [tidy(RIGHT), RIGHT, tidy(WRONG), "I do not know."]
tests = [{"args": [x], "expected": x + 3} for x in (0, 1, 5)]
columns = {"completions": texts, "entry": ["f"] * 4, "tests": [tests] * 4}


def advantages_with(weight):
    tests_part = (1 - weight) * rlkit.tests_pass
    mixed = tests_part + weight * rlkit.format_reward
    return objective.advantages(torch.tensor([mixed(**columns)]))[0][0]


def shown(weight):
    named = zip("ABCD", advantages_with(weight).tolist(), strict=True)
    return f"format {weight:.1f}: " + str(
        {n: f"{a:+.2f}" for n, a in named}
    )


guess_tidy.reveal(
    shown(0.1) + "\n" + shown(0.9), advantages_with(0.9)[2].item()
)

# %% [markdown]
# **Why:** the advantage knows nothing of what you meant. With the weight on the format, a wrong
# answer in a neat box is *pulled up*, and a right one without a box is pushed down. The model
# would follow, and the mean reward would rise all the while. You get what you pay for.
#
# ### Exercise 3: repair the reward
#
# Choose a weight `w` of the format with which B, right, is pulled up, and C, wrong, is pushed
# down, while a box still pays: A must stay above B. `print(shown(0.3))` shows what 0.3 would do.

# %% tags=["exercise"] exercise="weight"
weight_of_format = ...  # TODO: a number between 0 and 1
lesson.check("weight", weight_of_format)

# %% tags=["solution"] exercise="weight"
# B earns 1 - w and C earns w; the mean of 1, 1 - w, w and 0 is 0.5.
weight_of_format = 0.1

# %% tags=["checks"] exercise="weight"
import statistics

from rlkit.lessons import Exercise, Property, holds


def advantages_at(w):
    rewards = [1.0, 1 - w, w, 0.0]  # A, B, C, D
    mean, spread = statistics.fmean(rewards), statistics.stdev(rewards)
    return [(r - mean) / spread for r in rewards]


def right_beats_tidy(w):
    _, b, c, _ = advantages_at(w)
    holds(
        b > 1e-9 > -1e-9 > c,
        f"with w = {w:g}, B (right) gets {b:+.2f} and C (wrong) {c:+.2f}",
    )


def a_box_pays(w):
    a, b, _, _ = advantages_at(w)
    holds(
        a > b + 1e-9,
        f"with w = {w:g}, A gets {a:+.2f} and B {b:+.2f}: nobody would "
        "learn to write the box",
    )


EXERCISE = Exercise(
    "weight",
    title="Repair the reward",
    hints=(
        "What do A, B, C and D earn, as formulas in w?",
        "They earn 1, 1 - w, w and 0. What is their mean?",
        "The mean is 0.5. B is above it when 1 - w > 0.5.",
    ),
    where="here",
    wants="value",
    properties=[
        Property(
            "a weight is between 0 and 1",
            lambda w: holds(0 <= w <= 1, f"{w:g} is not between 0 and 1"),
        ),
        Property("right beats tidy", right_beats_tidy),
        Property("a box still pays", a_box_pays),
    ],
    right="Any w above 0 and below 0.5 does it.",
)

# %% tags=["wrong"] exercise="weight" says="C (wrong) +0.24"
weight_of_format = 0.6

# %% tags=["wrong"] exercise="weight" says="C (wrong) +0.00"
weight_of_format = 0.5

# %% tags=["wrong"] exercise="weight" says="nobody would learn to write the box"
weight_of_format = 0

# %% tags=["wrong"] exercise="weight" says="not between 0 and 1"
weight_of_format = -0.5

# %% [markdown]
# ## 9. Failure card: all eight wrong
#
# The commonest way in which nothing happens. Let us make it happen: the highest level of sorting,
# which this model cannot do, and a group in which all eight answers are wrong.

# %%
panel.wait()  # until no step is under way
hard = rlkit.get_domain("sort")
problems = itertools.islice(hard.stream(0, difficulty=hard.levels), 16)
for group in policy.generate(list(problems), 8, hard.max_new_tokens):
    answer = [group.problem.columns["answer"]] * 8
    texts = [r.text for r in group.rollouts]
    earned = rlkit.exact_answer(completions=texts, answer=answer)
    if not any(earned):
        break
assert not any(earned), "none of 16 groups was all wrong: a good model!"
all_wrong = torch.tensor([earned])
advantages_dead, alive_dead = objective.advantages(all_wrong)
_, length = put_gradient(group.rollouts, advantages_dead.flatten())
print(group.problem.question, "->", answer[0])
print("answers:", sorted(set(texts))[:3], "...")
print("rewards:   ", all_wrong.tolist()[0])
print("advantages:", advantages_dead.tolist()[0])
print("length of the gradient:", length)
assert length == 0.0

# %% [markdown]
# Every reward equals the mean, so every advantage is exactly 0, and 0 times anything is 0: the
# gradient is not small, it is *nothing*. Eight **right** answers give the same nothing.
#
# How often does a group have contrast? With a share $p$ of right answers and $G$ answers a group:
#
# $$P(\text{contrast}) = 1 - p^G - (1-p)^G$$

# %%
from rlkit.lab.figures import contrast_figure

for p in (0.0, 0.02, 0.1, 0.5, 0.9):
    contrast = 1 - p**8 - (1 - p) ** 8
    print(f"solves {p:>4.0%}: {contrast:>4.0%} of groups of eight teach")
lab.show_figure(contrast_figure(panel.rows))
lessons.failure_card(
    "All eight wrong",
    see="The reward stays at 0, the loss is 0, nothing ever happens. In "
    "the log, frac_reward_zero_std, the share of groups without contrast, "
    "is near 1.",
    cause="The problems are too hard, so no group has contrast. Where the "
    "share rises together with the pass rate, groups are all right.",
    do="Ask easier problems first, ask more answers a problem, pay for "
    "partial success, or teach some right answers before. Where groups "
    "are all right: ask harder problems.",
)

# %% [markdown]
# ## 10. At scale
#
# The kit's loop is made to be read and played with. On many GPUs the loop is TRL's, and it takes
# *the same objects*: the reward goes to `GRPOTrainer` as it is. This is shown, not run, here.
#
# ```python
# from datasets import Dataset, Features, Json, Value
# from trl import GRPOConfig, GRPOTrainer
#
# features = {"prompt": Json(), "entry": Value("string"), "tests": Json()}
# rows = [
#     {"prompt": list(p.prompt), **{n: p.columns[n] for n in ("entry", "tests")}}
#     for p in itertools.islice(domain.stream(seed=0), 1000)
# ]
# trainer = GRPOTrainer(
#     model=policy.model,
#     processing_class=policy.tokenizer,
#     reward_funcs=[rlkit.tests_pass],  # the reward of this lesson
#     train_dataset=Dataset.from_list(rows, features=Features(features)),
#     args=GRPOConfig(num_generations=8, max_completion_length=56),
# )
# trainer.train()
# ```

# %% [markdown]
# ## 11. Where each component has its lesson
#
# | component | here | its own lesson (each will be linked when it is there) |
# |---|---|---|
# | policy | `Policy`, NF4 and LoRA | 15 QLoRA: the same loop at 4 bits |
# | sandbox | `Sandbox`, `Verdict` | 07 The sandbox: judging code you did not write |
# | reward | `tests_pass`, sums | 02 Reward functions are programs; 03 Break the verifier |
# | objective | `GRPO` | 04 Policy gradient on four numbers; 05 GRPO from scratch; 06 PPO |
# | curriculum | inside `ClosedLoop` | 09 Length; 10 Many domains |
# | monitor | inside `ClosedLoop` | 14 The monitor: name the failure, then act |
# | many GPUs | `reward_funcs=[...]` | 17 To many GPUs, unchanged |
#
# ## 12. Four questions

# %%
from rlkit.lessons import Question

group_of_8 = Question(
    "Eight answers, all right. What does the model learn from them?",
    [
        ("to go on like this", "Their advantages are all exactly 0."),
        ("nothing", "There is no contrast, so the gradient is 0."),
    ],
    right="b",
)
loss_is_0 = Question(
    "The printed loss is about 0 at every first step. Is that a fault?",
    [
        ("yes, nothing is learned", "Look at the gradient: it is not 0."),
        (
            "no",
            "Each ratio is 1, advantages add up to 0; the gradient acts.",
        ),
    ],
    right="b",
)

# %%
held_out = Question(
    "Why measure on held-out problems?",
    [
        ("they are easier", "They come from the same generators."),
        ("the reward rises anyway", "It does so, too, when one cheats."),
        ("they were never trained on", "So a rise is more than memory."),
    ],
    right="c",
)
tidy_wins = Question(
    "Format weighs 0.9, and the mean reward rises. Are answers better?",
    [
        ("yes", "Tidy and wrong earns 0.9, and right without a box 0.1."),
        ("not necessarily", "You get what you pay for. Read the answers."),
    ],
    right="b",
)
lesson.quiz("the_loop", [group_of_8, loss_is_0, held_out, tidy_wins])
