"""The curriculum: which domain the next problems come from."""

from rlkit.curriculum.curriculum import WEIGHTINGS, Curriculum, DomainStats

__all__ = ["WEIGHTINGS", "Curriculum", "DomainStats"]
