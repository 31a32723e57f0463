# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   rlkit:
#     title: "GRPO from scratch"
#     promise: >-
#       You will write GRPO as five small functions, train with them, and find them equal to TRL's
#       own numbers.
#     minutes: {fast: 1, full: 3}
#     memory_mb: 1400
#     needs:
#       - to read Python and PyTorch
#       - lesson 04, for the score function, the baseline and the mask
#     objectives:
#       - write GRPO in five functions, sample, score, advantage, log-probabilities, loss
#       - say why the printed loss is about 0 while the model learns, and what to watch instead
#       - tell GRPO from Dr. GRPO, and a mean over tokens from a mean over answers
#       - skip groups that teach nothing, and measure what that saves
#       - compute the k3 estimate of a divergence without losing its digits
#     recap:
#       - GRPO is REINFORCE with the group as baseline, a ratio, and a clip.
#       - The printed loss says nothing. Watch the reward, the length of the gradient, and the
#         share of groups without contrast.
#       - What a loss is divided by decides who is blamed, the short answer or the long one.
#       - A mask that is one place off raises no alarm. Read which tokens are pulled.
#     sources:
#       - >-
#         GRPO: Shao et al., *DeepSeekMath*, [arXiv 2402.03300](https://arxiv.org/abs/2402.03300)
#       - >-
#         Two divisions taken out: Liu et al., *Understanding R1-Zero-like training*,
#         [arXiv 2503.20783](https://arxiv.org/abs/2503.20783)
#       - >-
#         The mean over tokens: Yu et al., *DAPO*,
#         [arXiv 2503.14476](https://arxiv.org/abs/2503.14476)
#       - >-
#         Why the loss starts at 0: [open-r1 issue
#         239](https://github.com/huggingface/open-r1/issues/239); an exactly zero gradient:
#         [mlx-lm-lora issue 55](https://github.com/Goekdeniz-Guelmez/mlx-lm-lora/issues/55)
#       - >-
#         Estimators of a divergence: Schulman, *Approximating KL divergence*,
#         [note of 2020](http://joschu.net/blog/kl-approx.html)
# ---

# %% [markdown]
# ## 1. A question first
#
# GRPO compares an answer with its *group*: the other answers to the same problem. A group that is
# all wrong, or all right, teaches nothing. How often that happens depends on two numbers only, the
# share $p$ of right answers and the size $G$ of a group:
#
# $$P(\text{contrast}) = 1 - p^G - (1-p)^G$$
#
# Take a hard problem: one answer of twenty is right, $p = 0.05$. How large must a group be, so that
# at least half of all groups teach something?

# %% tags=["setup"]
import itertools
import time

import torch

from rlkit import lab

BY_HAND = lessons.pick(fast=8, full=20)  # updates with our own functions
STEPS = lessons.pick(fast=20, full=60)  # updates of the kit's loop
HELD_OUT = lessons.pick(fast=100, full=200)  # never trained on
SMOL = lessons.pick(fast=0, full=3)  # updates of a real language model
guess = lesson.predict(
    "group_size",
    "One answer of twenty is right. How many answers must a group have, "
    "so that half of the groups have contrast?",
    low=2,
    high=40,
    unit="answers",
)
guess

# %% [markdown]
# ## 2. The idea, on one group
#
# Each button below is one answer; press it to make it right or wrong. Above, you see the
# advantages. Below, the *pull*: how strongly one token of that answer is made likelier, or less
# likely. Try this:
#
# 1. One of eight is right, then seven of eight, then all. Which answer is pulled hardest, and when?
# 2. Take the tick away: without the division by the spread this is **Dr. GRPO**. Compare one of
#    eight with four of eight. GRPO pulls rare events harder; Dr. GRPO does not.
# 3. Give wrong answers 40 tokens and right ones 5. Let the loss be a *mean of each answer first*:
#    now a token of a long wrong answer is blamed eight times less than one of a short right answer
#    is praised. Being wrong at length is cheap! By *mean over all tokens* every token counts alike.
# 4. Move the share $p$ and look at the curve. It answers the question above.

# %%
from IPython.display import display

from rlkit.lab.group_panel import contrast

display(lab.GroupPanel(rewards=(1, 0, 0, 0, 0, 0, 0, 0), p=0.05))
sizes = {g: contrast(0.05, g) for g in range(2, 41)}
smallest = next(g for g, share in sizes.items() if share >= 0.5)
told = ", ".join(f"{g}: {sizes[g]:.0%}" for g in (2, 4, 8, 14, 16, 32))
guess.reveal(f"groups with contrast, by size: {told}", smallest)

# %% [markdown]
# ## 3. Sample
#
# Now we build it, in five functions. The first draws $G$ answers to one prompt, token by token, and
# keeps the log-probability of each token **at the moment it was drawn**. Nothing is hidden: the
# model reads all so far, we take the last place, draw, append. Names carry their axes: G answers,
# T tokens of an answer, V tokens of the vocabulary.

# %%
policy = rlkit.Policy.load("tiny", quantize="nf4", lora=rlkit.LoraSpec())
untouched, at_first = policy.snapshot(), policy.state_dict()
model, words, END = policy.model, policy.tokenizer, policy.end_ids[0]
draw = torch.Generator().manual_seed(0)


@torch.no_grad()
def sample(prompt, G=8, longest=12):
    """G answers to one prompt: ids and log-probabilities, (G, T)."""
    ids_GL, logprobs = torch.tensor([prompt] * G), []
    for _ in range(longest):
        logits_GV = model(input_ids=ids_GL).logits[:, -1].float()
        logprobs_GV = logits_GV.log_softmax(-1)
        drawn_G1 = torch.multinomial(logprobs_GV.exp(), 1, generator=draw)
        logprobs.append(logprobs_GV.gather(-1, drawn_G1))
        ids_GL = torch.cat([ids_GL, drawn_G1], dim=1)
    return ids_GL[:, len(prompt) :], torch.cat(logprobs, dim=1)


