"""The lab: what is seen and touched of a run, in a notebook or as a page.

Nothing heavy is imported here: no torch, no widgets, no plotly. Names are resolved
when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "BanditPanel": "rlkit.lab.bandit_panel",
    "Dashboard": "rlkit.lab.dashboard",
    "GroupPanel": "rlkit.lab.group_panel",
    "GroupView": "rlkit.lab.group_view",
    "LiveRun": "rlkit.lab.live_run",
    "LossPanel": "rlkit.lab.loss_panel",
    "Nf4Panel": "rlkit.lab.nf4_panel",
    "ExpertPanel": "rlkit.lab.expert",
    "RatioPanel": "rlkit.lab.ratio_panel",
    "ReportPage": "rlkit.lab.report_page",
    "current": "rlkit.lab.live",
    "headless": "rlkit.lab.frontend",
    "mode": "rlkit.lab.frontend",
    "start": "rlkit.lab.live",
    "figure_block": "rlkit.lab.theme",
    "figure_notes": "rlkit.lab.theme",
    "show_figure": "rlkit.lab.theme",
    "run_figures": "rlkit.lab.figures",
    "expert_panel": "rlkit.lab.expert",
    "replay_view": "rlkit.lab.replay_panel",
    "reward_lab": "rlkit.lab.rewardlab.panel",
    "sandbox_bench": "rlkit.lab.sandboxbench.panel",
    "verdict_map": "rlkit.lab.sandboxbench.verdict_map",
    "verdict_timeline": "rlkit.lab.sandboxbench.timeline",
    "stored_rollouts": "rlkit.lab.stored",
    "write_replay": "rlkit.lab.replay_page",
    "write_report": "rlkit.lab.report",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rlkit.lab' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
