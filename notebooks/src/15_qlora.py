# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   rlkit:
#     title: "QLoRA: the same loop at 4 bits"
#     promise: >-
#       You will put a matrix into four bits by hand, find the library's codes equal to yours, count
#       every byte of a training, and see the two places where four bits harm a loop in silence.
#     minutes: {fast: 1, full: 2}
#     memory_mb: 2000
#     needs:
#       - to read Python and PyTorch
#       - lesson 05, for GRPO and its ratio
#       - smol, 93 MB, for two cells (`rlkit fetch smol`); without it they say so
#     objectives:
#       - put a block of weights into NF4 and back, and say what a scale costs
#       - predict the memory of a QLoRA training within 10 %
#       - say what a rank changes, and what only seems to come from it
#       - measure the gap between sampler and learner, and cut what is too heavy
#       - find a layer through which no gradient flows
#     recap:
#       - NF4 keeps one of 16 levels for each weight, and one scale for each 64 weights.
#       - Weights are the small part. Activations, and the copy that samples, are the large ones.
#       - Hold alpha, not alpha over rank, when you compare ranks.
#       - What samples must be what learns, or its weights must say how far it is off.
#       - Compare the gradient before and after an evaluation. A layer can lose it without a word.
#     sources:
#       - >-
#         NF4, double quantisation, QLoRA: Dettmers et al., *QLoRA*,
#         [arXiv 2305.14314](https://arxiv.org/abs/2305.14314)
#       - >-
#         The adapter: Hu et al., *LoRA*, [arXiv 2106.09685](https://arxiv.org/abs/2106.09685)
#       - >-
#         The library in use: [bitsandbytes](https://github.com/bitsandbytes-foundation/bitsandbytes)
#       - >-
#         Blocks counted over the whole matrix: [bitsandbytes pull request
#         2072](https://github.com/bitsandbytes-foundation/bitsandbytes/pull/2072)
# ---

# %% [markdown]
# ## 1. A question first
#
# Train all weights of a model with 8 billion of them, as one usually does it: each weight in 16
# bits and again in 32, a gradient in 16, two moments of Adam in 32. That is 16 bytes a weight,
# **128 GB**, before a single token is read.
#
# **QLoRA** freezes the weights, stores them in four bits, and trains a thin *adapter* beside them.
# How much is left? Count what lies in memory between two updates: the weights, the adapter, its
# gradient, its moments.

# %% tags=["setup"]
import itertools
import time

import torch
from IPython.display import display

from rlkit import lab
from rlkit.policy.smol import has_smol

STEPS = lessons.pick(fast=15, full=45)  # updates of one live run
TRAPPED = lessons.pick(fast=0, full=20)  # updates with the trap
ASKED = lessons.pick(fast=12, full=32)  # problems for the gap
guess = lesson.predict(
    "gigabytes",
    "Llama-3.1-8B, weights in four bits, an adapter of rank 16: how many "
    "gigabytes lie in memory between two updates?",
    low=1,
    high=128,
    unit="GB",
)
guess

# %% [markdown]
# ## 2. Sixteen levels
#
# Four bits can say 16 things. Which 16 numbers should they be? Weights of a trained matrix are
# nearly normal: many near 0, few far out. **NF4** (*normal float*) takes *quantiles* of a normal
# distribution: numbers that cut it into parts that are equally likely, so that all levels are used.
# They stand close together near 0. And 0 itself is a level, since a 0 must stay 0.
#
# The levels go from -1 to 1, and weights do not. So a matrix is cut into *blocks* of 64 weights,
# read row after row. Each block keeps its largest magnitude, the **scale**, and is divided by it.
# Then each weight becomes the number of the nearest level, 0 to 15: its *code*. Back again means
# level times scale. Here are the levels, and eight weights by hand:

# %%
from rlkit.lab.nf4 import nf4_levels

levels = nf4_levels()
print([round(level, 3) for level in levels.tolist()])
print("steps ", [round(s, 2) for s in levels.diff().tolist()])
block = torch.tensor([0.02, -0.11, 0.0, 0.30, -0.07, 0.16, -0.25, 0.05])
scale = block.abs().max()
codes = (block[:, None] / scale - levels[None]).abs().argmin(dim=1)
back = levels[codes] * scale
print("scale ", round(scale.item(), 3))
print("codes ", codes.tolist())
print("back  ", [round(b, 3) for b in back.tolist()])
print("off by", [round(b, 3) for b in (back - block).tolist()])

# %% [markdown]
# The largest comes back exactly, and so does 0. The others are off by up to half a step.
#
# ### Exercise 1: a block, there and back
#
# `block` is a list of numbers, `levels` the 16 levels, ascending. Give a pair: the list of codes,
# and the list of numbers that come back. Mind a block of zeros. The check holds you against
# bitsandbytes, the library that everybody uses for this.


# %% tags=["exercise"] exercise="nf4"
def nf4_round_trip(block, levels):
    """Codes of a block, and the numbers that come back."""
    return ...  # TODO: two lists


lesson.check("nf4", nf4_round_trip)


# %% tags=["solution"] exercise="nf4"
def nf4_round_trip(block, levels):
    """Codes of a block, and the numbers that come back."""
    scale = max(abs(number) for number in block)
    codes = []
    for number in block:
        share = number / scale if scale else 0.0
        gaps = [abs(share - level) for level in levels]
        codes.append(gaps.index(min(gaps)))
    return codes, [levels[code] * scale for code in codes]