domain = rlkit.get_domain("sort")
problem = next(domain.stream(seed=3))
ids_GT, old_GT = sample(policy.encode(problem))
print(problem.question, "->", problem.columns["answer"])
for row in ids_GT[:3].tolist():
    print(words.convert_ids_to_tokens(row))

# %% [markdown]
# Look at what follows `<|end|>`. Rows that have ended go on, with rubbish, because a batch is a
# rectangle. That rubbish must not be scored, and must not be trained on. So we need a **mask**.
#
# ### Exercise 1: the mask
#
# `rows` is a list of rows of token ids, `end` the id that ends an answer. Give a list of rows of 0
# and 1. The end mark itself belongs to the answer: the policy chose it, and must learn to stop.
# What stands behind the *first* end mark is rubbish, even if it is an end mark again. A row without
# an end mark was cut off, and all of it counts.


# %% tags=["exercise"] exercise="mask"
def answer_mask(rows, end):
    """1 for each token up to the first end mark, 0 behind it."""
    return ...  # TODO


lesson.check("mask", answer_mask)


# %% tags=["solution"] exercise="mask"
def answer_mask(rows, end):
    """1 for each token up to the first end mark, 0 behind it."""
    masks = []
    for row in rows:
        kept = row.index(end) + 1 if end in row else len(row)
        masks.append([1] * kept + [0] * (len(row) - kept))
    return masks


# %% tags=["checks"] exercise="mask"
from rlkit.lessons import Exercise, Property, equal, holds, random_inputs

END = 2


def wanted(row):
    kept = row.index(END) + 1 if END in row else len(row)
    return [1] * kept + [0] * (len(row) - kept)


def some_rows(rng):
    width = rng.randint(2, 8)
    ids = [2, 2, 5, 6, 7, 8]
    rows = [[rng.choice(ids) for _ in range(width)] for _ in range(4)]
    return rows, END


def rectangle(value, rows, end):
    fits = isinstance(value, (list, tuple)) and len(value) == len(rows)
    holds(
        fits
        and all(len(m) == len(r) for m, r in zip(value, rows, strict=True)),
        "a row of 0 and 1 is expected for each row, and as long as it",
    )


def not_shifted(value, rows, end):
    late = [[0, *wanted(row)[:-1]] for row in rows]
    holds(
        [list(map(int, row)) for row in value] != late,
        "it is shifted by one place: the first token is left out, and "
        "the one behind the end mark is in",
    )


def end_is_in(value, rows, end):
    for mask, row in zip(value, rows, strict=True):
        at = row.index(end)
        holds(
            mask[at] == 1,
            f"in {row} the end mark at place {at} is left out: the policy "
            "would never learn to stop",
        )


def rubbish_is_out(value, rows, end):
    for mask, row in zip(value, rows, strict=True):
        at = row.index(end)
        holds(
            not any(mask[at + 1 :]),
            f"in {row} something behind the first end mark counts: {mask}",
        )


def cut_counts(value, rows, end):
    holds(
        all(all(mask) for mask in value),
        f"{rows[0]} has no end mark and was cut off; all of it counts, "
        f"not {value[0]}",
    )


ENDED = [([[5, 6, 2, 7], [5, 2, 2, 2], [2, 5, 2, 6]], END)]

EXERCISE = Exercise(
    "mask",
    title="The mask of an answer",
    hints=(
        "How many tokens of a row count? Find that number first.",
        "`row.index(end)` is the place of the first end mark, from 0; "
        "`end in row` says whether there is one.",
        "`kept = row.index(end) + 1 if end in row else len(row)`, then "
        "`[1] * kept + [0] * (len(row) - kept)`.",
    ),
    properties=[
        Property("it is as large as the rows", rectangle, ENDED),
        Property("it is in its place", not_shifted, ENDED),
        Property("the end mark counts", end_is_in, ENDED),
        Property("what is behind it does not", rubbish_is_out, ENDED),
        Property(
            "a row that was cut off counts",
            cut_counts,
            [([[5, 6, 7, 8]], END)],
        ),
        Property(
            "it is right on rows at random",
            lambda value, rows, end: equal(
                [list(map(int, row)) for row in value],
                [wanted(row) for row in rows],
                "the mask",
            ),
            random_inputs(some_rows, 12),
        ),
    ],
    keeps_inputs=True,
    right="The end is found by its place, never by what it looks like.",
)


# %% tags=["wrong"] exercise="mask" says="would never learn to stop"
def answer_mask(rows, end):
    masks = []
    for row in rows:
        kept = row.index(end) if end in row else len(row)
        masks.append([1] * kept + [0] * (len(row) - kept))
    return masks


# %% tags=["wrong"] exercise="mask" says="something behind the first end mark counts"
def answer_mask(rows, end):
    masks = []
    for row in rows:
        last = len(row) - row[::-1].index(end) if end in row else len(row)
        masks.append([1] * last + [0] * (len(row) - last))
    return masks


# %% tags=["wrong"] exercise="mask" says="it is shifted by one place"
def answer_mask(rows, end):
    masks = []
    for row in rows:
        kept = row.index(end) + 1 if end in row else len(row)
        full = [0] + [1] * kept + [0] * len(row)
        masks.append(full[: len(row)])
    return masks


