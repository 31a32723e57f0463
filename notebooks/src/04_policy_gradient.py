# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   rlkit:
#     title: "Policy gradient on four numbers"
#     promise: >-
#       You will derive the one formula that all of this rests on, check it with finite
#       differences, and watch it move four numbers, then one token, then whole answers.
#     minutes: {fast: 1, full: 1}
#     memory_mb: 1200
#     needs:
#       - to read Python and NumPy, and to know what a derivative is
#       - lesson 00, for the words *policy*, *reward* and *advantage*
#     objectives:
#       - derive the gradient of a log-probability, and check it with finite differences
#       - estimate a gradient from draws alone, without knowing what the arms pay
#       - say what a baseline does to the mean of that estimate, and what to its spread
#       - compute the log-probability of an answer, each token in its own place
#     recap:
#       - Weigh the gradient of each draw's log-probability by its reward, and average.
#       - A baseline that knows nothing of its own draw changes no mean, and saves spread.
#       - A language model is the same with more arms; an answer is a sum over its tokens.
#       - The logits at one place speak of the token at the next.
#     sources:
#       - >-
#         REINFORCE: Williams, *Simple statistical gradient-following algorithms for connectionist
#         reinforcement learning*, Machine Learning 8, 1992
#       - >-
#         Leave-one-out: Kool, van Hoof and Welling, *Buy 4 REINFORCE samples, get a baseline for
#         free!*, ICLR 2019 workshop; for language models Ahmadian et al.,
#         [arXiv 2402.14740](https://arxiv.org/abs/2402.14740)
#       - >-
#         Baselines and variance: Greensmith, Bartlett and Baxter, *Variance reduction techniques
#         for gradient estimates in reinforcement learning*, JMLR 5, 2004
#       - >-
#         How a baseline can make a policy commit too early: Chung et al., *Beyond variance
#         reduction*, [arXiv 2008.13773](https://arxiv.org/abs/2008.13773)
# ---

# %% [markdown]
# ## 1. A question first
#
# Four slot machines stand in a row. In books they are called *arms*. Each pays 1 with a chance of
# its own, and else 0. You do not know the chances; you can only pull and see.
#
# The policy is **four numbers**, one *preference* for each arm. They are made into
# probabilities, an arm is drawn, and it pays or not. Then the four numbers are moved a little, in
# the direction of a *gradient* that is estimated from a batch of such draws.
#
# Now somebody adds 10 to every reward. Whatever arm you pull, you get 10 more. The best arm is
# still the best, by as much as before. But what becomes of the estimate?

# %% tags=["setup"]
import itertools

import numpy as np
import torch

from rlkit import lab
from rlkit.lab.bandit import Bandit, probabilities, scores
from rlkit.lab.bandit_figures import (
    path_figure,
    probability_figure,
    strip_figure,
)

STEPS = lessons.pick(fast=20, full=60)  # updates of each run on tiny
HELD_OUT = lessons.pick(fast=100, full=200)  # never trained on
guess = lesson.predict(
    "ten_more",
    "All rewards get 10 added. By what factor does the variance of the "
    "estimate grow?",
    low=1,
    high=400,
    unit="times",
)
guess

# %% [markdown]
# ## 2. The idea, on four numbers
#
# Preferences may be any numbers. A *softmax* makes probabilities of them: raise $e$ to each, and
# divide by the sum.
#
# $$\pi(a) = \frac{e^{\theta_a}}{\sum_j e^{\theta_j}}$$
#
# What do we want? The mean reward $J$ of the policy, as large as possible. If we **knew** what each
# arm pays on average, its gradient would need no trick. Let us pretend for one cell.

# %% tags=["setup"]
bandit = Bandit((0.2, 0.5, 0.8, 0.4))  # the third arm is the best
theta = np.array([0.5, 0.0, -0.5, 0.0])  # the four numbers
pi = probabilities(theta)
J = pi @ bandit.means()
print("probabilities  ", pi.round(3))
print("mean reward J  ", J.round(4))
exact = pi * (bandit.means() - J)
print("exact gradient ", exact.round(4), " sum", exact.sum().round(12))
assert np.allclose(exact, bandit.gradient(theta))

# %% [markdown]
# Read the gradient: for each arm it is its probability, times how much more it pays than the policy
# as a whole. That is an *advantage*. Arms above the mean are pulled up, those below it are pushed
# down, and all of it adds up to 0.
#
# **But we do not know what the arms pay.** We need a formula that holds for draws alone. Here it is
# in two lines. Write the mean as a sum, and use that the derivative of $\log \pi$ is the derivative
# of $\pi$ divided by $\pi$:
#
# $$\nabla J = \sum_a r(a)\, \nabla \pi(a) = \sum_a \pi(a)\, r(a)\, \nabla \log \pi(a)$$
#
# The last sum is a mean over what the policy *draws*. So: draw an arm, look at its reward, and
# multiply by $\nabla \log \pi(a)$, which is called the *score function*. On average that is the
# gradient. Nobody has to know the chances.
#
# ### Exercise 1: the score function
#
# Write the gradient of $\log \pi(a)$ with respect to the four preferences, as four numbers. Derive
# it on paper first: the logarithm of the softmax has two parts. The check compares your function
# with *finite differences*: it moves each preference by a hair, and looks how the logarithm moves.


