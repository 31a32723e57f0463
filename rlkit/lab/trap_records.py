"""What is kept of the four-bit trap, and drawn of it.

    python -m rlkit.lab.trap_records --make OUT.json --where "the machine, in words"

Where the trap can be shown, `trap` springs it; elsewhere it gives what was measured before
and lies in the package, which says on which machine that was.

Left out on purpose: the trap itself, see `rlkit.lab.four_bit_trap`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from rlkit.errors import UserError
from rlkit.lab.four_bit_trap import SEEDS, Trap, TrapRun, spring, train, why_not
from rlkit.lab.theme import PALETTE, PATTERNS, bar_pattern, describe, number, template

FILE = Path(__file__).parent / "data" / "four_bit_trap.json"


def trap(name: str = "tiny", **sizes: Any) -> Trap:
    """What the trap does: measured here where that can be, else as it was measured before.

    Raises:
        UserError: it cannot be shown here, and nothing is stored of this policy.
    """
    if not why_not():
        return spring(name, **sizes)
    for found in stored_traps():
        if found.policy == name:
            return found
    raise UserError(f"{why_not()} Nothing is stored of {name!r}")


@cache
def stored_traps(file: Path = FILE) -> tuple[Trap, ...]:
    """What was measured before.

    >>> [found.policy for found in stored_traps()]
    ['tiny', 'smol']
    """
    rows = json.loads(file.read_text())["traps"]
    return tuple(Trap(**{**r, "by_block": tuple(map(tuple, r["by_block"]))}) for r in rows)


@cache
def stored_runs(file: Path = FILE) -> tuple[TrapRun, ...]:
    """Trainings that were made before: three seeds without the trap, and the same with it.

    >>> [run.sprung for run in stored_runs()]
    [False, False, False, True, True, True]
    """
    rows = json.loads(file.read_text())["runs"]
    return tuple(TrapRun(**{**r, "grad_norms": tuple(r["grad_norms"])}) for r in rows)


def trap_figure(found: Trap) -> go.Figure:
    """Length of the gradient in each block, before and after."""
    figure = go.Figure(layout={"template": template()})
    blocks = list(range(1, len(found.by_block) + 1))
    for index, name in enumerate(("before", "after one evaluation")):
        figure.add_bar(
            x=blocks,
            y=[round(both[index], 6) for both in found.by_block],
            name=name,
            marker={
                "color": PALETTE[index],
                "pattern": bar_pattern(PATTERNS[index]),
            },
        )
    figure.update_xaxes(title_text="block (number, 1 reads the text)")
    if len(blocks) <= 12:
        figure.update_xaxes(dtick=1)
    figure.update_yaxes(title_text="gradient (length)")
    figure.update_layout(title="Gradient, before and after", barmode="group", height=360)
    kept = [100 * after / before for before, after in found.by_block]
    told = (
        f"In the first block {number(round(kept[0], 1))} % of the gradient's length are left, in "
        f"the last {number(round(kept[-1], 1))} %"
    )
    caption = f"{told}. The lower a block, the more spoilt layers lie on the way to it."
    if found.where != "here":
        caption = f"{caption} Measured earlier, on {found.where}."
    return describe(figure, caption, f"Pairs of bars, the second always lower. {told}.")


def make(out: str | Path, where: str) -> list[Trap]:
    """Measures the trap on `tiny` and `smol`, trains with it, and writes all into `out`.

    Args:
        where: the machine, in words.

    Raises:
        UserError: there is such a file already, or the trap cannot be shown here.
    """
    out = Path(out)
    if out.exists():
        raise UserError(f"{out} exists already; give another name, or delete it")
    found = [
        spring("tiny"),
        spring("smol", problems=2, group_size=4, max_new_tokens=16, domain="pyfunc"),
    ]
    runs = [train(on, seed=seed) for on in (False, True) for seed in SEEDS]
    traps, trained = ([{**asdict(x), "where": where} for x in part] for part in (found, runs))
    out.write_text(json.dumps({"traps": traps, "runs": trained}, indent=1) + "\n")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command that makes the package's numbers."""
    parser = argparse.ArgumentParser(prog="python -m rlkit.lab.trap_records")
    parser.add_argument("--make", required=True, metavar="OUT", help="the file to write")
    parser.add_argument("--where", required=True, help="the machine, in words")
    options = parser.parse_args(arguments)
    try:
        for found in make(options.make, options.where):
            print(found)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