# %% tags=["wrong"] exercise="mask" says="has no end mark and was cut off"
def answer_mask(rows, end):
    masks = []
    for row in rows:
        kept = row.index(end) + 1 if end in row else 0
        masks.append([1] * kept + [0] * (len(row) - kept))
    return masks


# %% [markdown]
# ## 4. Score, and compare
#
# The kit's `completion_mask` does what you wrote. With it, the second function turns ids into text
# and asks a reward, and the third compares each reward with its group.

# %%
from rlkit.policy.masks import completion_mask


def mask_of(ids_GT):
    """True for every token of an answer."""
    return torch.tensor(completion_mask(ids_GT.tolist(), {END})[0]).bool()


def score(ids_GT, mask_GT, problem):
    """What each answer is worth: (G,)."""
    rows = [i[m].tolist() for i, m in zip(ids_GT, mask_GT, strict=True)]
    texts = [words.decode(r, skip_special_tokens=True) for r in rows]
    answer = [problem.columns["answer"]] * len(texts)
    return torch.tensor(
        rlkit.exact_answer(completions=texts, answer=answer)
    )


# %%
def advantage(rewards_G, std=True):
    """How far each reward stands above its group: (G,)."""
    centred_G = rewards_G - rewards_G.mean()
    if rewards_G.max() - rewards_G.min() < 1e-6:
        return torch.zeros_like(rewards_G)  # no contrast
    return centred_G / (rewards_G.std() + 1e-4) if std else centred_G


mask_GT = mask_of(ids_GT)
rewards_G = score(ids_GT, mask_GT, problem)
print("rewards ", rewards_G.tolist())
print("GRPO    ", [round(a, 2) for a in advantage(rewards_G).tolist()])
print(
    "Dr. GRPO", [round(a, 2) for a in advantage(rewards_G, False).tolist()]
)
print("all alike", advantage(torch.ones(3)).tolist())

# %% [markdown]
# ## 5. Log-probabilities, and the loss
#
# The fourth function asks the policy *as it is now* how likely those very tokens are, with a
# gradient. Prompt and answer are read at once, and the logits one place before each token speak of
# it (lesson 04). The fifth is the loss. It has a **ratio**, now to then, and a clip, so that
# nothing is gained from moving a token by more than a fifth:
#
# $$\text{loss} = -\frac{1}{\text{tokens}} \sum_{i}\sum_{t} \min\big(\rho_{i,t} A_i,\;
# \operatorname{clip}(\rho_{i,t}, 1 - \epsilon, 1 + \epsilon)\, A_i\big), \qquad
# \rho = \frac{\pi}{\pi_\text{old}}$$


# %%
def token_logprobs(prompt, ids_GT):
    """Log-probabilities of the tokens under the policy now: (G, T)."""
    asked_GP = torch.tensor([prompt] * len(ids_GT))
    logits_GLV = model(input_ids=torch.cat([asked_GP, ids_GT], 1)).logits
    before_GTV = logits_GLV[:, len(prompt) - 1 : -1].float()
    chosen_GT1 = before_GTV.log_softmax(-1).gather(-1, ids_GT[:, :, None])
    return chosen_GT1[:, :, 0]


def loss(now_GT, old_GT, advantages_G, mask_GT, epsilon=0.2):
    """The clipped loss of a group, summed over its tokens."""
    A_G1 = advantages_G[:, None]
    ratio_GT = torch.exp(now_GT - old_GT)
    held_GT = ratio_GT.clamp(1 - epsilon, 1 + epsilon)
    gain_GT = torch.minimum(ratio_GT * A_G1, held_GT * A_G1)
    return -torch.where(mask_GT, gain_GT, 0.0).sum()


now_GT = token_logprobs(policy.encode(problem), ids_GT)
print(f"largest |log ratio|: {(now_GT - old_GT).abs().max():.1e}")
for value in (0.5, 1.0, 1.5):  # of one good token
    now = torch.tensor([[value]]).log().requires_grad_()
    loss(now, 0 * now.detach(), torch.ones(1), now > -9).backward()
    print(f"ratio {value}: pull {0 - now.grad.item():.2f}")

# %% [markdown]
# The ratio of what was just drawn is 1, up to rounding. **Check that in every trainer you meet**:
# half of all bugs show there. And a good token that is 1.5 times as likely already is pulled no
# more.
#
# ### Exercise 2: the loss is 0. Does it learn?
#
# In public logs of GRPO the loss starts at 0.0, and people think that their run is broken. Compute
# it, at a ratio of 1, for one group: `advantages` and `lengths` are lists. Give a pair: the printed
# loss (the mean over all tokens, with its minus), and the list of *pulls*: for each answer, the
# slope of minus the loss by the log-probability of **one** of its tokens. The slope of the ratio is
# 1 there.


# %% tags=["exercise"] exercise="printed"
def printed_and_pulls(advantages, lengths):
    """The printed loss, and the pull on a token of each answer."""
    return ...  # TODO: a number and a list


lesson.check("printed", printed_and_pulls)


# %% tags=["solution"] exercise="printed"
def printed_and_pulls(advantages, lengths):
    """The printed loss, and the pull on a token of each answer."""
    tokens = sum(lengths)
    pairs = zip(advantages, lengths, strict=True)
    printed = -sum(a * n for a, n in pairs) / tokens
    return printed, [a / tokens for a in advantages]


# %% tags=["checks"] exercise="printed"
import torch

from rlkit.lessons import Exercise, Property, close, holds, random_inputs


def by_autograd(advantages, lengths):
    A = torch.tensor(advantages, dtype=torch.float64)[:, None]
    mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    logprobs = torch.zeros(mask.shape, dtype=torch.float64)
    logprobs.requires_grad_()
    ratio = torch.exp(logprobs - logprobs.detach())
    total = -(ratio * A)[mask].mean()
    total.backward()
    return total.item(), (-logprobs.grad[:, 0]).tolist()