# %% tags=["exercise"] exercise="score"
def score_function(theta, arm):
    """The gradient of log pi(arm) by each preference: an array."""
    return ...  # TODO: probabilities(theta) is there for you


lesson.check("score", score_function)


# %% tags=["solution"] exercise="score"
def score_function(theta, arm):
    """The gradient of log pi(arm) by each preference: an array."""
    gradient = -probabilities(theta)  # of the log of the sum
    gradient[arm] += 1.0  # of theta[arm] itself
    return gradient


# %% tags=["checks"] exercise="score"
import numpy as np

from rlkit.lab.bandit import probabilities
from rlkit.lessons import Exercise, Property, close, holds, shape


def log_pi(theta, arm):
    return float(np.log(probabilities(theta)[arm]))


def by_finite_differences(theta, arm, hair=1e-5):
    moved = []
    for j in range(len(theta)):
        up, down = theta.copy(), theta.copy()
        up[j] += hair
        down[j] -= hair
        moved.append((log_pi(up, arm) - log_pi(down, arm)) / (2 * hair))
    return np.array(moved)


def some_policies():
    rng = np.random.default_rng(0)
    drawn = [rng.normal(size=4) for _ in range(6)]
    return [(theta, arm) for theta in drawn for arm in range(4)]


def one_for_each(value, theta, arm):
    shape(value, (4,), what="the gradient")


def up_for_its_own(value, theta, arm):
    holds(
        value[arm] > 0,
        f"for the arm itself it is {value[arm]:+.3f}: a larger preference "
        "makes its arm likelier, so it must be above 0",
    )


def adds_up_to_nothing(value, theta, arm):
    total = float(np.sum(value))
    holds(
        abs(total) < 1e-8,
        f"the four numbers add up to {total:.3f}, not to 0; but if all "
        "preferences rise by the same amount, no probability changes",
    )


def as_measured(value, theta, arm):
    measured = by_finite_differences(theta, arm)
    of_pi = probabilities(theta)[arm] * measured
    holds(
        not np.allclose(value, of_pi, atol=1e-7),
        "this is the gradient of the probability, and that of its "
        "logarithm is asked for: what is the derivative of log(x)?",
    )
    close(value, measured, 1e-6, what="the gradient, by finite differences")


EXERCISE = Exercise(
    "score",
    title="The score function",
    hints=(
        "The logarithm of a fraction is a difference. Which part of it "
        "does the preference of another arm move?",
        "log pi(a) = theta_a - log(sum of e^theta_j). The derivative of "
        "the second part by theta_j is pi(j).",
        "`gradient = -probabilities(theta)`, then 1 more for the arm that "
        "was drawn.",
    ),
    where="here",
    inputs=some_policies(),
    properties=[
        Property("there is one number for each preference", one_for_each),
        Property("the arm's own number is above 0", up_for_its_own),
        Property("the four add up to 0", adds_up_to_nothing),
        Property("it agrees with finite differences", as_measured),
    ],
    keeps_inputs=True,
    right="One minus pi for the arm that was drawn, minus pi for the rest.",
)


# %% tags=["wrong"] exercise="score" says="that of its logarithm is asked for"
def score_function(theta, arm):
    pi = probabilities(theta)
    gradient = -pi * pi[arm]
    gradient[arm] += pi[arm]
    return gradient


# %% tags=["wrong"] exercise="score" says="makes its arm likelier"
def score_function(theta, arm):
    gradient = probabilities(theta)
    gradient[arm] -= 1.0
    return gradient


# %% tags=["wrong"] exercise="score" says="add up to"
def score_function(theta, arm):
    gradient = np.zeros(len(theta))
    gradient[arm] = 1.0 - probabilities(theta)[arm]
    return gradient


# %% tags=["wrong"] exercise="score" says="by finite differences"
def score_function(theta, arm):
    gradient = np.full(len(theta), -1 / len(theta))
    gradient[arm] += 1.0
    return gradient


# %% [markdown]
# ## 3. From draws alone
#
# The estimate is as simple as it gets: for each draw its reward times its score, and the mean over
# the batch. It has a name, **REINFORCE**, and it is from 1992.
#
# $$\nabla J \approx \frac{1}{n} \sum_{i=1}^{n} r_i\, \nabla \log \pi(a_i)$$
#
# ### Exercise 2: REINFORCE
#
# `scores(theta, arms)` is the kit's own score function for a whole batch, one row a draw. The check
# does not trust luck: it goes through *every* batch of two draws, weighs each with its
# probability, and compares the mean with the exact gradient.


# %% tags=["exercise"] exercise="reinforce"
def reinforce(theta, arms, rewards):
    """The gradient of the mean reward, estimated from one batch."""
    return ...  # TODO: an array of four numbers


lesson.check("reinforce", reinforce)


# %% tags=["solution"] exercise="reinforce"
def reinforce(theta, arms, rewards):
    """The gradient of the mean reward, estimated from one batch."""
    return (rewards[:, None] * scores(theta, arms)).mean(axis=0)


# %% tags=["checks"] exercise="reinforce"
import itertools

import numpy as np

from rlkit.lab.bandit import Bandit, probabilities, scores
from rlkit.lessons import Exercise, Property, close, holds, shape

PAYS = np.array([0.2, 0.5, 0.8, 0.4])
THETA = np.array([0.5, 0.0, -0.5, 0.0])