# %% tags=["checks"] exercise="nf4"
import torch

from rlkit.lab.nf4 import library_codes, nf4_levels, quantise
from rlkit.lessons import Exercise, Property, close, holds, random_inputs
from rlkit.policy.quantization import probe_nf4

LEVELS = nf4_levels().tolist()


def two_lists(value, block, levels):
    holds(
        isinstance(value, (list, tuple))
        and len(value) == 2
        and all(isinstance(part, (list, tuple)) for part in value)
        and len(value[0]) == len(value[1]) == len(block),
        f"a pair of lists is expected: {len(block)} codes and as many "
        "numbers",
    )
    holds(
        all(isinstance(c, int) and 0 <= c <= 15 for c in value[0]),
        "a code is a whole number from 0 to 15",
    )


def largest_is_exact(value, block, levels):
    at = max(range(len(block)), key=lambda i: abs(block[i]))
    holds(
        abs(value[1][at] - block[at]) < 1e-6,
        f"the largest weight, {block[at]:g}, comes back as "
        f"{value[1][at]:.4g}: the scale is the largest magnitude, of "
        "negative numbers, too",
    )


def zeros_stay(value, block, levels):
    holds(
        all(number == 0 for number in value[1]),
        f"a block of zeros comes back as {value[1][:4]}",
    )


def nearest(value, block, levels):
    scale = max(abs(number) for number in block)
    for number, code in zip(block, value[0], strict=True):
        gaps = [abs(number / scale - level) for level in levels]
        holds(
            gaps[code] < min(gaps) + 1e-6,
            f"{number:.4g} has code {code}, level {levels[code]:.3f}, and "
            f"level {levels[gaps.index(min(gaps))]:.3f} is nearer to "
            f"{number / scale:.3f}",
        )


def as_the_library(value, block, levels):
    make = quantise if probe_nf4("cpu") else library_codes
    theirs = make(torch.tensor(block), 64)
    same = theirs.codes_KS[0].tolist()
    apart = sum(a != b for a, b in zip(value[0], same, strict=True))
    holds(not apart, f"{apart} of 64 codes are not those of bitsandbytes")
    wanted = theirs.matrix().tolist()
    close(list(value[1]), wanted, 1e-5, what="the numbers")


def some_block(rng):
    return [round(rng.gauss(0, 0.08), 6) for _ in range(64)], LEVELS


SMALL = [([0.1, -0.5, 0.0, 0.26], LEVELS), ([-0.2, 0.1, 0.15, 0.0], LEVELS)]

EXERCISE = Exercise(
    "nf4",
    title="A block in NF4, there and back",
    hints=(
        "What must a weight be divided by, to lie between -1 and 1?",
        "Divide by the largest magnitude; for each weight take the place "
        "of the level with the smallest distance.",
        "`scale = max(abs(n) for n in block)`; `gaps = [abs(n / scale - l) "
        "for l in levels]`; `gaps.index(min(gaps))`; back is "
        "`levels[code] * scale`. A scale of 0 needs a case of its own.",
    ),
    properties=[
        Property("it is codes and numbers", two_lists, SMALL),
        Property("the largest comes back exactly", largest_is_exact, SMALL),
        Property(
            "zeros stay zeros", zeros_stay, [([0.0, 0.0, 0.0], LEVELS)]
        ),
        Property("each has the nearest level", nearest, SMALL),
        Property(
            "it is what bitsandbytes makes",
            as_the_library,
            random_inputs(some_block, 6),
        ),
    ],
    keeps_inputs=True,
    right="Your codes are those of bitsandbytes, bit by bit.",
)


# %% tags=["wrong"] exercise="nf4" says="of negative numbers, too"
def nf4_round_trip(block, levels):
    scale = max(block) or 1.0
    codes = []
    for number in block:
        gaps = [abs(number / scale - level) for level in levels]
        codes.append(gaps.index(min(gaps)))
    return codes, [levels[code] * scale for code in codes]


# %% tags=["wrong"] exercise="nf4" says="is nearer to"
def nf4_round_trip(block, levels):
    scale = max(abs(number) for number in block) or 1.0
    codes = [
        max(k for k, level in enumerate(levels) if level <= n / scale)
        for n in block
    ]
    return codes, [levels[code] * scale for code in codes]


# %% tags=["wrong"] exercise="nf4" says="ZeroDivisionError"
def nf4_round_trip(block, levels):
    scale = max(abs(number) for number in block)
    codes = []
    for number in block:
        gaps = [abs(number / scale - level) for level in levels]
        codes.append(gaps.index(min(gaps)))
    return codes, [levels[code] * scale for code in codes]


# %% tags=["wrong"] exercise="nf4" says="the largest weight"
def nf4_round_trip(block, levels):
    scale = max(abs(number) for number in block) or 1.0
    codes = []
    for number in block:
        gaps = [abs(number / scale - level) for level in levels]
        codes.append(gaps.index(min(gaps)))
    return codes, [levels[code] for code in codes]


# %% [markdown]
# ## 3. A whole matrix, and the library
#
# Now a real matrix: one of `tiny`, our own small model, 512 by 192. We do it by hand (the kit's
# `quantise` is what you wrote, for all blocks at once), and ask bitsandbytes to do the same. Are
# the codes equal? And what is a scale worth that is itself kept in 8 bits? That is **double
# quantisation**: 256 scales share one scale of their own.

