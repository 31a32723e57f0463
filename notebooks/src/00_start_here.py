# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Start here: the loop in five minutes
#
# **You will let a small language model write Python functions, judge them in a sandbox, and
# watch it get better, one update at a time.**
#
# *One minute of computing on two idle processor cores, half of it in the fast length, more where
# the cores are busy · 0.9 GB of memory · no GPU, no account, no download.*
#
# The whole of this kit is one loop:
#
# 1. **ask**: a *curriculum* picks problems;
# 2. **answer**: a *policy*, the language model, answers each problem several times;
# 3. **judge**: a *sandbox* runs what it wrote, and a *reward* says what that is worth;
# 4. **learn**: an *objective* turns worth into a gradient, and one *update* follows;
# 5. **watch**: a *monitor* looks at the numbers and steps in when they go wrong. Then again.
#
# ## You need, and you will be able to
#
# **You need** to read Python. A gradient should not be a new word; nothing else is assumed.
#
# **You will be able to**
#
# * say what each of the five steps takes in and gives out;
# * compute an *advantage* by hand, and say why eight equal answers teach nothing;
# * start, steer and stop a training run from a panel, and read its pass rate.

# %%
import importlib.util

if importlib.util.find_spec("rlkit") is None:  # Colab, Kaggle
    from IPython import get_ipython

    source = "git+https://github.com/ORG/rlkit@v0.1.0"
    command = f'install -q "rlkit[colab] @ {source}"'
    get_ipython().run_line_magic("pip", command)
import rlkit

rlkit.doctor()

# %% [markdown]
# A lesson comes in two lengths from the same cells. `RLKIT_MODE=fast` or `full` chooses; without
# it, a laptop runs the full length, and Binder or a run that nobody watches runs the fast one.
#
# ## 1. A question first
#
# Write a number down before you look: that is how you notice a surprise. At the start the model
# solves about half of the problems it has never seen. One update looks at 64 answers, 8 to each
# of 8 problems.

# %%
from rlkit import lab