def batches():
    rng = np.random.default_rng(1)
    found = []
    for size in (1, 2, 5, 16):
        theta = rng.normal(size=4)
        arms = rng.integers(0, 4, size)
        found.append((theta, arms, rng.random(size).round(2) + 0.1))
    return found


def four_numbers(value, theta, arms, rewards):
    shape(value, (4,), what="the estimate")


def one_draw(value, theta, arms, rewards):
    wanted = rewards[0] * scores(theta, arms)[0]
    holds(
        np.abs(value).max() > 1e-12,
        "a lone draw with a reward gives 0; is something taken away from "
        "the reward already? That comes later",
    )
    holds(
        float(np.dot(value, wanted)) > 0,
        "it points downhill: this is the gradient of a loss, and that of "
        "the mean reward is asked for",
    )
    close(value, wanted, 1e-9, what="the estimate from one draw")


def exact_in_the_mean(answer):
    pi, total = probabilities(THETA), np.zeros(4)
    for pair in itertools.product(range(4), repeat=2):
        arms = np.array(pair)
        estimate = answer(THETA, arms, PAYS[arms])
        total += pi[arms].prod() * np.asarray(estimate)
    exact = Bandit(tuple(PAYS)).gradient(THETA)
    factor = float(total @ exact / (exact @ exact))
    holds(
        abs(factor - 1) < 1e-9 or not np.allclose(total, factor * exact),
        f"over all batches of two draws the mean is {factor:.2f} times the "
        "exact gradient: is it a mean, or a sum?",
    )
    close(total, exact, 1e-9, what="the mean over all batches of two")


EXERCISE = Exercise(
    "reinforce",
    title="REINFORCE",
    hints=(
        "What is one draw's part, and what is done with all the parts?",
        "`scores(theta, arms)` has a row for each draw; each row must be "
        "multiplied by that draw's reward.",
        "`(rewards[:, None] * scores(theta, arms)).mean(axis=0)`",
    ),
    where="here",
    properties=[
        Property("there are four numbers", four_numbers, batches()),
        Property("one draw counts by its reward", one_draw, batches()[:1]),
        Property("on average it is the gradient", exact_in_the_mean),
    ],
    keeps_inputs=True,
    right="Unbiased: not nearly, but exactly, in the mean.",
)


# %% tags=["wrong"] exercise="reinforce" says="is it a mean, or a sum"
def reinforce(theta, arms, rewards):
    return (rewards[:, None] * scores(theta, arms)).sum(axis=0)


# %% tags=["wrong"] exercise="reinforce" says="it points downhill"
def reinforce(theta, arms, rewards):
    return -(rewards[:, None] * scores(theta, arms)).mean(axis=0)


# %% tags=["wrong"] exercise="reinforce" says="That comes later"
def reinforce(theta, arms, rewards):
    above = rewards - rewards.mean()
    return (above[:, None] * scores(theta, arms)).mean(axis=0)


# %% tags=["wrong"] exercise="reinforce" says="the estimate has the shape"
def reinforce(theta, arms, rewards):
    return rewards[:, None] * scores(theta, arms)


# %% [markdown]
# ## 4. Play with it
#
# Press *Run one step* a few times. Watch the bars, and the strip of dots beside them: 200
# estimates of the same number, the gradient for the best arm, each from a batch of its own. Then
# try three things:
#
# 1. Start afresh, set the batch to 2, and run 50 steps. Do it a few times.
# 2. Take the tick at *Baseline* away, and add 10 to every reward. Where do the dots go?
# 3. Put the tick back. What is left of the 10?
#
# All of it can be reached by keyboard: Tab goes on, arrows move a slider, Space presses and ticks.

# %%
panel = lab.BanditPanel(bandit, seed=0)
panel.step(1)
panel

# %% [markdown]
# ## 5. The baseline
#
# On average the estimate is right. A single one may be far off. How far? Here is the variance for
# one draw, exactly and not from a sample, for rewards 0 and 1, and with 10 on top of each.

# %%
start = np.zeros(4)  # all four arms alike
exact = float(bandit.gradient(start)[bandit.best])
lines, variances = [], {}
for added in (0, 1, 10):
    arms = Bandit(bandit.pays, added=added)
    variance = variances[added] = arms.variance(start)[arms.best]
    gradient = arms.gradient(start)[arms.best]
    lines.append(
        f"added {added:>2}: gradient {gradient:.5f}, variance of one draw "
        f"{variance:6.3f}; {variance / gradient**2:5.0f} draws until the "
        "error is as small as the gradient"
    )
guess.reveal("\n".join(lines), variances[10] / variances[0])

# %% [markdown]
# The gradient is the same to the last digit; the variance is not. With 10 on top, *every* arm that
# is drawn is pulled up hard, good or bad. Only in the mean over very many draws does it cancel.
#
# So take something away from each reward: a **baseline** $b$. It may be anything that does not
# depend on the draw itself. Why does the mean stay? Because the score is 0 on average, and so is a
# constant times the score:
#
# $$\sum_a \pi(a)\, b\, \nabla \log \pi(a) = b\, \nabla \sum_a \pi(a) = b\, \nabla 1 = 0$$
#
# A good baseline is what one would have got anyway. The mean of the batch? Almost: the draw's own
# reward is in it. The mean of the **others** is clean.
#
# ### Exercise 3: leave one out
#
# Take a list of rewards, two or more, and give the list of advantages: each reward minus the mean
# of the *other* rewards. The check tries all batches of three draws again, with 3 added to every
# reward.