# %%
from rlkit.lab.nf4 import bits_a_weight, error, library_codes, quantise
from rlkit.policy.quantization import probe_nf4

plain = rlkit.Policy.load("tiny", quantize=None)
W = plain.model.model.layers[0].mlp.gate_proj.weight.detach()
ours = quantise(W, block=64)
reason = probe_nf4("cpu")
if reason is None:
    theirs = library_codes(W, block=64)
    equal = (ours.codes_KS == theirs.codes_KS).sum().item()
    print(f"codes equal to bitsandbytes: {equal:,} of {W.numel():,}")
else:
    print(f"Not compared, and no 4-bit layer below: {reason}.")
for name, coded, double in (
    ("plain", ours, 0),
    ("double", ours.double(), 1),
):
    print(
        f"{name:<7} {bits_a_weight(64, double):.3f} bits a weight, error "
        f"{100 * error(W, coded.matrix()):.3f} %"
    )

# %% [markdown]
# All codes are equal. Each weight is off by 9 % or so, and double quantisation saves 0.37 bits and
# costs nearly nothing. That is 0.3 GB in a model of 8 billion.
#
# Move the sliders. Try this:
#
# 1. Blocks of 16, then of 1024. One large weight spoils its whole block: the other weights of the
#    block are pressed into the levels near 0. Small blocks contain the damage.
# 2. Set the rank to 0, 16, 64. The panel adds the **best possible** adapter of that rank to what
#    came back. Rounding is noise, and noise has no few directions. So an adapter does not repair
#    four bits. It learns something else.

# %%
lab.Nf4Panel(W, block=64, rank=16)

# %% [markdown]
# ## 4. Every byte
#
# A training keeps more than weights. The ledger has eight lines. For each there is a formula, and
# for each we *count*: `measure` takes a policy, scores its answers with gradient, takes a step of
# length 0 and adds up the bytes of every tensor that is there.

# %%
from rlkit.lab import memory_ledger as ledger
from rlkit.lab.memory_figures import ledger_figure, size
from rlkit.policy import flatten

problems = list(itertools.islice(rlkit.get_domain("sort").stream(1), ASKED))
policy = rlkit.Policy.load(
    "tiny", lora=rlkit.LoraSpec(rank=16), learner="model", rollouts="fast"
)
answers = flatten(policy.generate(problems[:4], 4, 12))
tokens, seen = ledger.tokens_of(answers)
shape = ledger.Shape.of(policy.model.config)
copy = policy.sampler.dtype.itemsize  # 2 bytes a weight, or 4
sizes = {"tokens": tokens, "seen": seen, "copy": copy}
told = ledger.predict(shape, rank=16, outside=4, compute=4, **sizes)
if policy.precision.four_bit_layers:
    counted = ledger.measure(policy, answers)
    for part, count in counted.items():
        print(f"{part:<16} {size(told[part]):>8}  counted {size(count):>8}")
    off = sum(told.values()) / sum(counted.values()) - 1
    print(f"together {size(sum(told.values()))}, off by {100 * off:+.1f} %")

# %% [markdown]
# Where does it go in models that people use? Each bar is one model, cut into its parts, at 4,096
# tokens scored at once and an adapter of rank 16. Which part would you have guessed to be the
# largest?

# %%
ledgers = {"tiny, here": told}
for name, shape in ledger.KNOWN.items():
    ledgers[name] = ledger.predict(shape, rank=16, tokens=4096)
big = ledgers["Llama-3.1-8B"]
others = big["activations"] + big["rollout copy"]
between = (sum(big.values()) - others) / 1e9
figure = ledger_figure(ledgers, "QLoRA, by bytes")
guess.reveal(figure, between)

# %% [markdown]
# Weights in four bits are never the largest part. Between two updates 8 billion of them, with all
# that is trained, take 6.4 GB, and not 128. But a loop must also *sample*, and quick sampling wants
# a copy with the adapter merged, in 16 bits: 16 GB, and four bits are no help there. And 4,096
# tokens at once leave 24 GB of **activations**: what the way back needs of the way there. So one
# scores in small parts (`micro_batch`), or computes a block twice and keeps less.
#
# ### Exercise 2: count a set-up
#
# `matrices` is a list of (out, in), `outside` the number of weights that stay in 16 bits, `rank`
# that of an adapter on each matrix: two thin matrices, rank by in and out by rank, in 32 bits.
# AdamW trains it. Give the bytes that lie in memory between two updates, right within 10 %. Scales
# are plain: 32 bits for each 64 weights.


# %% tags=["exercise"] exercise="bytes"
def setup_bytes(matrices, outside, rank):
    """Bytes of weights, scales, adapter, gradient and moments."""
    return ...  # TODO: a number


lesson.check("bytes", setup_bytes)


# %% tags=["solution"] exercise="bytes"
def setup_bytes(matrices, outside, rank):
    """Bytes of weights, scales, adapter, gradient and moments."""
    frozen = sum(out * into for out, into in matrices)
    trained = sum(rank * (out + into) for out, into in matrices)
    return frozen / 2 + frozen / 64 * 4 + 2 * outside + 16 * trained


# %% tags=["checks"] exercise="bytes"
from rlkit.lab.memory_ledger import count_setup
from rlkit.lessons import Exercise, Property, holds, random_inputs
from rlkit.policy.quantization import probe_nf4