def a_pair(value, advantages, lengths):
    holds(
        isinstance(value, (list, tuple)) and len(value) == 2,
        "a pair is expected: a number and a list",
    )
    holds(
        isinstance(value[1], (list, tuple))
        and len(value[1]) == len(advantages),
        f"there must be {len(advantages)} pulls, one for each answer",
    )


def pulls_are_not_nothing(value, advantages, lengths):
    holds(
        any(abs(pull) > 1e-9 for pull in value[1]),
        "all pulls are 0, as if nothing were learned; but the slope of a "
        "sum may be large where its value is 0",
    )
    best = max(range(len(advantages)), key=lambda i: advantages[i])
    holds(
        value[1][best] > 0,
        f"the best answer is pulled by {value[1][best]:+.4f}: down. The "
        "pull is the slope of minus the loss",
    )


def right_loss(value, advantages, lengths):
    mean = -sum(advantages) / len(advantages)
    printed, _ = by_autograd(advantages, lengths)
    holds(
        abs(value[0] - printed) < 1e-9 or abs(value[0] - mean) > 1e-9,
        f"the loss is {value[0]:+.4f} and {printed:+.4f} is due: every "
        "token counts, so a long answer counts more than a short one",
    )
    close(value[0], printed, 1e-9, what="the printed loss")


def right_pulls(value, advantages, lengths):
    _, pulls = by_autograd(advantages, lengths)
    close(list(value[1]), pulls, 1e-9, what="the pulls")


def some_group(rng):
    size = rng.randint(2, 6)
    above = [rng.choice([-0.5, 1.5, 0.25]) for _ in range(size)]
    return above, [rng.randint(1, 9) for _ in range(size)]


EQUAL = ([1.5, -0.5, -0.5, -0.5], [4, 4, 4, 4])
UNEQUAL = ([1.5, -0.5, -0.5, -0.5], [2, 8, 4, 6])

EXERCISE = Exercise(
    "printed",
    title="The loss is 0. Does it learn?",
    hints=(
        "At a ratio of 1, what is the loss of one token of answer i?",
        "Each of the n_i tokens of answer i adds -A_i, and the sum is "
        "divided by all tokens. What is the slope by one log-probability?",
        "`-sum(a * n ...) / sum(lengths)`, and `a / sum(lengths)` each.",
    ),
    properties=[
        Property("it is a loss and pulls", a_pair, [EQUAL]),
        Property(
            "good answers are pulled up", pulls_are_not_nothing, [EQUAL]
        ),
        Property(
            "the printed loss counts tokens",
            right_loss,
            [EQUAL, UNEQUAL, *random_inputs(some_group, 8)],
        ),
        Property(
            "the pulls are those of autograd",
            right_pulls,
            [EQUAL, UNEQUAL, *random_inputs(some_group, 8)],
            hint="what is the loss divided by?",
        ),
    ],
    right="Of equal lengths the loss is exactly 0, and the pulls are not.",
)


# %% tags=["wrong"] exercise="printed" says="as if nothing were learned"
def printed_and_pulls(advantages, lengths):
    tokens = sum(lengths)
    pairs = zip(advantages, lengths, strict=True)
    printed = -sum(a * n for a, n in pairs) / tokens
    return printed, [printed for _ in advantages]


# %% tags=["wrong"] exercise="printed" says="a long answer counts more"
def printed_and_pulls(advantages, lengths):
    tokens = sum(lengths)
    printed = -sum(advantages) / len(advantages)
    return printed, [a / tokens for a in advantages]


# %% tags=["wrong"] exercise="printed" says="what is the loss divided by"
def printed_and_pulls(advantages, lengths):
    tokens = sum(lengths)
    pairs = list(zip(advantages, lengths, strict=True))
    printed = -sum(a * n for a, n in pairs) / tokens
    return printed, [a / n / len(pairs) for a, n in pairs]


# %% tags=["wrong"] exercise="printed" says="the slope of minus the loss"
def printed_and_pulls(advantages, lengths):
    tokens = sum(lengths)
    pairs = zip(advantages, lengths, strict=True)
    printed = -sum(a * n for a, n in pairs) / tokens
    return printed, [-a / tokens for a in advantages]


# %% [markdown]
# ## 6. Train with it
#
# The five functions in a row are a step of GRPO. Watch both columns: the printed loss, and the
# length of the gradient beside it. The last column is the share of groups without contrast; when
# you have seen it, predict how many of the next 16 groups will have none.

# %%
problems = domain.stream(seed=5)


def collect(problem):
    """Everything about one group that a loss needs."""
    prompt = policy.encode(problem)
    ids_GT, old_GT = sample(prompt)
    mask_GT = mask_of(ids_GT)
    rewards_G = score(ids_GT, mask_GT, problem)
    return prompt, ids_GT, old_GT, mask_GT, rewards_G


def put_gradient(batch):
    """Adds the gradient of a batch of groups; gives the printed loss."""
    model.zero_grad()
    tokens = sum(int(mask_GT.sum()) for *_, mask_GT, _ in batch)
    printed = 0.0
    for prompt, ids_GT, old_GT, mask_GT, rewards_G in batch:
        now_GT = token_logprobs(prompt, ids_GT)
        A_G = advantage(rewards_G)
        part = loss(now_GT, old_GT, A_G, mask_GT) / tokens
        part.backward()
        printed += part.item()
    return printed