# %% tags=["exercise"] exercise="leave_one_out"
def leave_one_out(rewards):
    """Each reward minus the mean of the others, as a list."""
    return ...  # TODO


lesson.check("leave_one_out", leave_one_out)


# %% tags=["solution"] exercise="leave_one_out"
def leave_one_out(rewards):
    """Each reward minus the mean of the others, as a list."""
    total, others = sum(rewards), len(rewards) - 1
    return [r - (total - r) / others for r in rewards]


# %% tags=["checks"] exercise="leave_one_out"
import itertools

import numpy as np

from rlkit.lab.bandit import Bandit, scores
from rlkit.lessons import (
    Exercise,
    Property,
    close,
    holds,
    random_inputs,
    same_as,
)

ARMS = Bandit((0.2, 0.5, 0.8, 0.4), added=3.0)
DRAWS = list(itertools.product(range(4), (0.0, 1.0)))  # arm, paid or not


def chance(draw):
    arm, paid = draw
    return 0.25 * (ARMS.pays[arm] if paid else 1 - ARMS.pays[arm])


def over_all_batches(answer):
    """Mean and summed variance of the estimate, over all triples."""
    rewards = [list(r) for r in itertools.product((3.0, 4.0), repeat=3)]
    given = dict(zip(map(tuple, rewards), answer.map(rewards), strict=True))
    mean, square = np.zeros(4), 0.0
    rows = scores(np.zeros(4), np.arange(4))
    for batch in itertools.product(DRAWS, repeat=3):
        p = np.prod([chance(draw) for draw in batch])
        advantages = given[tuple(3.0 + paid for _, paid in batch)]
        parts = [
            a * rows[arm]
            for a, (arm, _) in zip(advantages, batch, strict=True)
        ]
        estimate = np.mean(parts, axis=0)
        mean += p * estimate
        square += p * float(estimate @ estimate)
    return mean, square - float(mean @ mean)


def points_the_right_way(answer):
    better, worse = answer([1.0, 0.0])
    holds(
        better > worse,
        f"of the rewards 1 and 0 the better one gets {better:+.2f}, the "
        f"worse one {worse:+.2f}: it is pushed down",
    )


def a_constant_is_gone(answer):
    plain, more = answer.map([[1.0, 0.0, 0.0], [11.0, 10.0, 10.0]])
    close(more, plain, 1e-9, what="with 10 added to all, the advantages")


def right_in_the_mean(answer):
    mean, _ = over_all_batches(answer)
    exact = ARMS.gradient(np.zeros(4))
    factor = float(mean @ exact / (exact @ exact))
    holds(
        abs(factor - 1) < 1e-9,
        f"over all batches of three the mean is {factor:.3f} times the "
        "exact gradient: is a draw's own reward in its baseline, or is "
        "something divided by?",
    )


def saves_variance(answer):
    _, variance = over_all_batches(answer)
    _, without = over_all_batches(_Plain())
    holds(
        variance < without / 5,
        f"its variance is {variance:.3f}, and without a baseline "
        f"{without:.3f}",
    )


class _Plain:
    def map(self, inputs):
        return inputs


def some_rewards(rng):
    return [round(rng.random(), 2) for _ in range(rng.randint(2, 8))]


LISTS = [[1.0, 0.0], [1.0, 0.0, 0.5], *random_inputs(some_rewards, 8)]

EXERCISE = Exercise(
    "leave_one_out",
    title="Leave one out",
    hints=(
        "What is the sum of the others, if you know the sum of all?",
        "The others are `sum(rewards) - r`; how many are they?",
        "`[r - (total - r) / (n - 1) for r in rewards]`",
    ),
    properties=[
        Property(
            "there is one advantage for each reward",
            lambda value, rewards: holds(
                isinstance(value, (list, tuple))
                and len(value) == len(rewards),
                f"a list of {len(rewards)} numbers is expected",
            ),
            inputs=LISTS,
        ),
        Property("what is better is pulled up", points_the_right_way),
        Property("a constant changes nothing", a_constant_is_gone),
        Property("on average it is the gradient", right_in_the_mean),
        Property("it saves variance", saves_variance),
        same_as(
            lambda rewards: [
                r - (sum(rewards) - r) / (len(rewards) - 1) for r in rewards
            ],
            inputs=LISTS,
            name="each is compared with the mean of the others",
            what="the advantages",
        ),
    ],
    keeps_inputs=True,
    right="The same gradient on average, and far less spread.",
)


# %% tags=["wrong"] exercise="leave_one_out" says="0.667 times the exact gradient"
def leave_one_out(rewards):
    mean = sum(rewards) / len(rewards)
    return [r - mean for r in rewards]


# %% tags=["wrong"] exercise="leave_one_out" says="times the exact gradient"
def leave_one_out(rewards):
    mean = sum(rewards) / len(rewards)
    spread = (sum((r - mean) ** 2 for r in rewards) / len(rewards)) ** 0.5
    return [(r - mean) / (spread + 1e-6) for r in rewards]


# %% tags=["wrong"] exercise="leave_one_out" says="it is pushed down"
def leave_one_out(rewards):
    total, others = sum(rewards), len(rewards) - 1
    return [(total - r) / others - r for r in rewards]