def a_number(value, matrices, outside, rank):
    holds(
        isinstance(value, (int, float)) and not isinstance(value, bool),
        "a number of bytes is expected",
    )


def frozen(value, matrices, outside, rank):
    weights = sum(out * into for out, into in matrices)
    holds(
        0.52 < value / weights < 0.65,
        f"nearly all of this set-up are frozen weights, and each takes "
        f"{value / weights:.3f} bytes; due are 0.5 and the share of a "
        "scale, 4 / 64. What is frozen has no gradient and no moments",
    )


def stays(value, matrices, outside, rank):
    holds(
        1.9 < value / outside < 2.2,
        f"nearly all of this set-up stays in 16 bits, and a weight takes "
        f"{value / outside:.2f} bytes; 2 are due",
    )


def trained(value, matrices, outside, rank):
    numbers = sum(rank * (out + into) for out, into in matrices)
    holds(
        15 < value / numbers < 17.5,
        f"nearly all of this set-up is the adapter: rank x (in + out) is "
        f"{numbers:,} numbers, and each takes {value / numbers:.1f} bytes; "
        "due are 16: itself, a gradient, two moments, 4 bytes each",
    )


def counted(value, matrices, outside, rank):
    if probe_nf4("cpu"):
        return  # nothing to count here; the parts above are the same
    found = count_setup(matrices, outside, rank)
    holds(
        abs(value / found - 1) < 0.1,
        f"{found:,} bytes were counted on real layers and {value:,.0f} "
        f"predicted: off by {100 * (value / found - 1):+.0f} %",
    )


def some_setup(rng):
    sides = [64, 128, 192, 512]
    matrices = [(rng.choice(sides), rng.choice(sides)) for _ in range(6)]
    return matrices, rng.randint(0, 9) * 4096, rng.choice([1, 4, 16])


EXERCISE = Exercise(
    "bytes",
    title="The bytes of a QLoRA set-up",
    hints=(
        "Which numbers are frozen, which are trained, and what does each "
        "kind keep beside itself?",
        "Frozen: half a byte, and 4 bytes for each 64. Trained: rank x "
        "(in + out) numbers; a gradient and two moments beside each.",
        "`frozen / 2 + frozen / 64 * 4 + 2 * outside + 16 * trained`.",
    ),
    properties=[
        Property("it is a number", a_number, [([(64, 64)], 0, 1)]),
        Property("frozen weights", frozen, [([(2048, 2048)] * 4, 0, 1)]),
        Property("what stays outside", stays, [([(64, 64)], 10**6, 1)]),
        Property("what is trained", trained, [([(64, 64)] * 8, 0, 64)]),
        Property(
            "it is right within 10 %", counted, random_inputs(some_setup, 5)
        ),
    ],
    keeps_inputs=True,
    right="The same arithmetic says what fits on a T4, before you rent it.",
)


# %% tags=["wrong"] exercise="bytes" says="What is frozen has no gradient"
def setup_bytes(matrices, outside, rank):
    frozen = sum(out * into for out, into in matrices)
    trained = sum(rank * (out + into) for out, into in matrices)
    return 16 * (frozen + trained) + 2 * outside


# %% tags=["wrong"] exercise="bytes" says="rank x (in + out) is"
def setup_bytes(matrices, outside, rank):
    frozen = sum(out * into for out, into in matrices)
    trained = sum(rank * out for out, into in matrices)
    return frozen / 2 + frozen / 16 + 2 * outside + 16 * trained


# %% tags=["wrong"] exercise="bytes" says="itself, a gradient, two moments"
def setup_bytes(matrices, outside, rank):
    frozen = sum(out * into for out, into in matrices)
    trained = sum(rank * (out + into) for out, into in matrices)
    return frozen / 2 + frozen / 16 + 2 * outside + 4 * trained


# %% tags=["wrong"] exercise="bytes" says="the share of a scale"
def setup_bytes(matrices, outside, rank):
    frozen = sum(out * into for out, into in matrices)
    trained = sum(rank * (out + into) for out, into in matrices)
    return frozen / 2 + 2 * outside + 16 * trained


# %% [markdown]
# ## 5. What the rank changes
#
# The adapter of a matrix is a product of two thin ones, rank by in and out by rank, and what it
# adds is multiplied by *alpha* divided by the rank. So whoever doubles the rank must say what
# happens to alpha. Runs with three seeds each are stored; first those that hold **alpha / rank at
# 2**, as many scripts do.

# %%
from rlkit.lab.rank_runs import rank_figure, rank_run

lab.show_figure(rank_figure("factor"))
guess_rank = lesson.predict(
    "rank_1",
    "Now alpha is 32 at every rank. What share of the held-out problems "
    f"does rank 1 solve after {STEPS} updates? (0.39 before)",
    low=0,
    high=1,
)
guess_rank

# %% [markdown]
# Rank 1 starts slowly and rank 64 falls over. Is it the rank? One of these is trained now, live, at
# rank 1 with alpha held at 32, beside the stored curves of that comparison.

# %%
began = time.perf_counter()
live = rank_run(1, held="alpha", steps=STEPS, every=15)
seconds = time.perf_counter() - began
print(f"rank 1, {live.trained:,} numbers trained, {seconds:.0f} s")
guess_rank.reveal(rank_figure("alpha", [live]), live.pass_at_1[-1])

