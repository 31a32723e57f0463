"""A replay as one HTML page that needs nothing else, and no network.

Table, cosines, changes, and every answer with its tokens coloured by each objective's
weights. Model text is escaped; the page's policy forbids every script but its own.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from rlkit import __version__
from rlkit.errors import UserError
from rlkit.lab.replay_figures import (
    answer_html,
    change_figure,
    cosine_figure,
    legend_html,
    summary_html,
)
from rlkit.lab.theme import FONT, escape, figure_block
from rlkit.loop.replay.result import Replay
from rlkit.loop.run import write_whole

_DRAW = """
for (const figure of document.querySelectorAll(".rlkit-figure")) {
  const data = JSON.parse(figure.querySelector(".rlkit-figure-data").textContent);
  Plotly.newPlot(figure.querySelector(".rlkit-plot"), data.data, data.layout, data.config);
}
"""
_STYLE = f"""
:root {{ color-scheme: light dark; }}
body {{ font-family: {FONT}; margin: 0 auto; max-width: 76rem; padding: 1rem; }}
table {{ border-collapse: collapse; font-size: .9rem; }}
td, th {{ padding: .15rem .6rem .15rem 0; text-align: left; }}
.rlkit-scroll {{ overflow-x: auto; }}
caption {{ text-align: left; padding: .3rem 0; }}
figure {{ margin: 1rem 0; }}
summary {{ cursor: pointer; padding: .3rem 0; }}
"""


def write_replay(replay: Replay, file: str | Path) -> Path:
    """Writes the page; it is whole at any moment, or absent.

    Raises:
        UserError: the file cannot be written.
    """
    file = Path(file)
    try:
        write_whole(file, replay_html(replay))
    except OSError as error:
        raise UserError(f"the page {str(file)!r} cannot be written: {error.strerror}") from error
    return file


def replay_html(replay: Replay) -> str:
    """The page as text."""
    from plotly.offline import get_plotlyjs

    scripts = [get_plotlyjs(), _DRAW]
    hashes = " ".join(f"'sha256-{_sha256(text)}'" for text in scripts)
    policy = f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:"
    figures = "".join(
        figure_block(figure, heading="h2")
        for figure in (cosine_figure(replay), change_figure(replay))
    )
    title = "Counterfactual replay"
    if replay.step is not None:
        title += f" of step {replay.step}"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>"
        f"<h1>{escape(title)}</h1>{summary_html(replay)}{figures}"
        f"<h2>Every answer, token by token</h2>{legend_html('weights')}{_groups(replay)}"
        f"</main><footer><p>Written by rlkit {__version__}.</p></footer>"
        f"<script>{scripts[0]}</script><script>{scripts[1]}</script></body></html>\n"
    )


def _groups(replay: Replay) -> str:
    groups: dict[int, list[int]] = {}
    for number, rollout in enumerate(replay.rollouts):
        groups.setdefault(rollout.group, []).append(number)
    blocks = []
    for group, numbers in groups.items():
        opened = "" if blocks else " open"
        answers = "".join(answer_html(replay, number) for number in numbers)
        question = replay.rollouts[numbers[0]].question
        blocks.append(
            f"<details{opened}><summary>Group {group}: {escape(question)}</summary>"
            f"{answers}</details>"
        )
    return "".join(blocks)


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
