"""Is a mathematical answer right: extraction, reading, comparison, and math-verify last."""

from rlkit.rewards.maths.extraction import extract_maths
from rlkit.rewards.maths.judging import Judgement, judge
from rlkit.rewards.maths.math_answer import MathAnswer, math_answer

__all__ = ["Judgement", "MathAnswer", "extract_maths", "judge", "math_answer"]