# %% [markdown]
# With alpha held, rank 1 learns about as well as rank 64, with a sixty-fourth of the numbers. What
# looked like the rank was the **length of a step**. And little room is enough: an answer earns one
# number, right or wrong, so an update has not much to remember.
#
# ## 6. Two policies that should be one
#
# The learner has four bits and an adapter beside them. The sampler wants one matrix, so the adapter
# is *merged* into it, `W + scale * (B @ A)`, and the sum is rounded to the sampler's type. What
# does rounding do?
#
# ### Exercise 3: merge, and measure
#
# `W`, `A`, `B` are tensors in float32, `scale` is alpha divided by the rank. Give a pair: the
# merged matrix in `torch.bfloat16`, and the largest drift: how far any of its weights is from the
# exact sum, as a number. Round once, at the end.


# %% tags=["exercise"] exercise="merge"
def merged_and_drift(W, A, B, scale):
    """The merged matrix in bfloat16, and the largest drift."""
    return ...  # TODO: a tensor and a number


lesson.check("merge", merged_and_drift)


# %% tags=["solution"] exercise="merge"
def merged_and_drift(W, A, B, scale):
    """The merged matrix in bfloat16, and the largest drift."""
    exact = W + scale * (B @ A)
    merged = exact.bfloat16()
    return merged, (merged.float() - exact).abs().max().item()


# %% tags=["checks"] exercise="merge"
import torch

from rlkit.lessons import Exercise, Property, close, holds


def parts(seed, out=24, into=40, rank=4, scale=2.0):
    draw = torch.Generator().manual_seed(seed)
    sizes = ((out, into), (rank, into), (out, rank))
    W, A, B = (torch.randn(s, generator=draw) * 0.2 for s in sizes)
    return W, A, B, scale


def a_pair(value, W, A, B, scale):
    holds(
        isinstance(value, (list, tuple))
        and len(value) == 2
        and isinstance(value[0], torch.Tensor),
        "a pair is expected: a tensor and a number",
    )
    holds(
        value[0].dtype == torch.bfloat16 and value[0].shape == W.shape,
        f"the merged matrix is {value[0].dtype}, {tuple(value[0].shape)}; "
        f"torch.bfloat16 and {tuple(W.shape)} are due",
    )


def has_the_adapter(value, W, A, B, scale):
    added = value[0].float() - W
    share = float((added * (B @ A)).sum() / (B @ A).square().sum())
    holds(
        abs(share - scale) < 0.05 * scale,
        f"the adapter is in it {share:.2f} times, and {scale:g} times is "
        "due: it is multiplied by the scale",
    )


def rounded_once(value, W, A, B, scale):
    wanted = (W + scale * (B @ A)).bfloat16()
    apart = int((wanted != value[0]).sum())
    holds(
        not apart,
        f"{apart} of {W.numel()} weights are not the nearest number to the "
        "exact sum: it was rounded more than once",
    )


def right_drift(value, W, A, B, scale):
    exact = W + scale * (B @ A)
    apart = exact.bfloat16().float() - exact
    highest, wanted = float(apart.max()), float(apart.abs().max())
    holds(
        abs(float(value[1]) - highest) > 1e-8 or highest == wanted,
        f"{highest:.5f} is the largest *upward* drift; downwards it goes "
        f"{wanted:.5f} far",
    )
    close(float(value[1]), wanted, 1e-7, what="the drift")


EXERCISE = Exercise(
    "merge",
    title="Merge an adapter, and measure the drift",
    hints=(
        "What is the exact matrix, before anything is rounded?",
        "`W + scale * (B @ A)` is exact; then `.bfloat16()`, and compare "
        "in float32.",
        "`merged = exact.bfloat16()`; "
        "`(merged.float() - exact).abs().max().item()`.",
    ),
    where="here",
    properties=[
        Property("it is a matrix and a number", a_pair, [parts(0)]),
        Property(
            "the adapter is in it, by its scale",
            has_the_adapter,
            [parts(0), parts(1, scale=0.5)],
        ),
        Property("it is rounded once", rounded_once, [parts(2), parts(3)]),
        Property(
            "the drift is right",
            right_drift,
            [parts(seed) for seed in range(4, 10)],
        ),
    ],
    keeps_inputs=True,
    right="bfloat16 keeps 8 binary digits, so a weight is off by 1 part in "
    "256 at most.",
)


# %% tags=["wrong"] exercise="merge" says="it is multiplied by the scale"
def merged_and_drift(W, A, B, scale):
    exact = W + B @ A
    merged = exact.bfloat16()
    return merged, (merged.float() - exact).abs().max().item()


# %% tags=["wrong"] exercise="merge" says="rounded more than once"
def merged_and_drift(W, A, B, scale):
    exact = W + scale * (B @ A)
    merged = W.bfloat16() + (scale * (B @ A)).bfloat16()
    return merged, (merged.float() - exact).abs().max().item()


# %% tags=["wrong"] exercise="merge" says="upward"
def merged_and_drift(W, A, B, scale):
    exact = W + scale * (B @ A)
    merged = exact.bfloat16()
    return merged, (merged.float() - exact).max().item()


# %% [markdown]
# How far does that carry? The learner is `tiny` in NF4, after some updates. Three samplers have the
# same adapter, and the learner scores what each of them drew:
#
# * **exact**: merged, in float32;
# * **fast**: merged, in the type that this machine multiplies fastest;
# * **never quantised**: fast, too, but merged into the weights as they were *before* NF4. That is
#   what many set-ups do that sample with another program: the adapter is right, and the base is
#   another.

