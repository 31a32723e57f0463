"""From what stands in the box to a reward, and back.

Source text becomes a `SourceReward`: it runs in a process of its own, with a wall clock, so
an endless loop ends. A reward that is handed over as an object is shown by its source where
that is to be had.

Left out on purpose: telling good source from bad beyond what running it says.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from typing import Any

from rlkit.errors import UserError
from rlkit.lab.rewardlab.reweighed import Reweighed
from rlkit.rewards import Reward, get_reward, per_domain
from rlkit.rewards.source import SourceReward
from rlkit.rewards.source_child import SINGLE

#: What stands in the box when no reward is given. It is too easily pleased in one place,
#: so that there is something to find.
STARTING_SOURCE = """\
# What an answer is worth. Change it and press Apply.
from rlkit.rewards import (
    countdown_answer, exact_answer, format_reward, per_domain,
)


def looks_like_code(completions):
    return [
        float("def " in text and "return" in text)
        for text in completions
    ]


right = per_domain({
    "arith": exact_answer,
    "sort": exact_answer,
    "countdown": countdown_answer,
    "pyfunc": looks_like_code,
})
reward = 0.9 * right + 0.1 * format_reward
"""

_NOT_TO_BE_HAD = """\
# {name} was handed over as an object. Its source cannot stand alone here:
# write a reward below and press Apply to try another one.
"""


def make_reward(given: Any, time_limit_s: float) -> tuple[str, Reward]:
    """Source text for the box, and the reward that is meant.

    Args:
        given: source text, a reward's name, a `Reward`, a function, or a mapping from
            domain to any of the last three.
        time_limit_s: seconds that one scoring may take, for source text.

    Raises:
        UserError: an unknown name, or source that does not parse or defines no reward.
    """
    if isinstance(given, str):
        if given.strip().isidentifier():
            reward = get_reward(given.strip())
            return source_of(reward), reward
        if not given.strip():
            raise UserError("the box is empty; write a reward function in it")
        return given, SourceReward(given, timeout_s=time_limit_s, strict=True)
    reward = per_domain(given) if isinstance(given, Mapping) else get_reward(given)
    return source_of(reward), reward


def source_of(reward: Reward) -> str:
    """Source that stands for a reward in the box; a comment where there is none.

    >>> from rlkit.rewards import exact_answer
    >>> print(source_of(exact_answer))
    from rlkit.rewards import get_reward
    <BLANKLINE>
    reward = get_reward('exact_answer')
    <BLANKLINE>
    """
    if isinstance(reward, SourceReward):
        return reward.text
    if _registered(reward):
        return f"from rlkit.rewards import get_reward\n\nreward = get_reward({reward.name!r})\n"
    note = _NOT_TO_BE_HAD.format(name=reward.name)
    try:
        text = textwrap.dedent(inspect.getsource(reward.function))
    except (OSError, TypeError):
        return note
    if inspect.ismethod(reward.function):  # part of a class, which says little by itself
        return note
    return note + textwrap.indent(text, "# ", lambda line: True)


def fresh_reward(state: Any) -> Reward:
    """The reward in force for use outside of the lab, in a process of its own.

    A row that it fails on gets no verdict there, instead of ending everything.
    """
    version = state.version
    reward = version.reward
    if isinstance(reward, SourceReward):
        reward = SourceReward(version.source, timeout_s=state.time_limit_s)
    return reweighed(reward, version.factors)


def reweighed(reward: Reward, factors: Mapping[str, float]) -> Reward:
    """The reward with the sliders' factors; itself when no slider was moved."""
    return Reweighed(reward, factors) if factors else reward


def reweighed_source(source: str, factors: Mapping[str, float]) -> str:
    """Source of the reward with the sliders' factors written below it."""
    if not factors:
        return source
    if _stands_alone(source):
        start, inner = source.rstrip(), "_as_reward(reward)"
    else:  # what is the reward in it is decided when it runs, or it judges one text at a time
        start, inner = f"_SOURCE = {source!r}", "_as_reward.from_source(_SOURCE)"
    imported = "reward as _as_reward" if _stands_alone(source) else "Reward as _as_reward"
    return (
        f"{start}\n\n\n"
        "# What the sliders of the Reward Lab were set to: factors of what each part adds.\n"
        "from rlkit.lab.rewardlab.reweighed import Reweighed as _Reweighed  # noqa: E402\n"
        f"from rlkit.rewards import {imported}  # noqa: E402\n\n"
        f"reward = _Reweighed({inner}, {dict(factors)!r})\n"
    )


def _stands_alone(source: str) -> bool:
    """Whether `reward` in this source is what a sum of rewards can be made of as it is."""
    bound: ast.stmt | None = None
    for node in ast.parse(source).body:
        names = [node.name] if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else []
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        bound = node if "reward" in names else bound
    if isinstance(bound, (ast.FunctionDef, ast.AsyncFunctionDef)):
        arguments = [*bound.args.posonlyargs, *bound.args.args]
        return not (arguments and arguments[0].arg in SINGLE)
    return bound is not None


def _registered(reward: Reward) -> bool:
    try:
        return get_reward(reward.name) is reward
    except UserError:
        return False