# %%
adam = torch.optim.Adam(policy.trainable().values(), lr=2e-3)
began = time.perf_counter()
print("step  reward  printed loss  gradient  without contrast")
for step in range(1, BY_HAND + 1):
    batch = [collect(next(problems)) for _ in range(8)]
    printed = put_gradient(batch)
    norm = torch.nn.utils.clip_grad_norm_(policy.trainable().values(), 1.0)
    adam.step()
    rewards_BG = torch.stack([rewards_G for *_, rewards_G in batch])
    dead = (rewards_BG.amax(1) == rewards_BG.amin(1)).float().mean()
    print(
        f"{step:>4} {rewards_BG.mean():7.2f} {printed:+13.4f} {norm:9.2f}"
        f" {dead:17.2f}"
    )
seconds = (time.perf_counter() - began) / BY_HAND
print(f"{seconds:.1f} s a step")
guess_dead = lesson.predict(
    "skipped",
    "Of 16 groups of 8 answers, how many have no contrast?",
    low=0,
    high=16,
    unit="groups",
)
guess_dead

# %% [markdown]
# The loss is small and goes nowhere. It is not exactly 0 only because right and wrong answers differ
# in length. The gradient is there all the time, and the reward moves. **The loss is not a measure
# of progress.** It is there to have a slope, and for nothing else.
#
# ### Exercise 3: skip what teaches nothing
#
# The last column is what TRL logs as `frac_reward_zero_std`. Such a group has a gradient of exactly
# 0, so why score it at all? `rewards` is a list of groups, each a list of rewards. Give the list of
# places, from 0, of the groups that are worth a backward pass: at least two verdicts that differ by
# more than 0.000001. `None` is no verdict, and no 0.


# %% tags=["exercise"] exercise="worth"
def worth_scoring(rewards):
    """Places of the groups that have contrast, from 0."""
    return ...  # TODO


lesson.check("worth", worth_scoring)


# %% tags=["solution"] exercise="worth"
def worth_scoring(rewards):
    """Places of the groups that have contrast, from 0."""
    places = []
    for place, group in enumerate(rewards):
        known = [r for r in group if r is not None]
        if known and max(known) - min(known) > 1e-6:
            places.append(place)
    return places


# %% tags=["checks"] exercise="worth"
from rlkit.lessons import Exercise, Property, holds, random_inputs


def has_contrast(group):
    known = [r for r in group if r is not None]
    return bool(known) and max(known) - min(known) > 1e-6


def keeps(sentence):
    def test(value, rewards):
        left_out = [
            g
            for i, g in enumerate(rewards)
            if has_contrast(g) and i not in value
        ]
        taken = [
            g
            for i, g in enumerate(rewards)
            if i in value and not has_contrast(g)
        ]
        holds(not left_out, f"{left_out[:1]} has contrast and is left out")
        holds(not taken, f"{taken[:1]} is taken: {sentence}")

    return test


def a_list(value, rewards):
    holds(
        isinstance(value, (list, tuple))
        and all(type(place) is int for place in value),
        "a list of places is expected, such as [0, 2]",
    )


def some_groups(rng):
    pool = [0.0, 1.0, 0.5, None]
    return [
        [rng.choice(pool[: rng.randint(1, 4)]) for _ in range(4)]
        for _ in range(6)
    ]


EXERCISE = Exercise(
    "worth",
    title="Skip what teaches nothing",
    hints=(
        "Which two numbers of a group tell whether all of it is alike?",
        "Take the `None` out first; then compare the largest with the "
        "smallest. What if nothing is left?",
        "`known = [r for r in group if r is not None]`, and "
        "`known and max(known) - min(known) > 1e-6`.",
    ),
    properties=[
        Property("it is a list of places", a_list, [([[1, 0], [1, 1]],)]),
        Property(
            "all wrong and all right are skipped",
            keeps("all of it is alike"),
            [([[0, 0, 0], [1, 0, 1], [1, 1, 1], [0, 1, 0]],)],
        ),
        Property(
            "partial credit that is all alike is skipped",
            keeps("all of it is alike"),
            [([[0.5, 0.5, 0.5], [0.5, 0.25, 0.5]],)],
        ),
        Property(
            "no verdict is no contrast",
            keeps("of the verdicts there are, none differs"),
            [([[1, None, 1], [None, None], [1, None, 0], [None, 0]],)],
        ),
        Property(
            "a rounding residue is no contrast",
            keeps("its rewards differ by a rounding residue"),
            [([[0.1 + 0.2, 0.3, 0.3], [0.3, 0.31, 0.3]],)],
        ),
        Property(
            "it is right on groups at random",
            keeps("all of it is alike"),
            [(g,) for g in random_inputs(some_groups, 10)],
        ),
    ],
    keeps_inputs=True,
    right="The kit's own is `rlkit.objectives.alive_groups`.",
)


# %% tags=["wrong"] exercise="worth" says="[1, 1, 1]] is taken"
def worth_scoring(rewards):
    return [i for i, group in enumerate(rewards) if any(group)]


# %% tags=["wrong"] exercise="worth" says="[0.5, 0.5, 0.5]] is taken"
def worth_scoring(rewards):
    def known(group):
        return [r for r in group if r is not None]

    return [
        i
        for i, group in enumerate(rewards)
        if sum(known(group)) not in (0, len(group))
    ]


# %% tags=["wrong"] exercise="worth" says="of the verdicts there are"
def worth_scoring(rewards):
    numbers = [[r or 0 for r in group] for group in rewards]
    return [
        i for i, g in enumerate(numbers) if g and max(g) - min(g) > 1e-6
    ]


# %% tags=["wrong"] exercise="worth" says="a rounding residue"
def worth_scoring(rewards):
    return [
        i
        for i, group in enumerate(rewards)
        if len({r for r in group if r is not None}) > 1
    ]