# %%
from rlkit.lab.sampler_gap import (
    gap_figure,
    gap_of,
    gap_table,
    gaps_of_bases,
)
from rlkit.objectives import GRPO, Truncate

config = rlkit.LoopConfig(problems_per_step=8, group_size=8)
loop = rlkit.ClosedLoop(policy, ["sort"], GRPO(off_policy=Truncate(2.0)),
                        config)  # fmt: skip
loop.run(8, progress=False)
gaps = [gap_of(policy, policy.generate(problems, 8, 12), "fast")]
for name, how in (
    ("exact", {"rollouts": "exact"}),
    ("never quantised", {"rollouts": "fast", "quantize": None}),
):
    sampler = rlkit.Policy.load("tiny", lora=rlkit.LoraSpec(), **how)
    sampler.restore(policy.snapshot())  # the same adapter
    gaps.append(gap_of(policy, sampler.generate(problems, 8, 12), name))
print("fast is", policy.sampler.dtype)
lab.show_figure(gap_figure(gaps, "Sampler and learner, tiny"))

# %% [markdown]
# Where *fast* is bfloat16, its rounding moves a token some thousand times as far as float32 does,
# on average, and the base before NF4 another ten times. (A token that is nearly certain hardly
# moves, whatever the base.) Now the same for `smol`, a real language model with 135 million
# weights. The table also has the **effective sample size** (ESS): how many equally weighted answers
# the weighted ones are worth, as a share. A *weight* is how likely the learner finds a token,
# divided by how likely the sampler did; that of an answer is the product over its tokens.

# %%
from IPython.display import HTML

from rlkit.lab.theme import table_html

if has_smol():
    smol_gaps = gaps_of_bases("smol", "pyfunc", 4, 4, 16)
    lab.show_figure(gap_figure(smol_gaps, "Sampler and learner, smol"))
else:
    print("smol is not on this machine; `rlkit fetch smol` brings it.")
    smol_gaps = []
tables = ((gaps, "Weights, tiny."), (smol_gaps, "Weights, smol."))
shown = "".join(table_html(gap_table(g), t) for g, t in tables if g)
display(HTML(shown))

# %% [markdown]
# With `smol` the sampler that was never quantised is half a nat off at each token. Over an answer
# that multiplies: what is drawn there says little about the learner. (This `smol` may have come
# from a file that was in four bits once; then its two bases differ by one rounding more.)
#
# **Truncated importance sampling** weighs each token so, and cuts the weight at 2. The cut makes
# the mean a little wrong and the spread much smaller. Read the last columns: against rounding there
# is nothing to cut. Against the wrong base the cut raises the ESS of tokens, and does not bring
# back what was never drawn. Fix the base first, and correct what is left.
#
# ### Exercise 4: cut at 2
#
# `learner` and `sampler` are lists of answers, each a list of the log-probabilities of its tokens.
# Give a pair: for each answer its weight, learner to sampler, of the *whole* answer and no more
# than `cap`; and the list of places, from 0, of the answers that were cut.


# %% tags=["exercise"] exercise="cut"
def cut_weights(learner, sampler, cap=2.0):
    """Weights of answers, at most `cap`, and the places of those cut."""
    return ...  # TODO: two lists


lesson.check("cut", cut_weights)


# %% tags=["solution"] exercise="cut"
import math


def cut_weights(learner, sampler, cap=2.0):
    """Weights of answers, at most `cap`, and the places of those cut."""
    pairs = zip(learner, sampler, strict=True)
    weights = [math.exp(sum(now) - sum(then)) for now, then in pairs]
    cut = [i for i, weight in enumerate(weights) if weight > cap]
    return [min(weight, cap) for weight in weights], cut


# %% tags=["checks"] exercise="cut"
import math

from rlkit.lessons import (
    Exercise,
    Property,
    close,
    equal,
    holds,
    random_inputs,
)


def full(learner, sampler):
    pairs = zip(learner, sampler, strict=True)
    return [math.exp(sum(a) - sum(b)) for a, b in pairs]


def two_lists(value, learner, sampler):
    holds(
        isinstance(value, (list, tuple))
        and len(value) == 2
        and all(isinstance(part, (list, tuple)) for part in value)
        and len(value[0]) == len(learner),
        f"a pair of lists is expected: {len(learner)} weights, and places",
    )


def right_way(value, learner, sampler):
    wanted = full(learner, sampler)[0]
    holds(
        abs(value[0][0] - 1 / wanted) > 1e-9,
        f"the learner finds the answer {wanted:.2f} times as likely, and "
        f"its weight is {value[0][0]:.2f}: it is the wrong way round",
    )


def of_the_whole(value, learner, sampler):
    wanted = full(learner, sampler)[0]
    mean = math.exp(math.log(wanted) / len(learner[0]))
    holds(
        abs(value[0][0] - mean) > 1e-9,
        f"{value[0][0]:.3f} is the mean of a token; the weight of the "
        f"whole answer is the product, {wanted:.3f}",
    )