FAST = lab.mode() == "fast"
STEPS = 20 if FAST else 60  # updates that the panel's run takes
HELD_OUT = 100 if FAST else 200  # problems that are never trained on
print(
    f"This is the {lab.mode()} length: {STEPS} updates, and "
    f"{HELD_OUT} held-out problems before and after."
)
guess = lab.Prediction(
    f"After {STEPS} updates, what share of unseen problems will the "
    "model solve (0 to 1)?"
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

# %%
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


# %%
def score(group):
    """A score for each answer of a group."""
    columns = group.problem.columns
    return rlkit.tests_pass.score(
        completions=[r.text for r in group.rollouts],
        entry=[columns["entry"]] * len(group),
        tests=[columns["tests"]] * len(group),
    )


scores_BG = [score(group) for group in groups]
rewards_BG = [[s.value for s in row] for row in scores_BG]
for row in rewards_BG:
    print("  ".join(f"{r:.1f}" for r in row))

# %% [markdown]
# Each line is a group of eight. Lines whose numbers are all alike have no *contrast*: there is
# nothing to prefer. The others are what the model learns from. Here is one of them, with its
# advantages, computed as in section 2 (plus a tiny number below the line, against dividing by 0).

# %%
import torch

objective = rlkit.GRPO()
advantages_BG, alive_B = objective.advantages(torch.tensor(rewards_BG))
shown = alive_B.tolist().index(True)  # the first group with contrast
lab.GroupView(
    question=problems[shown].question,
    texts=[r.text for r in groups[shown].rollouts],
    rewards=rewards_BG[shown],
    advantages=advantages_BG[shown].tolist(),
    solved=[r == 1 for r in rewards_BG[shown]],
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
# likely? Compare the log-probability of every answer before and after.


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
    above_N = advantages_BG.flatten() > 0
    below_N = advantages_BG.flatten() < 0
    return change_N[above_N].mean().item(), change_N[below_N].mean().item()


above, below = change_after_one_update(advantages_BG.flatten())
print(f"better than their group: {above:+.3f} nats an answer")
print(f"worse than their group:  {below:+.3f} nats an answer")
assert above > below

# %% [markdown]
# That was the loop, once. Everything from here on is the same, again and again.
#
# ## 4. The loop as one object
#
# `ClosedLoop` does what you did by hand, and adds the curriculum and the monitor. Before it
# trains, we measure *pass@1*: the share of problems that one answer solves. The problems are
# *held out*: which ones they are is decided by a hash of their content, so training never sees
# them. The brackets hold the range that such a measurement may be off by (95 %).

# %%
loop = rlkit.ClosedLoop(
    policy,
    ["pyfunc"],
    objective,
    rlkit.LoopConfig(problems_per_step=8, group_size=8, seed=0),
)
before = loop.evaluate(HELD_OUT)
print("before:", before.by_domain["pyfunc"])

# %% [markdown]
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
panel = lab.Dashboard(loop)
panel.add_evaluation(before)
panel

# %% [markdown]
# When you have seen enough single steps, run the next cell: it takes the rest in one go, and
# waits. The panel above moves along. To end it early, interrupt the kernel (■): the step under
# way is finished, and nothing breaks.

# %%
run = lab.start(loop, STEPS)
run.wait()

# %% [markdown]
# If you run that cell again, it says that it *continues*: the model does not start anew, unless
# you ask for it with `lab.start(loop, STEPS, fresh=True)`.
#
# ## 6. Did it learn?
#
# The same held-out problems as before, and the figure with all that happened in between.

# %%
panel.wait()  # until no step is under way
after = loop.evaluate(HELD_OUT)
panel.add_evaluation(after)
print("before:", before.by_domain["pyfunc"])
print("after: ", after.by_domain["pyfunc"])
print(guess.compare(after.pass_at_1))
lab.show_figure(panel.figure())

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
# ## 8. Three exercises
#
# ### a. A group of one
#
# Set the group size to 1: one answer to each problem. It is right and earns 1.

# %%
guess_a = lab.Prediction("How long is the gradient that it gives?")
guess_a

# %%
import warnings

panel.wait()  # until no step is under way
GROUP_SIZE = 1  # then try 2: the refusal goes, the 0 stays
rewards_of_a = torch.ones(1, GROUP_SIZE)
with warnings.catch_warnings(record=True):  # it warns; we look ourselves
    advantages_of_a, alive_of_a = objective.advantages(rewards_of_a)
answers = rollouts[:GROUP_SIZE]
_, length = put_gradient(answers, advantages_of_a.flatten())
print("advantages:", advantages_of_a.tolist())
print("contrast:", alive_of_a.tolist())
print("length of the gradient:", length, "-", guess_a.compare(length))
assert length == 0.0
try:
    rlkit.ClosedLoop(
        policy, ["pyfunc"], config=rlkit.LoopConfig(group_size=GROUP_SIZE)
    )
except rlkit.UserError as error:
    print("ClosedLoop says:", error)

# %% [markdown]
# **Why:** a lone answer *is* its group's mean, so it stands 0 above it. Nothing is learned, not
# even from a right answer. `ClosedLoop` refuses that at once, instead of computing for nothing.
# With two *equal* answers the loop would run, and this group would still give 0: being equal is
# what kills the signal, not being few.
#
# ### b. The wrong sign
#
# Somebody writes `mean - reward` where `reward - mean` was meant. Every advantage changes its
# sign; nothing crashes, the loss looks as before.

# %%
guess_b = lab.Prediction(
    f"One update changed the better answers by {above:+.2f} nats. "
    "By how much does it change them with the sign flipped?"
)
guess_b

# %%
panel.wait()
SIGN = -1  # put +1 here to see the first result again
flipped, flipped_below = change_after_one_update(
    SIGN * advantages_BG.flatten()
)
print(f"better than their group: {flipped:+.3f}")
print(f"worse than their group:  {flipped_below:+.3f}")
print(guess_b.compare(flipped))
assert (flipped < flipped_below) == (SIGN < 0)

# %% [markdown]
# **Why:** the gradient points the other way, so the model is trained to fail, and it will be good
# at it. No error message tells you. The reward does: it *falls*. Looking at the reward's first
# twenty steps, and at answers, finds this bug in a minute.
#
# ### c. One weight
#
# Rewards add up: `0.9 * tests_pass + 0.1 * format_reward` pays mostly for passing tests and a
# little for a tidy code block. Four answers to "f(x) returns x plus 3": **A** right and tidy;
# **B** right, but without the code block; **C** tidy, but wrong; **D** neither. Now the format
# gets the weight 0.9, and the tests 0.1.

# %%
guess_c = lab.Prediction(
    "C is tidy but wrong. What is its advantage when format weighs 0.9?"
)
guess_c

# %%
WEIGHT = 0.9  # of the format; the tests get the rest
RIGHT, WRONG = (f"def f(x):\n    return x {sign} 3" for sign in "+-")
texts = [
    f"```python\n{RIGHT}\n```",
    RIGHT,
    f"```python\n{WRONG}\n```",
    "I do not know.",
]
tests = [{"args": [x], "expected": x + 3} for x in (0, 1, 5)]
columns = {"completions": texts, "entry": ["f"] * 4, "tests": [tests] * 4}


def advantages_with(weight):
    tests_part = (1 - weight) * rlkit.tests_pass
    mixed = tests_part + weight * rlkit.format_reward
    return objective.advantages(torch.tensor([mixed(**columns)]))[0][0]


for weight in (0.1, WEIGHT):
    numbers = [f"{a:+.2f}" for a in advantages_with(weight)]
    print(f"format {weight:.1f}:", dict(zip("ABCD", numbers, strict=True)))
sensible, tidy_first = advantages_with(0.1), advantages_with(WEIGHT)
print(guess_c.compare(tidy_first[2].item()))
assert sensible[1] > 0 > sensible[2]  # right beats tidy
assert tidy_first[2] > 0 > tidy_first[1] or WEIGHT <= 0.5

# %% [markdown]
# **Why:** the advantage knows nothing of what you meant. With the weight on the format, a wrong
# answer in a neat box is *pulled up*, and a right one without a box is pushed down. The model
# would follow, and the mean reward would rise all the while. You get what you pay for.
#
# ## 9. Failure card: all eight wrong
#
# **What you see:** the reward stays at 0, the loss is 0, nothing ever happens.
# **Where it comes from:** the problems are too hard. Let us make it happen: the highest level of
# sorting, which this model cannot do, and a group in which all eight answers are wrong.

# %%
panel.wait()
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
#
# **What to do:** ask easier problems first, ask more answers a problem, pay for partial success,
# or teach some right answers before. In a log, look at `frac_reward_zero_std`, the share of
# groups without contrast: the figure shows it for our run. Near 1 is computing for nothing. Where
# it rises *together with* the pass rate, groups are all right: time for harder problems.

# %%
from rlkit.lab.figures import contrast_figure

for p in (0.0, 0.02, 0.1, 0.5, 0.9):
    contrast = 1 - p**8 - (1 - p) ** 8
    print(f"solves {p:>4.0%}: {contrast:>4.0%} of groups of eight teach")
lab.show_figure(contrast_figure(panel.rows))

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
# ## 11. What you have seen, and where it goes on
#
# * The advantage compares an answer with its own group; without contrast there is no signal.
# * The loss says nothing about progress; the pass rate on held-out problems does.
# * The reward is all that the model knows of your wishes.
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
# ## Sources
#
# * GRPO, the group as baseline: Shao et al., *DeepSeekMath*,
#   [arXiv 2402.03300](https://arxiv.org/abs/2402.03300)
# * The clipped ratio behind the loss: Schulman et al., *Proximal policy optimization algorithms*,
#   [arXiv 1707.06347](https://arxiv.org/abs/1707.06347)
# * The mean over tokens: Yu et al., *DAPO*, [arXiv 2503.14476](https://arxiv.org/abs/2503.14476)
# * Adapters: Hu et al., *LoRA*, [arXiv 2106.09685](https://arxiv.org/abs/2106.09685); four bits:
#   Dettmers et al., *QLoRA*, [arXiv 2305.14314](https://arxiv.org/abs/2305.14314)