# %% [markdown]
# What does it save? We collect 16 groups, put the gradient once with all of them and once with
# those that have contrast, and compare time and gradient.

# %%
from rlkit.objectives import alive_groups

batch = [collect(next(problems)) for _ in range(16)]
rewards_BG = torch.stack([rewards_G for *_, rewards_G in batch])
alive_B = alive_groups(rewards_BG)
alive = [g for g, a in zip(batch, alive_B.tolist(), strict=True) if a]
tokens = sum(int(mask_GT.sum()) for *_, mask_GT, _ in batch)
found = {}
for name, part in (("all", batch), ("with contrast", alive)):
    began = time.perf_counter()
    put_gradient(part)
    took = time.perf_counter() - began
    # What all groups are divided by must not change with what is skipped.
    share = sum(int(mask_GT.sum()) for *_, mask_GT, _ in part) / tokens
    weights = policy.trainable().values()
    found[name] = share * torch.cat([w.grad.flatten() for w in weights])
    told = (
        f"{len(part):>2} groups, {share:4.0%} of the tokens, {took:.2f} s"
    )
    found[name + " told"] = f"{name:<14} {told}"
gap = (found["all"] - found["with contrast"]).abs().max().item()
dead = f"frac_reward_zero_std {1 - alive_B.float().mean():.2f}"
lines = [found["all told"], found["with contrast told"], dead]
lines.append(f"largest difference of the two gradients: {gap:.1e}")
guess_dead.reveal("\n".join(lines), 16 - len(alive))

# %% [markdown]
# The gradient is the same, and the time of the skipped groups is saved. Note the line with
# `share`: the loss is still divided by the tokens of *all* groups. Divide by those that are left,
# and a batch with one group left would be followed as if it were a whole one.
#
# ## 7. A leash: the divergence
#
# Many runs add a pull back to where training began, the *reference* $\pi_\text{ref}$: $\beta$ times
# an estimate of the divergence (KL). With $d = \log \pi_\text{ref} - \log \pi$ of a drawn token,
# the usual estimate is called **k3**:
#
# $$\text{k3} = e^{d} - 1 - d$$
#
# It is never below 0, and right on average. But there is a trap. At the start of a run $d$ is tiny,
# and then $e^d - 1$ is tiny, too: a computer that makes $e^d$ first has rounded its digits away.
#
# ### Exercise 4: k3, near 0
#
# `now` and `reference` are tensors of log-probabilities in float32. Give k3 of each token. There is
# a function in torch for $e^d - 1$ that keeps the digits.


# %% tags=["exercise"] exercise="k3"
def k3(now, reference):
    """Schulman's k3 of each token, in nats; never below 0."""
    return ...  # TODO: tensors in, a tensor out


lesson.check("k3", k3)


# %% tags=["solution"] exercise="k3"
def k3(now, reference):
    """Schulman's k3 of each token, in nats; never below 0."""
    d = reference - now
    return torch.expm1(d) - d


# %% tags=["checks"] exercise="k3"
import torch

from rlkit.lessons import Exercise, Property, close, holds, shape


def exact(now, reference):
    d = (reference - now).double()
    return torch.expm1(d) - d


def pairs(*differences):
    d = torch.tensor(differences)
    return [(torch.zeros_like(d), d), (torch.zeros_like(d), -d)]


def as_many(value, now, reference):
    shape(value, tuple(now.shape), what="k3")


def not_below(value, now, reference):
    lowest = float(value.min())
    holds(lowest > -1e-6, f"one is {lowest:+.4f}, and k3 is never below 0")


def not_turned_round(value, now, reference):
    other = exact(reference, now).float()
    holds(
        not torch.allclose(value, other, atol=1e-6),
        "the two are the wrong way round: d is the reference minus now, "
        "so this estimates another divergence",
    )
    half = (0.5 * (reference - now) ** 2).float()
    holds(
        not torch.allclose(value, half, atol=1e-6),
        "this is k2, half of the square; it is near k3 for small d only",
    )
    close(value, exact(now, reference), 1e-5, what="k3")


def keeps_digits(value, now, reference):
    wanted = exact(now, reference)
    wrong = float(((value.double() - wanted) / wanted).abs().max())
    holds(
        wrong < 0.2,
        f"for |d| = {float((reference - now).abs().max()):g} it is off by "
        f"{wrong:.0%} of its value: the digits are lost in e^d - 1",
    )


def has_a_gradient(answer):
    now = torch.tensor([-1.0, -2.0], requires_grad=True)
    value = answer(now, torch.tensor([-1.5, -1.0]))
    (slope,) = torch.autograd.grad(value.sum(), now)
    # d/dnow of e^d - 1 - d with d = ref - now is 1 - e^d.
    wanted = 1 - torch.exp(torch.tensor([-0.5, 1.0]))
    close(slope, wanted, 1e-5, what="its gradient by now")


EXERCISE = Exercise(
    "k3",
    title="k3, near 0",
    hints=(
        "Which of the three terms lose digits when d is very small?",
        "`torch.expm1(x)` is e^x - 1, computed in one go.",
        "`d = reference - now`, then `torch.expm1(d) - d`.",
    ),
    where="here",
    properties=[
        Property("one for each token", as_many, pairs(0.5, 0.1)),
        Property("it is never below 0", not_below, pairs(0.5, 1.0, 2.0)),
        Property(
            "it is k3 of the right two", not_turned_round, pairs(0.5, 1.0)
        ),
        Property(
            "it keeps its digits near 0", keeps_digits, pairs(1e-4, 1e-5)
        ),
        Property("its gradient is right", has_a_gradient),
    ],
    keeps_inputs=True,
    right="The kit's own is `rlkit.objectives.k3`.",
)