# %% tags=["wrong"] exercise="leave_one_out" says="a constant changes nothing"
def leave_one_out(rewards):
    return [r - 0.5 for r in rewards]


# %% [markdown]
# With the whole mean the gradient comes out (n - 1) / n times as long. That is a bias, but a
# harmless one: the direction is the same, and the learning rate takes care of the length. GRPO, in
# lesson 05, does just that. Now the strip, with and without a baseline, and the lines of two
# trainings, all with 3 added to every reward.

# %%
three = Bandit(bandit.pays, added=3.0)
kinds = {"no baseline": "none", "mean of the others": "others"}
paths, spreads = {}, {}
for name, kind in kinds.items():
    rng = np.random.default_rng(0)
    path = three.train(300, 0.2, 8, kind, rng)
    paths[name] = path[:, three.best].tolist()
    drawn = three.estimates(start, 8, kind, rng, 200)
    spreads[name] = drawn[:, three.best]
lab.show_figure(strip_figure(spreads, exact, "gradient for the best arm"))
lab.show_figure(path_figure(paths, "The best arm", "probability (0 to 1)"))

# %% [markdown]
# ## 6. Failure card: it settles on whatever it tried first
#
# All rewards are above 0, there is no baseline, and the steps are large. Then whatever is drawn is
# made likelier, so that it is drawn more often, and so on. Some arm wins, and not by merit. How
# often? We train 100 policies, and count.


# %%
def settled_on(kind, added, seeds=100):
    """How many of the policies settle on each arm, or on none."""
    arms = Bandit(bandit.pays, added=added)
    won = [0, 0, 0, 0, 0]
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        last = arms.train(100, 0.5, 8, kind, rng)[-1]
        won[int(last.argmax()) if last.max() > 0.9 else 4] += 1
    return won


print("settled on arm        1   2   3   4  none   (arm 3 pays most)")
for kind in ("none", "others"):
    for added in (0, 10):
        won = settled_on(kind, added)
        print(f"{kind:<7} {added:>2} added ", *(f"{n:3}" for n in won))
lessons.failure_card(
    "It settles on whatever it tried first",
    see="Within a few steps all answers are alike. The entropy falls to 0 "
    "and stays there, the reward is flat, and another seed ends elsewhere.",
    cause="All rewards are above 0 and nothing is taken away, so every "
    "draw is pulled up, the bad ones too; large steps do the rest.",
    do="Take a baseline away, such as the mean of the others. Lower the "
    "learning rate, or draw a larger batch.",
)

# %% [markdown]
# ## 7. One token: four numbers become 595
#
# Now a language model. `tiny` is asked to sort three numbers, and has begun its answer already:
# `<answer>`. Which token comes next? There are 595 of them, so this is a bandit with 595 arms. An
# arm pays 1 if it is the first digit of the right answer. The preferences are called *logits*
# here, and they are not free: weights of the model make them.

# %%
policy = rlkit.Policy.load("tiny", quantize="nf4", lora=rlkit.LoraSpec())
untouched, at_first = policy.snapshot(), policy.state_dict()
domain = rlkit.get_domain("sort")
problem = list(itertools.islice(domain.stream(seed=3), 12))[11]
words = policy.tokenizer
begun = words("<answer>", add_special_tokens=False).input_ids
answer = problem.columns["answer"]
right = words(answer, add_special_tokens=False).input_ids[0]
ids_1P = torch.tensor([policy.encode(problem) + begun])


def next_logits():
    """The 595 preferences for the token after the prompt."""
    return policy.model(input_ids=ids_1P).logits[0, -1].float()


logits_V = next_logits().detach().requires_grad_()
logits_V.log_softmax(-1)[right].backward()
ours_V = scores(logits_V.detach().numpy(), [right])[0]
gap = np.abs(logits_V.grad.numpy() - ours_V).max()
print(problem.question, "->", answer)
print(
    f"{len(ours_V)} arms; torch and our score function differ by {gap:.1e}"
)

# %% [markdown]
# The same formula: 1 minus the probability for the token that was drawn, minus the probability for
# every other. `backward()` goes on from there, through the layers, to the weights; that is the
# chain rule and nothing new. So we can train it with five lines of the bandit.

# %%
before_V = next_logits().softmax(-1).detach()
draw = torch.Generator().manual_seed(0)
adam = torch.optim.Adam(policy.trainable().values(), lr=2e-3)
for _ in range(12):
    logprobs_V = next_logits().log_softmax(-1)
    tokens_N = torch.multinomial(
        logprobs_V.exp(), 16, replacement=True, generator=draw
    )
    rewards_N = (tokens_N == right).float()
    others_N = (rewards_N.sum() - rewards_N) / 15
    loss = -((rewards_N - others_N) * logprobs_V[tokens_N]).mean()
    adam.zero_grad()
    loss.backward()
    adam.step()
after_V = next_logits().softmax(-1).detach()
top = before_V.topk(4).indices.tolist()
figure = probability_figure(
    after_V[top].tolist(),
    [f"token {words.decode([t])!r}" for t in top],
    before_K=before_V[top].tolist(),
    title=f"First token; right is {words.decode([right])!r}",
)
lab.show_figure(figure)
policy.restore(untouched)

