"""The sandbox's badge in a notebook: how strongly programs are kept apart here, at a glance.

Everything that came from anywhere else is escaped before it becomes HTML. Without a front
end that shows HTML, the same is one line of text.

Left out on purpose: scripts and style sheets, so that it looks the same in a saved notebook.
"""

from __future__ import annotations

from html import escape
from typing import Any

from rlkit.sandbox.types import IsolationReport, Level

#: Dark text on light ground, readable in both themes; never colour alone, the word is there.
_GROUND = {
    Level.NONE: "#f9d6d5",
    Level.LIMITS: "#fbe3c4",
    Level.CONFINED: "#d9edd8",
    Level.NAMESPACED: "#cfe8d8",
    Level.CONTAINER: "#cfe3f2",
    Level.SEPARATE_KERNEL: "#cfe3f2",
}
_SIGNS = {"enforced": "holds", "partial": "in part", "absent": "open"}


class Badge:
    """Shows an isolation report in a notebook, or as text.

    Args:
        report: what is to be shown.
        backend: whose report it is.

    >>> print(Badge(IsolationReport(Level.LIMITS, "limits only"), "local"))
    sandbox (local): level 1 of 5, LIMITS: limits only
    """

    def __init__(self, report: IsolationReport, backend: str = "local") -> None:
        self.report, self.backend = report, backend

    def __str__(self) -> str:
        report = self.report
        return (
            f"sandbox ({self.backend}): level {int(report.level)} of 5, {report.level.name}: "
            f"{report.sentence}"
        )

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        report = self.report
        rows = "".join(
            f"<tr><th scope='row' style='text-align:left'>{escape(p.name)}</th>"
            f"<td>{_SIGNS[p.state]}</td><td style='text-align:left'>{escape(p.mechanism)}</td></tr>"
            for p in report.properties
        )
        table = (
            "<details><summary>what was tried, and what held</summary><table>"
            "<thead><tr><th scope='col'>property</th><th scope='col'>state</th>"
            f"<th scope='col'>by what</th></tr></thead><tbody>{rows}</tbody></table></details>"
            if rows
            else ""
        )
        return (
            f"<div style='background:{_GROUND[report.level]};color:#1a1a1a;padding:0.4em 0.8em;"
            "border-radius:6px;display:inline-block;max-width:60em'>"
            f"<strong>sandbox, {escape(self.backend)}: {report.level.name}</strong> "
            f"(level {int(report.level)} of 5). {escape(report.sentence)}{table}</div>"
        )


def badge(sandbox: Any = None) -> Badge:
    """The badge of a sandbox, or of this machine's own.

    Args:
        sandbox: an open `Sandbox`; one is opened and closed when None.

    Raises:
        UserError: nothing can be started here.

    >>> badge().report.level >= Level.NONE
    True
    """
    if sandbox is not None:
        backend = sandbox.backend if isinstance(sandbox.backend, str) else sandbox.backend.name
        return Badge(sandbox.report(), backend)
    from rlkit.sandbox.sandbox import Sandbox

    with Sandbox(workers=1) as own:
        return Badge(own.report())