# %% tags=["wrong"] exercise="k3" says="the digits are lost"
def k3(now, reference):
    d = reference - now
    return torch.exp(d) - 1 - d


# %% tags=["wrong"] exercise="k3" says="the wrong way round"
def k3(now, reference):
    d = now - reference
    return torch.expm1(d) - d


# %% tags=["wrong"] exercise="k3" says="this is k2"
def k3(now, reference):
    return 0.5 * (reference - now) ** 2


# %% tags=["wrong"] exercise="k3" says="k3 is never below 0"
def k3(now, reference):
    return now - reference


# %% [markdown]
# ### All the sliders at once
#
# We draw a batch, 4 problems and 8 answers each, and freeze it. Then the policy takes one more
# update on other problems, so that its ratios to the frozen batch are no longer 1. Here it scores
# that batch again, with gradient, for every position of the sliders. Try this:
#
# 1. Lower *epsilon*. More tokens are held by the clip, and the gradient gets shorter.
# 2. Raise *beta*. Now answers are pulled back to the reference, too, whatever they earned.
# 3. Move the *temperature* away from 1, at which the answers were drawn. Nothing was trained, and
#    still the ratios run away: sampler and scorer no longer speak of the same distribution.

# %%
from rlkit.policy import flatten


def paid(groups):
    """The reward of each answer, group by group."""
    rows = []
    for group in groups:
        answer = [group.problem.columns["answer"]] * len(group)
        texts = [r.text for r in group.rollouts]
        rows.append(rlkit.exact_answer(completions=texts, answer=answer))
    return rows


frozen = policy.generate(list(itertools.islice(problems, 4)), 8, 12)
put_gradient([collect(next(problems)) for _ in range(8)])
adam.step()
lab.LossPanel(policy, frozen, paid(frozen))

# %% [markdown]
# ## 8. Is it what others compute?
#
# TRL is the trainer that most people use. We take the frozen batch, advantages and loss by *our*
# functions of this notebook, and beside them what TRL's `GRPOTrainer` makes of the same batch: its
# own code from rewards to loss. Only the model's answers are replaced by ours. (Its import takes
# some seconds, and is in this cell only.)

# %%
from rlkit.lab.trl_twin import trl_twin

rollouts, rewards_BG = flatten(frozen), torch.tensor(paid(frozen))
with torch.no_grad():
    scored = policy.score(rollouts)
now_NT = scored.logprobs_NT.requires_grad_()
A_N = torch.cat([advantage(rewards_G) for rewards_G in rewards_BG])
old_NT, mask_NT = scored.behaviour_NT, scored.mask_NT
ours = loss(now_NT, old_NT, A_N, mask_NT) / mask_NT.sum()
ours.backward()
try:
    ids = [r.completion_ids for r in rollouts]
    twin = trl_twin(rewards_BG, ids, now_NT, old_NT, words)
    print(f"loss: ours {ours.item():+.7f}, TRL's {twin.loss:+.7f}")
    for name, mine, theirs in (
        ("advantages", A_N, twin.advantages_N),
        ("gradient", now_NT.grad, twin.gradient_NT),
    ):
        gap = (mine - theirs).abs().max().item()
        print(f"{name}: largest difference {gap:.1e}")
        assert gap < 1e-5
except rlkit.UserError as error:
    print("not compared:", error)

# %% [markdown]
# ## 9. Failure card: exactly zero
#
# A loss of about 0 is healthy. A *gradient* of exactly 0 is not. It was reported of a trainer whose
# ratio was a constant: rewards were logged, adapters were saved, and nothing had been learned. In
# torch one forgotten `detach` does it: old and new come from the same pass, both with a gradient,
# and their difference has none.

# %%
prompt, ids_GT, old_GT, mask_GT, rewards_G = next(
    group for group in batch if len(set(group[-1].tolist())) > 1
)
A_G = advantage(rewards_G)
for name in ("as it should be", "detach forgotten"):
    model.zero_grad()
    now_GT = token_logprobs(prompt, ids_GT)
    old = now_GT.detach() if name == "as it should be" else now_GT
    value = loss(now_GT, old, A_G, mask_GT) / mask_GT.sum()
    value.backward()
    grads = [p.grad.flatten() for p in policy.trainable().values()]
    length = torch.cat(grads).norm().item()
    print(f"{name:<17} loss {value.item():+.1e}  gradient {length:.4f}")
lessons.failure_card(
    "Exactly zero",
    see="Rewards have contrast, the loss looks as always, and grad_norm is "
    "0.0 in every step. The adapter's B matrices stay 0.",
    cause="The ratio is a constant: old and new log-probabilities are one "
    "tensor, or the new ones were made outside of what is differentiated.",
    do="Print grad_norm beside the loss. Keep the old log-probabilities "
    "from sampling, detached. Test that one step changes the weights.",
)

# %% [markdown]
# ## 10. Failure card: one place off
#
# Two bugs that differ by one place, in the logits or in the mask. The first makes noise, if
# somebody looks at the ratio. The second makes none at all: in some groups its gradient is nearly
# the right one, and in others it is not.

# %%
asked_GP = torch.tensor([prompt] * len(ids_GT))
with torch.no_grad():
    logits = model(input_ids=torch.cat([asked_GP, ids_GT], 1)).logits
    off = logits[:, len(prompt) :].log_softmax(-1)  # one place too late
    off_GT = off.gather(-1, ids_GT[:, :, None])[:, :, 0]
    ratio_GT = torch.exp(off_GT - old_GT)[mask_GT]
print(f"logits one place off: smallest ratio {ratio_GT.min():.1e}, not 1")