def kept_at_the_cap(value, learner, sampler):
    for weight, exact in zip(value[0], full(learner, sampler), strict=True):
        holds(
            exact <= 2 or weight > 0,
            f"an answer of weight {exact:.2f} is thrown away; to cut is to "
            "hold it at 2",
        )
        holds(
            exact <= 2 or abs(weight - 2) < 1e-9,
            f"an answer of weight {exact:.2f} has {weight:.2f}; 2 is due",
        )


def small_ones_stay(value, learner, sampler):
    wanted = [min(w, 2.0) for w in full(learner, sampler)]
    close(list(value[0]), wanted, 1e-6, what="the weights")


def right_places(value, learner, sampler):
    wanted = [i for i, w in enumerate(full(learner, sampler)) if w > 2]
    equal(list(value[1]), wanted, "the list of places")


def some_answers(rng):
    sampler = [
        [-3 * rng.random() for _ in range(rng.randint(1, 5))]
        for _ in range(5)
    ]
    moved = [[x + rng.gauss(0, 0.5) for x in row] for row in sampler]
    return moved, sampler


ONE = [([[-0.5, -0.5]], [[-0.6, -0.7]])]
HEAVY = [([[-0.1, -0.1], [-1.0]], [[-1.0, -1.0], [-0.4]])]
MANY = random_inputs(some_answers, 8)

EXERCISE = Exercise(
    "cut",
    title="Which answers are cut",
    hints=(
        "Log-probabilities of an answer's tokens add up. What does a "
        "difference of logarithms say about a ratio?",
        "The weight is e to the power of (sum of the learner minus sum of "
        "the sampler); then the smaller of it and the cap.",
        "`math.exp(sum(now) - sum(then))`, `min(weight, cap)`, and the "
        "places where the weight is above the cap.",
    ),
    properties=[
        Property("it is weights and places", two_lists, ONE),
        Property("it is learner to sampler", right_way, ONE),
        Property("it is the whole answer", of_the_whole, ONE),
        Property("heavy ones are held at the cap", kept_at_the_cap, HEAVY),
        Property("light ones stay", small_ones_stay, [*HEAVY, *MANY]),
        Property("the places are right", right_places, [*HEAVY, *MANY]),
    ],
    keeps_inputs=True,
    right="In the kit it is `Truncate(2.0, level='sequence')`.",
)


# %% tags=["wrong"] exercise="cut" says="the wrong way round"
def cut_weights(learner, sampler, cap=2.0):
    pairs = zip(learner, sampler, strict=True)
    weights = [math.exp(sum(then) - sum(now)) for now, then in pairs]
    cut = [i for i, weight in enumerate(weights) if weight > cap]
    return [min(weight, cap) for weight in weights], cut


# %% tags=["wrong"] exercise="cut" says="is the mean of a token"
import math


def cut_weights(learner, sampler, cap=2.0):
    pairs = zip(learner, sampler, strict=True)
    weights = [
        math.exp((sum(now) - sum(then)) / len(now)) for now, then in pairs
    ]
    cut = [i for i, weight in enumerate(weights) if weight > cap]
    return [min(weight, cap) for weight in weights], cut


# %% tags=["wrong"] exercise="cut" says="is thrown away"
import math


def cut_weights(learner, sampler, cap=2.0):
    pairs = zip(learner, sampler, strict=True)
    weights = [math.exp(sum(now) - sum(then)) for now, then in pairs]
    cut = [i for i, weight in enumerate(weights) if weight > cap]
    return [weight if weight <= cap else 0.0 for weight in weights], cut


# %% tags=["wrong"] exercise="cut" says="the weights are off"
import math


def cut_weights(learner, sampler, cap=2.0):
    pairs = zip(learner, sampler, strict=True)
    weights = [math.exp(sum(now) - sum(then)) for now, then in pairs]
    cut = [i for i, weight in enumerate(weights) if weight > cap]
    return [max(1 / cap, min(weight, cap)) for weight in weights], cut


# %% [markdown]
# ## 7. The trap
#
# This happened to us. A run with four bits on a processor did not learn. Rewards had contrast, the
# loss looked as always, the gradient was small and not 0. It set in with the first evaluation;
# until then the same run had learned.
#
# The cause: some processors multiply bfloat16 in hardware (AVX512-BF16). There, the first time a
# 4-bit layer of bitsandbytes is asked in eval mode *without* a gradient, it packs its weight anew,
# for a faster product. An evaluation is such a call, and drawing answers may be one. That product
# is for inference. It has no way back, and the layer keeps it for good. From then on nothing flows
# through. The kit turns it off when it loads; here we turn it on again, on a policy that is thrown
# away. How much of the gradient is left?

# %%
guess_trap = lesson.predict(
    "left",
    "After one evaluation: how many per cent of the gradient's length are "
    "left in the first block of tiny?",
    low=0,
    high=100,
    unit="%",
)
guess_trap

# %%
from rlkit.lab.four_bit_trap import train, why_not
from rlkit.lab.trap_records import (
    stored_runs,
    stored_traps,
    trap,
    trap_figure,
)

if why_not():
    print(why_not(), "What follows was measured earlier.")
found = trap("tiny")
print(found, "\nmeasured:", found.where)
first = found.by_block[0]
guess_trap.reveal(trap_figure(found), 100 * first[1] / first[0])

# %% [markdown]
# The log-probabilities move by some thousandths of a nat: who would notice? But the gradient of the
# first block has lost most of its length, and its direction with it. It is not 0, because it still
# finds ways around the spoilt layers: along the residual stream, and through the adapters
# themselves. And learning? One run proves little, so three were trained without the trap and three
# with it. (Adam makes up for a gradient's length, and not for its direction.)