# %% [markdown]
# ## 8. A whole answer
#
# An answer is many draws, one after the other. Its probability is a product, so its
# log-probability is a **sum** over its tokens, and so is the gradient. One reward comes at the
# end; every token of the answer gets it.
#
# $$\nabla \log \pi(\text{answer}) = \sum_t \nabla \log \pi(\text{token}_t)$$

# %%
group = policy.generate([problem], 1, domain.max_new_tokens)[0]
rollout = group.rollouts[0]
with torch.no_grad():
    scored = policy.score([rollout])
for token, logprob in zip(
    rollout.completion_ids, scored.logprobs_NT[0].tolist(), strict=True
):
    print(f"{words.decode([token])!r:<12} {logprob:+.4f} nats")
total = scored.logprobs_NT[0].sum().item()
print(
    f"the whole answer {total:+.4f} nats, probability {np.exp(total):.3f}"
)

# %% [markdown]
# ### Exercise 4: the log-probability of an answer
#
# Here sits the commonest bug of this whole field. The model reads `ids_NL`, prompt and answer in
# one row, and gives `logits_NLV`: N answers, L places, V tokens. **The logits at a place speak of
# the token at the next place.** `mask_NL` is true where a token belongs to the answer; prompts and
# padding are false.
#
# Give the N log-probabilities: of each token of the answer, summed.


# %% tags=["exercise"] exercise="sequence_logprob"
def sequence_logprob(logits_NLV, ids_NL, mask_NL):
    """The log-probability of each answer, in nats, of shape (N,)."""
    return ...  # TODO: log_softmax, gather, mask, sum


lesson.check("sequence_logprob", sequence_logprob)


# %% tags=["solution"] exercise="sequence_logprob"
def sequence_logprob(logits_NLV, ids_NL, mask_NL):
    """The log-probability of each answer, in nats, of shape (N,)."""
    logprobs_NLV = logits_NLV[:, :-1].log_softmax(-1)  # no next: no last
    next_NL = ids_NL[:, 1:]  # what the place before speaks of
    chosen_NL = logprobs_NLV.gather(-1, next_NL[:, :, None])[:, :, 0]
    return torch.where(mask_NL[:, 1:], chosen_NL, 0.0).sum(-1)


# %% tags=["checks"] exercise="sequence_logprob"
import torch

from rlkit.lessons import Exercise, Property, close, holds, shape


def picked(logits, ids, mask, shift_ids=1, shift_mask=1):
    """The sum as it should be, or one place off on purpose."""
    width = ids.shape[1] - 1
    logprobs = logits[:, :-1].log_softmax(-1)
    of = ids[:, shift_ids : shift_ids + width, None]
    chosen = logprobs.gather(-1, of)[:, :, 0]
    kept = mask[:, shift_mask : shift_mask + width]
    return torch.where(kept, chosen, 0.0).sum(-1)