# %%
def gradient_of(group, late):
    """The gradient of a group, and the tokens that its mask lets in."""
    prompt, ids_GT, _, mask_GT, rewards_G = group
    if late:  # one place too late
        mask_GT = mask_GT.roll(1, dims=1)
        mask_GT[:, 0] = False
    model.zero_grad()
    now_GT = token_logprobs(prompt, ids_GT)
    A_G = advantage(rewards_G)
    loss(now_GT, now_GT.detach(), A_G, mask_GT).backward()
    grads = [p.grad.flatten() for p in policy.trainable().values()]
    return torch.cat(grads), ids_GT[0][mask_GT[0]].tolist()


cosines = []
for group in alive:
    (right, _), (wrong, trained) = (gradient_of(group, x) for x in (0, 1))
    cosines.append(torch.cosine_similarity(right, wrong, dim=0))
cosines = torch.stack(cosines)
print("mask one place off: every ratio is 1, so there is no alarm")
print(f"cosine to the right one: {cosines.mean():.2f} on average,")
print(f"{cosines.min():.2f} in the worst group")
print("tokens that are trained:", words.convert_ids_to_tokens(trained))

# %%
lessons.failure_card(
    "One place off",
    see="With logits one place off, ratios are far from 1 in the first "
    "step. With a mask one place off no number looks wrong: the first "
    "token of each answer is left out, and rubbish is let in.",
    cause="The logits at one place speak of the token at the next. Ids are "
    "shifted for that, and the mask must be shifted along with them.",
    do="Assert that the first ratio is 1. For the mask, print the tokens "
    "that are trained, and read them: the first is the first of the "
    "answer, and the last is the end mark.",
)

# %% [markdown]
# ## 11. The same in the kit's loop
#
# The kit does all groups at once, reads each prompt once, and skips dead groups; the idea is the
# same. Start it and play: *Run one step*, or the next cell.
#
# The last cell of this section is a **real language model**: `smol` has 135 million parameters and
# was trained on text, not by us. Nothing changes but the name. A step takes about 40 seconds on two
# cores, and the whole needs about 3 GB. So it runs in the full length only, for three steps, which
# show that it runs and not yet that it learns. Look at the gradient: in a step in which nothing is
# right, it is exactly 0.

# %%
from rlkit.objectives import GRPO, DrGRPO

print("GRPO -> Dr. GRPO:", GRPO().difference(DrGRPO()))
policy.restore(untouched)
policy.load_state_dict(at_first)
config = rlkit.LoopConfig(problems_per_step=8, group_size=8, seed=0)
loop = rlkit.ClosedLoop(policy, ["sort"], GRPO(), config)
before = loop.evaluate(HELD_OUT)
board = lab.Dashboard(loop)
board.add_evaluation(before)
board

# %%
run = lab.start(loop, STEPS)
run.wait()
board.wait()
after = loop.evaluate(HELD_OUT)
board.add_evaluation(after)
last = run.history[-1]
print("before:", before.by_domain["sort"])
print("after: ", after.by_domain["sort"])
print(f"{last['step_time']:.1f} s a step; by hand it was {seconds:.1f} s")
lab.show_figure(board.figure())

# %%
from rlkit.policy.smol import has_smol

if not SMOL:
    print(
        "This is the fast length: smol is trained in the full length only."
    )
elif not has_smol():
    print(
        "smol is not on this machine; `rlkit fetch smol` brings it, once."
    )
else:
    smol = rlkit.Policy.load("smol", quantize=None, lora=rlkit.LoraSpec())
    config = rlkit.LoopConfig(
        problems_per_step=4,
        group_size=8,
        learning_rate=1e-4,
        micro_batch=8,  # a vocabulary of 49,152: the logits need memory
    )
    smol_loop = rlkit.ClosedLoop(smol, ["pyfunc"], GRPO(), config)
    for record in smol_loop.run(SMOL, progress=False):
        print(
            f"step {record.step}: reward {record['reward']:.2f}, gradient "
            f"{record['grad_norm'] or 0:.2f}, {record['step_time']:.0f} s"
        )
    print(lab.GroupView.of(smol_loop.batch))

# %% [markdown]
# ## 12. At scale
#
# The same objective in TRL, by its settings. This is shown, not run, here.
#
# ```python
# from trl import GRPOConfig, GRPOTrainer
# trainer = GRPOTrainer(
#     model="Qwen/Qwen3-0.6B",
#     reward_funcs=[rlkit.exact_answer],
#     train_dataset=dataset,  # columns: prompt, answer
#     args=GRPOConfig(
#         num_generations=8,
#         loss_type="dapo",  # the mean over all tokens
#         scale_rewards="group",  # "none" is Dr. GRPO
#         beta=0.0,
#     ),
# )
# ```
#
# ## 13. Four questions

# %%
from rlkit.lessons import Question

slope = Question(
    "The log says loss 0.0 and grad_norm 0.9. Does it learn?",
    [("no", "Look at the slope."), ("yes", "The value is no measure.")],
    right="b",
)
nothing = Question(
    "The log says loss 0.0, grad_norm 0.0 and reward_std 0.4. Why?",
    [("dead groups", "reward_std would be 0."), ("a bug", "No slope.")],
    right="b",
)
longer = Question(
    "Wrong answers get longer. Which mean makes that cheap?",
    [("over tokens", "All alike."), ("of each answer", "1 / length.")],
    right="b",
)
critic = Question(
    "It compares within the group. So it needs no reward?",
    [("right", "What would it compare?"), ("no", "No critic, it means.")],
    right="b",
)
lesson.quiz("grpo", [slope, nothing, longer, critic])
