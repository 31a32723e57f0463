"""NF4 by hand: a matrix in four bits a weight, in plain torch, to read and to play with.

A matrix is read row after row and cut into blocks. Each block keeps one scale, its largest
magnitude, and for each weight the number of the nearest of 16 levels. The levels are
quantiles of a normal distribution, so that weights that are normal use all of them alike
(Dettmers et al., *QLoRA*, 2305.14314). Double quantisation stores the scales in 8 bits, too.

bitsandbytes does the same, faster, and is what `Policy.load(quantize="nf4")` uses; a test
holds the two equal. Left out on purpose: packing two codes into a byte, and blocks that a
matrix does not fill.

Axes: N weights in all, K blocks, S weights of a block.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from rlkit.errors import UserError

#: The outermost quantile: halfway between 1 - 1/32 and 1 - 1/30, as in the paper's code.
OUTERMOST = (1 - 1 / 32 + 1 - 1 / 30) / 2
#: Weights of a block, and blocks whose scales share a scale of their own.
BLOCK, SCALES = 64, 256


@cache
def nf4_levels() -> torch.Tensor:
    """The 16 levels, ascending from -1 to 1, with an exact 0 among them; shape (16,).

    Eight quantiles above 0, seven below, and 0 itself: a weight of 0 must stay 0.

    >>> [round(level, 3) for level in nf4_levels().tolist()[:8]]
    [-1.0, -0.696, -0.525, -0.395, -0.284, -0.185, -0.091, 0.0]
    """
    above = torch.special.ndtri(torch.linspace(OUTERMOST, 0.5, 9, dtype=torch.float64)[:-1])
    below = -torch.special.ndtri(torch.linspace(OUTERMOST, 0.5, 8, dtype=torch.float64)[:-1])
    levels = torch.cat([below, torch.zeros(1, dtype=torch.float64), above]).sort().values
    return (levels / levels.max()).float()


@dataclass(frozen=True)
class FourBit:
    """A matrix in four bits.

    Attributes:
        codes_KS: which level each weight has, 0 to 15.
        scales_K: largest magnitude of each block.
        shape: of the matrix.
    """

    codes_KS: torch.Tensor
    scales_K: torch.Tensor
    shape: tuple[int, ...]

    @property
    def block(self) -> int:
        """Weights of a block."""
        return self.codes_KS.shape[1]

    def matrix(self) -> torch.Tensor:
        """The weights as they come back, float32."""
        return (nf4_levels()[self.codes_KS.long()] * self.scales_K[:, None]).view(self.shape)

    def double(self) -> FourBit:
        """The same with scales that have been through 8 bits."""
        return FourBit(self.codes_KS, through_8_bits(self.scales_K), self.shape)


def quantise(matrix: torch.Tensor, block: int = BLOCK) -> FourBit:
    """A matrix in NF4.

    Args:
        matrix: of any shape; it is read row after row.
        block: S, weights that share a scale.

    Raises:
        UserError: blocks of this size do not fill the matrix.

    >>> quantise(torch.tensor([[0.1, -0.5, 0.0, 0.26]]), block=4).codes_KS.tolist()
    [[9, 0, 7, 13]]
    """
    if block < 1 or matrix.numel() % block:
        raise UserError(
            f"blocks of {block} do not fill a matrix of {matrix.numel():,} weights; choose a "
            "size that divides it"
        )
    weights_KS = matrix.detach().float().reshape(-1, block)
    scales_K = weights_KS.abs().amax(dim=1)
    # A block of zeros has no scale to divide by; its codes are those of 0.
    scaled_KS = weights_KS * (1 / scales_K.clamp(min=1e-38))[:, None]
    levels = nf4_levels()
    middles = (levels[1:] + levels[:-1]) / 2
    codes_KS = torch.bucketize(scaled_KS, middles).to(torch.uint8)
    return FourBit(codes_KS, scales_K, tuple(matrix.shape))


def through_8_bits(scales_K: torch.Tensor) -> torch.Tensor:
    """Scales as 8 bits keep them: 256 steps around their mean, 256 scales to a block.

    bitsandbytes spaces the steps like a float's, closer near 0, and these are even; the
    error of either is far below that of the four bits.

    >>> through_8_bits(torch.tensor([0.5, 0.5]))
    tensor([0.5000, 0.5000])
    """
    mean = scales_K.mean()
    back = []
    for part in (scales_K - mean).split(SCALES):
        largest = part.abs().max().clamp(min=1e-38)
        back.append((part / largest * 127).round() / 127 * largest)
    return torch.cat(back) + mean


def bits_a_weight(block: int, double: bool) -> float:
    """Bits that a weight takes, its share of the scales included.

    >>> bits_a_weight(64, False), round(bits_a_weight(64, True), 3)
    (4.5, 4.127)
    """
    scale = 8 + 32 / SCALES if double else 32
    return 4 + scale / block


def error(matrix: torch.Tensor, back: torch.Tensor) -> float:
    """How far the weights that come back are from the matrix: length of the difference, as a share.

    >>> round(error(torch.tensor([3.0, 4.0]), torch.tensor([3.0, 3.5])), 6)
    0.1
    """
    return float((back - matrix).norm() / matrix.norm())


def repaired(matrix: torch.Tensor, back: torch.Tensor, rank: int) -> float:
    """The error that is left when the best adapter of this rank is added to what came back.

    The best one is the largest singular parts of the difference (Eckart and Young, 1936).

    Raises:
        UserError: a rank below 0.

    >>> round(repaired(torch.eye(4), torch.zeros(4, 4), 2), 3)  # two of four parts are left
    0.707
    """
    if rank < 0:
        raise UserError(f"a rank must not be negative, not {rank}")
    parts = torch.linalg.svdvals((matrix - back).float())
    return float(parts[rank:].square().sum().sqrt() / matrix.norm())


def library_codes(matrix: torch.Tensor, block: int = BLOCK) -> FourBit:
    """The same by bitsandbytes: its codes, taken out of their bytes, and its scales.

    Raises:
        UserError: bitsandbytes does not work here.
    """
    from rlkit.policy.quantization import probe_nf4

    reason = probe_nf4("cpu")
    if reason is not None:
        raise UserError(reason)
    import bitsandbytes.functional as library

    packed, state = library.quantize_4bit(
        matrix.detach().float().contiguous(), blocksize=block, quant_type="nf4"
    )
    pairs = packed.flatten()
    codes = torch.stack([pairs >> 4, pairs & 15], dim=1).view(-1, block)
    return FourBit(codes, state.absmax, tuple(matrix.shape))


def library_matrix(matrix: torch.Tensor, block: int = BLOCK, double: bool = False) -> torch.Tensor:
    """What bitsandbytes gives back of a matrix that it put into four bits itself.

    Raises:
        UserError: bitsandbytes does not work here.
    """
    from rlkit.policy.quantization import probe_nf4

    reason = probe_nf4("cpu")
    if reason is not None:
        raise UserError(reason)
    import bitsandbytes.functional as library

    packed, state = library.quantize_4bit(
        matrix.detach().float().contiguous(),
        blocksize=block,
        quant_type="nf4",
        compress_statistics=double,
    )
    return library.dequantize_4bit(packed, state)