def batches():
    draw = torch.Generator().manual_seed(0)
    found = []
    for rows, places in ((1, 6), (3, 9), (4, 12)):
        logits = torch.randn(rows, places, 11, generator=draw)
        ids = torch.randint(0, 11, (rows, places), generator=draw)
        mask = torch.zeros(rows, places, dtype=torch.bool)
        for i in range(rows):
            mask[i, 2 + i : places - 1 - i // 2] = True
        found.append((logits, ids, mask))
    return found


def one_for_each(value, logits, ids, mask):
    shape(value, (len(ids),), what="the log-probabilities")


def no_probability_above_one(value, logits, ids, mask):
    highest = float(value.max())
    holds(
        highest <= 1e-6,
        f"one of them is {highest:+.3f}, so the probability is above 1: "
        "logits are no log-probabilities yet",
    )


def outside_counts_nothing(value, logits, ids, mask):
    every = picked(logits, ids, torch.ones_like(mask))
    holds(
        not torch.allclose(value, every, atol=1e-5),
        "the prompt and the padding are in the sum: what is the mask for?",
    )


def in_its_place(value, logits, ids, mask):
    same = picked(logits, ids, mask, 0, 0)
    holds(
        not torch.allclose(value, same, atol=1e-5),
        "it is one place off: this is what the logits at a place say of "
        "the token at that very place, which the model has read already",
    )


def masked_in_its_place(value, logits, ids, mask):
    late = picked(logits, ids, mask, 1, 0)
    holds(
        not torch.allclose(value, late, atol=1e-5),
        "the tokens are right, but the mask is one place off: the first "
        "token of the answer is left out, and one behind its end is in",
    )


def a_sum(value, logits, ids, mask):
    wanted = picked(logits, ids, mask)
    mean = wanted / mask.sum(-1)
    holds(
        not torch.allclose(value, mean, atol=1e-5),
        "this is the mean over the tokens; the logarithm of a product is "
        "a sum",
    )
    close(value, wanted, 1e-5, what="the log-probability")


EXERCISE = Exercise(
    "sequence_logprob",
    title="The log-probability of an answer",
    hints=(
        "Write down L = 4 places. Which logits speak of the token at "
        "place 2? Which of no token that you have?",
        "`logits_NLV[:, :-1]` speaks of `ids_NL[:, 1:]`; the mask belongs "
        "to the tokens, so it is cut as they are.",
        "`log_softmax(-1)` of the first, `.gather(-1, next[:, :, None])"
        "[:, :, 0]`, times `mask_NL[:, 1:]`, `.sum(-1)`.",
    ),
    where="here",
    inputs=batches(),
    properties=[
        Property("there is one number for each answer", one_for_each),
        Property("no probability is above 1", no_probability_above_one),
        Property("what is outside counts nothing", outside_counts_nothing),
        Property("logits speak of the next token", in_its_place),
        Property("the mask is in its place", masked_in_its_place),
        Property("it is the sum over the answer's tokens", a_sum),
    ],
    keeps_inputs=True,
    right="Every token in its place. Half of all bugs here are gone.",
)


# %% tags=["wrong"] exercise="sequence_logprob" says="which the model has read already"
def sequence_logprob(logits_NLV, ids_NL, mask_NL):
    logprobs_NLV = logits_NLV[:, :-1].log_softmax(-1)
    chosen_NL = logprobs_NLV.gather(-1, ids_NL[:, :-1, None])[:, :, 0]
    return torch.where(mask_NL[:, :-1], chosen_NL, 0.0).sum(-1)


# %% tags=["wrong"] exercise="sequence_logprob" says="the mask is one place off"
def sequence_logprob(logits_NLV, ids_NL, mask_NL):
    logprobs_NLV = logits_NLV[:, :-1].log_softmax(-1)
    chosen_NL = logprobs_NLV.gather(-1, ids_NL[:, 1:, None])[:, :, 0]
    return torch.where(mask_NL[:, :-1], chosen_NL, 0.0).sum(-1)


# %% tags=["wrong"] exercise="sequence_logprob" says="what is the mask for"
def sequence_logprob(logits_NLV, ids_NL, mask_NL):
    logprobs_NLV = logits_NLV[:, :-1].log_softmax(-1)
    chosen_NL = logprobs_NLV.gather(-1, ids_NL[:, 1:, None])[:, :, 0]
    return chosen_NL.sum(-1)


# %% tags=["wrong"] exercise="sequence_logprob" says="the logarithm of a product"
def sequence_logprob(logits_NLV, ids_NL, mask_NL):
    logprobs_NLV = logits_NLV[:, :-1].log_softmax(-1)
    chosen_NL = logprobs_NLV.gather(-1, ids_NL[:, 1:, None])[:, :, 0]
    kept_NL = mask_NL[:, 1:]
    return torch.where(kept_NL, chosen_NL, 0.0).sum(-1) / kept_NL.sum(-1)


# %% tags=["wrong"] exercise="sequence_logprob" says="logits are no log-probabilities"
def sequence_logprob(logits_NLV, ids_NL, mask_NL):
    chosen_NL = logits_NLV[:, :-1].gather(-1, ids_NL[:, 1:, None])[:, :, 0]
    return torch.where(mask_NL[:, 1:], chosen_NL, 0.0).sum(-1)


# %% [markdown]
# ### Is there a 2 in it?
#
# You may read that the gradient of the *ratio* $\pi / \pi_\text{old}$, which lesson 00 used and
# PPO is made of, is $2\, \nabla \log \pi$ at the start of an update. Is that so? Let the machine
# say it, on all weights of the adapter.

# %%
rollouts = policy.generate([problem], 8, domain.max_new_tokens)[0].rollouts


def gradient_of(make):
    """The gradient by all trained weights, as one long vector."""
    policy.model.zero_grad()
    logprobs_N = policy.score(rollouts).logprobs_NT.sum(-1)
    make(logprobs_N).mean().backward()
    return torch.cat(
        [p.grad.flatten() for p in policy.trainable().values()]
    )


of_log = gradient_of(lambda logprobs_N: logprobs_N)
of_ratio = gradient_of(lambda now_N: torch.exp(now_N - now_N.detach()))
factor = (of_ratio @ of_log / (of_log @ of_log)).item()
print(
    f"{len(of_log):,} weights; gradient of the ratio, by that of the log:"
)
print(f"{factor:.6f}, and the rest differs by")
print(f"{(of_ratio - of_log).abs().max().item():.1e}")
assert abs(factor - 1) < 1e-5

# %% [markdown]
# ## 9. The same spread, on a language model
#
# Is a baseline worth as much with 200,000 weights? We look along one direction, that of the
# gradient itself, and use finite differences once more: the weights are moved by a hair along it,
# to and fro, and each of 128 answers says how its log-probability moved. That is its score along
# this direction. Then 200 batches of 16 are drawn from the 128.

# %%
problems = domain.held_out(16, 1)
groups = policy.generate(problems, 8, domain.max_new_tokens)
rollouts = rlkit.policy.flatten(groups)
known = [r.problem.columns["answer"] for r in rollouts]
rewards_N = np.array(
    rlkit.exact_answer(completions=[r.text for r in rollouts], answer=known)
)
above_N = torch.tensor(rewards_N - rewards_N.mean(), dtype=torch.float32)
direction = gradient_of(lambda logprobs_N: above_N * logprobs_N)
direction /= direction.norm()


@torch.no_grad()
def moved(hair):
    """Log-probabilities with the weights moved along the direction."""
    torch.nn.utils.vector_to_parameters(
        centre + hair * direction, policy.trainable().values()
    )
    return policy.score(rollouts).logprobs_NT.sum(-1).double().numpy()


weights = policy.trainable().values()
centre = torch.nn.utils.parameters_to_vector(weights).detach().clone()
scores_N = (moved(0.05) - moved(-0.05)) / 0.1
policy.restore(untouched)

# %%
rng = np.random.default_rng(0)
batches_RN = rng.integers(0, len(rewards_N), (200, 16))
by_kind = {}
for added in (0, 3):
    drawn_RN = rewards_N[batches_RN] + added
    others_RN = (drawn_RN.sum(1, keepdims=True) - drawn_RN) / 15
    for name, b in (("no baseline", 0.0), ("others", others_RN)):
        estimates_R = ((drawn_RN - b) * scores_N[batches_RN]).mean(1)
        by_kind[f"{added} added, {name}"] = estimates_R
        print(f"{added} added, {name:<12} spread {estimates_R.std():.3f}")
del by_kind["0 added, others"]  # the same dots as with 3 added
unit = "gradient along one direction"
lab.show_figure(strip_figure(by_kind, None, unit))

# %% [markdown]
# With a baseline it does not matter what is added: both spreads are the same. Without one, 3 more on
# every reward, and the gradient drowns. Even its mean is off in the caption: the 128 answers are a
# sample, too, and their mean score is 0 in the long run only; three times what is left is in it.
#
# And with nothing added? There the two are about alike: a 0 for a wrong answer works as a baseline
# of its own, and the mean of the others jumps about, too.
#
# ## 10. Train it
#
# Two runs of the kit's loop, the same seed, the same settings. The reward is 4 for a right answer
# and 3 for a wrong one. One objective is `RLOO`, which is REINFORCE with the mean of the others.
# The other is the same without its baseline.

# %%
from rlkit.objectives import RLOO
from rlkit.rewards import Reward

with_baseline = RLOO()
without = RLOO(baseline="none")
print("they differ in:", with_baseline.difference(without))


@Reward
def three_more(completions, **columns):
    """4 for a right answer, 3 for a wrong one."""
    paid = rlkit.exact_answer(completions=completions, **columns)
    return [None if p is None else p + 3 for p in paid]


guess_without = lesson.predict(
    "without_baseline",
    "tiny sorts about 40 % right. What will it be after the run without "
    "a baseline?",
    low=0,
    high=1,
    unit="of all problems",
)
guess_without


# %%
def new_loop(objective):
    policy.restore(untouched)
    policy.load_state_dict(at_first)
    config = rlkit.LoopConfig(problems_per_step=8, group_size=8, seed=0)
    return rlkit.ClosedLoop(
        policy, ["sort"], objective, config, reward=three_more
    )


loop = new_loop(without)
before = loop.evaluate(HELD_OUT).pass_at_1
run_without = lab.start(loop, STEPS)
run_without.wait()
plain = loop.evaluate(HELD_OUT).pass_at_1

loop = new_loop(with_baseline)
board = lab.Dashboard(loop)
board

# %%
run = lab.start(loop, STEPS)
run.wait()
board.wait()
after = loop.evaluate(HELD_OUT)
board.add_evaluation(after)
lines = {
    "no baseline": [row["pass_rate"] for row in run_without.history],
    "mean of the others": [row["pass_rate"] for row in run.history],
}
figure = path_figure(lines, "Right answers", "share solved (0 to 1)")
guess_without.reveal(figure, plain)

# %% [markdown]
# Nothing but the baseline is different. The run without it is busy, its gradient is not small, and
# yet it goes nowhere, or worse. Here are both on problems that were never trained on, and what the
# run with a baseline writes now:

# %%
print(f"held-out problems solved, before: {before:.2f}")
print(f"without a baseline: {plain:.2f}")
print(f"with the mean of the others: {after.pass_at_1:.2f}")
lab.GroupView.of(loop.batch)

# %% [markdown]
# ## 11. At scale
#
# TRL has the same objective as a trainer of its own. This is shown, not run, here.
#
# ```python
# from trl import RLOOConfig, RLOOTrainer
# trainer = RLOOTrainer(
#     model="Qwen/Qwen3-0.6B",
#     reward_funcs=[rlkit.exact_answer],
#     train_dataset=dataset,  # columns: prompt, answer
#     args=RLOOConfig(num_generations=8, max_completion_length=256),
# )
# ```
#
# ## 12. Four questions

# %%
from rlkit.lessons import Question

two = Question(
    "What is the gradient of the ratio at the old weights?",
    [
        ("2 grad log pi", "You measured it: the factor is 1."),
        ("grad log pi", "There pi / pi_old is 1, so nothing is left."),
        ("0, since the ratio is 1", "Its value is 1; its slope is not 0."),
    ],
    right="b",
)
bias = Question(
    "You take the mean of the whole batch away, its own reward included.",
    [
        ("The gradient points elsewhere.", "Its direction is the same."),
        ("It is shorter by (n - 1) / n.", "A harmless bias, as in GRPO."),
        ("Nothing changes at all.", "Its own reward is in the mean."),
    ],
    right="b",
)

# %%
spread = Question(
    "What does a good baseline change?",
    [
        ("the mean of the estimate", "It stays: the mean score is 0."),
        ("its spread", "So fewer draws do for the same certainty."),
    ],
    right="b",
)
place = Question(
    "The logits at place 7 of a row say how likely ...",
    [
        ("token 7 is", "That one was read to make them."),
        ("token 8 is", "So ids are shifted by one, and the mask too."),
    ],
    right="b",
)
lesson.quiz("policy_gradient", [two, bias, spread, place])
