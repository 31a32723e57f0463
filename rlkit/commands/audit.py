"""`rlkit audit REWARD`: the report card of a reward."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rlkit.errors import UserError


def audit(
    reward: Annotated[
        str, typer.Argument(help="A known reward, module:object, or a file with its source.")
    ],
    subject: Annotated[
        str | None,
        typer.Option(help="What it judges, when its columns do not say: answer, code, …"),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="A file with people's scores, as expert_panel writes it.")
    ] = None,
    limit: Annotated[float, typer.Option(help="Seconds that one attack may take.")] = 5.0,
    seed: Annotated[int, typer.Option(help="Decides which problems are drawn.")] = 0,
    html: Annotated[Path | None, typer.Option(help="Also write the card as a page.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object and nothing else.")
    ] = False,
) -> None:
    """Attacks a reward and prints its report card; exit code 1 when it does not pass."""
    from rlkit.rewards.audit import audit as examine
    from rlkit.rewards.audit.load import load_reward

    card = examine(load_reward(reward), labels=labels, subject=subject, limit_s=limit, seed=seed)
    if html is not None:
        try:
            html.write_text(_page(card.reward, card._repr_html_()), encoding="utf-8")
        except OSError as error:
            raise UserError(f"the page cannot be written to {str(html)!r}: {error}") from None
    print(json.dumps(card.to_dict()) if as_json else card)
    if not card.passed:
        raise typer.Exit(1)


def _page(name: str, body: str) -> str:
    from html import escape

    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>Report card of {escape(name)}</title></head><body>{body}</body></html>\n"
    )