# %%
for run in stored_runs():
    print(run)
print("measured:", stored_runs()[0].where)
print("\nsmol, measured earlier:", stored_traps()[1], sep="\n")
if TRAPPED and not why_not():
    print("\nnow, here:")
    for sprung in (False, True):
        print(train(sprung, steps=TRAPPED))
lessons.failure_card(
    "The layer that lost its gradient",
    see="grad_norm is a fifth of what it was, not 0, and the reward hardly "
    "moves. It set in with the first evaluation.",
    cause="A layer was repacked for inference in the first call without a "
    "gradient. Its fast product has no way back.",
    do="Compare the gradient on one batch before and after an evaluation, "
    "on every new machine. Turn the repacking off right after loading: "
    "support_avx512bf16_for_cpu = False on each 4-bit layer.",
)

# %% [markdown]
# Without it, all three learn. With it one rose a little, one stayed, and one fell to a quarter; no
# error came up. One thing may ring: the kit asks at each update that what was just drawn have a
# ratio of 1, and it stopped the third of these runs, at 1.2 % off. For this table that check was
# opened. (The kit's default, `learner="copy"`, trains through the merged copy, and meets no 4-bit
# product at all. What this lesson says of the gap and of the trap goes through the model,
# `learner="model"`.)
#
# A second silence, found with the function that you wrote. bitsandbytes can give back a matrix
# wrongly when a row is not a whole number of blocks. We ask it for a row of 192 in blocks of 64,
# which fit, and of 128, which do not, and do the same by hand.

# %%
from rlkit.lab.nf4 import library_matrix

if reason is None:
    for size_of_block in (64, 128):
        by_hand = error(W, quantise(W, size_of_block).matrix())
        library = error(W, library_matrix(W, size_of_block))
        print(
            f"row of {W.shape[1]}, blocks of {size_of_block:>3}: by hand "
            f"{100 * by_hand:.1f} %, bitsandbytes {100 * library:.1f} %"
        )
lessons.failure_card(
    "A block that goes over the end of a row",
    see="A model in four bits is much worse than in 16, on one kind of "
    "processor only. Nothing is reported.",
    cause="Blocks are counted over the whole matrix when it is put into "
    "four bits, and row by row by one fast way back.",
    do="Quantise one matrix, take it back, and look at the error: about "
    "9 % is NF4, 20 % is a bug. Rows of a multiple of 64 are safe.",
)

# %% [markdown]
# ## 8. On a GPU
#
# Nothing changes but the name. A T4 has no bfloat16, so the kit computes in float16 there, and the
# adapter stays in float32. Sampler and learner round differently, so the weights are cut at 2.

# %%
BIG = "Qwen/Qwen3-0.6B"  # or Qwen/Qwen3-1.7B
if not torch.cuda.is_available():
    print("No CUDA device is here, so this part is skipped.")
else:
    on_gpu = rlkit.Policy.load(BIG, lora=rlkit.LoraSpec())
    print(on_gpu.precision)
    config = rlkit.LoopConfig(
        problems_per_step=4, group_size=8, learning_rate=1e-4, micro_batch=8
    )
    objective = GRPO(off_policy=Truncate(2.0))
    loop = rlkit.ClosedLoop(on_gpu, ["pyfunc"], objective, config)
    for record in loop.run(lessons.pick(fast=2, full=20), progress=False):
        print(
            f"step {record.step}: reward {record['reward']:.2f}, gradient "
            f"{record['grad_norm'] or 0:.2f}, {record['step_time']:.0f} s"
        )
    print("peak", size(torch.cuda.max_memory_allocated()))

# %% [markdown]
# ## 9. At scale
#
# The same in TRL, shown and not run. The two objects are what `Policy.load` builds.
#
# ```python
# from peft import LoraConfig
# from transformers import AutoModelForCausalLM, BitsAndBytesConfig
# model = AutoModelForCausalLM.from_pretrained(
#     "Qwen/Qwen3-1.7B",
#     quantization_config=BitsAndBytesConfig(
#         load_in_4bit=True,
#         bnb_4bit_quant_type="nf4",
#         bnb_4bit_use_double_quant=True,
#     ),
# )
# trainer = GRPOTrainer(
#     model=model,
#     peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"),
#     reward_funcs=[rlkit.exact_answer],
#     train_dataset=dataset,
# )
# ```
#
# ## 10. Four questions

# %%
from rlkit.lessons import Question

outlier = Question(
    "One weight of a block is 50 times as large as the others. What then?",
    [("it is lost", "It comes back exactly."), ("they are", "All near 0.")],
    right="b",
)
repair = Question(
    "Can an adapter of rank 16 undo the rounding of four bits?",
    [("no", "Noise has no few directions."), ("yes", "Look at the panel.")],
    right="a",
)
base = Question(
    "The sampler has the right adapter and the base before NF4. And now?",
    [("fine", "Half a nat a token."), ("off-policy", "Another base.")],
    right="b",
)
spoilt = Question(
    "grad_norm is small but not 0, and nothing is learned. What to do?",
    [("raise the rate", "The direction is wrong, too."),
     ("compare", "Before and after an evaluation.")],
    right="b",
)  # fmt: skip
lesson.quiz("qlora", [outlier, repair, base, spoilt])
