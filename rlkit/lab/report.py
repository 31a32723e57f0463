"""The report of a run: one HTML page that needs nothing else, and no network.

It is read from the run directory alone, finished or not: what was trained, held-out
pass@1 before and after, curves, events, settings, and the rollouts to read, filter and
compare within their group.

What a policy wrote is hostile until shown otherwise. It reaches the page as JSON that
cannot end its element, is put there as text and never as markup, control characters
are spelled out, and the page's policy forbids every script but its own two and every
connection.

Left out on purpose: several runs on one page.
"""

from __future__ import annotations

import base64
import hashlib
import string
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from rlkit import __version__
from rlkit.errors import UserError
from rlkit.lab.drawing import EVENT_SIGNS, mark_of
from rlkit.lab.figures import run_figures
from rlkit.lab.rollout_data import pack_rollouts
from rlkit.lab.rows import evaluations, event_details, finite, step_of
from rlkit.lab.theme import (
    MISSING,
    Table,
    embed,
    escape,
    figure_block,
    number,
    table_html,
    visible,
)
from rlkit.loop.run import Run, write_whole

#: Name of the page in the run directory.
REPORT = "report.html"
#: So many events are listed; of more, the newest, and it says so.
MOST_EVENTS = 500

_ENDS = {"finished": "finished", "stopped": "was stopped", "interrupted": "was interrupted"}


def write_report(run: Run | str | Path, out: str | Path | None = None) -> Path:
    """Writes the page of a run, also of one that is still going on.

    Args:
        run: a `Run`, or the path of its directory.
        out: the file to write; `report.html` in the run directory when not given.

    Returns:
        The file that was written. It is whole at any moment, or absent.

    Raises:
        UserError: there is no run here, or the file cannot be written.
    """
    run = run if isinstance(run, Run) else Run.open(run)
    file = Path(out) if out is not None else run.path / REPORT
    if file.is_dir():
        raise UserError(f"{str(file)!r} is a folder; name a file for the report, such as {REPORT}")
    page = report_html(run)
    try:
        write_whole(file, page)
    except OSError as error:
        raise UserError(f"the report {str(file)!r} cannot be written: {error.strerror}") from error
    return file


def report_html(run: Run) -> str:
    """The page of a run as text."""
    rows, events = run.metrics(), run.events()
    rollouts = pack_rollouts(run.rollouts())
    scripts = {"plotly": _plotly(), "script": _template("report.js")}
    hashes = " ".join(f"'sha256-{_sha256(text)}'" for text in scripts.values())
    return string.Template(_template("report.html")).substitute(
        scripts,
        policy=f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'",
        style=_template("report.css"),
        title=escape(f"{_names(run.config)[0]} on {_names(run.config)[1]}"),
        summary=escape(_summary(run.config, rows, events)),
        headline=_headline(run.config, rows, events),
        figures=_figures(rows, events),
        events=_events(events),
        config=table_html(
            Table(["setting", "value"], [[k, _text(v)] for k, v in _flat(run.config)]),
            "Settings of the run, as kept in its config.json.",
            most=10_000,
        ),
        note=escape(rollouts["note"]),
        rollouts=embed(rollouts),
        footer=escape(
            f"Written by rlkit {__version__} at {time.strftime('%Y-%m-%d %H:%M %z')} "
            f"from the run directory {run.path.resolve().name}."
        ),
    )


# -- the sentences on top ------------------------------------------------------------------


def _names(config: Mapping[str, Any]) -> tuple[str, str]:
    """Policy and domains, for a sentence."""
    policy = _section(config, "policy").get("name") or "a policy of unknown name"
    return Path(str(policy)).name or str(policy), _listed(config.get("domains") or ["no domain"])


def _summary(
    config: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], events: Sequence[Mapping]
) -> str:
    """What was trained, in plain sentences, and whether it is over."""
    policy, loop = _section(config, "policy"), _section(config, "loop")
    name, domains = _names(config)
    facts = []
    if policy.get("parameters"):
        facts.append(f"{number(policy['parameters'])} parameters")
    if policy.get("trainable_parameters"):
        rank = _section(policy, "lora").get("rank") or _section(policy, "lora").get("r")
        through = f" in a LoRA adapter of rank {rank}" if rank else ""
        facts.append(f"{number(policy['trainable_parameters'])} of them trained{through}")
    facts.append(f"precision in force: {policy.get('precision', 'unknown')}")
    size = ""
    if loop.get("problems_per_step") and loop.get("group_size"):
        size = (
            f" Each step asks {loop['problems_per_step']} problems and takes "
            f"{loop['group_size']} answers to each."
        )
    objective = _section(config, "objective").get("name", "an unknown objective")
    done = f"{_count(rows[-1]['step'], 'step')}" if rows else "no step yet"
    return (
        f"The policy {name} ({'; '.join(facts)}) was trained with {objective} on {domains}: "
        f"{done}.{size} {_state(rows, events)}"
    )


def _state(rows: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]]) -> str:
    lifecycle = [e for e in events if e.get("kind") in (*_ENDS, "started", "resumed")]
    if not lifecycle:
        return "No training has been started." if not rows else "The run has no record of its end."
    last = lifecycle[-1]
    if last["kind"] in _ENDS:
        return f"The run {_ENDS[last['kind']]} at step {step_of(last)}."
    goal = next((e.get("steps") for e in reversed(lifecycle) if e["kind"] == "started"), None)
    of = f" of the {goal} asked for" if goal else ""
    at = rows[-1]["step"] if rows else 0
    return (
        f"The run has not ended: it stands at step {at}{of}, and is either still going on or "
        "was killed."
    )


def _headline(
    config: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], events: Sequence[Mapping]
) -> str:
    """Held-out pass@1 before and after, and what the run took."""
    times = [finite(row.get("step_time")) for row in rows]
    known = [t for t in times if t is not None]
    spent = duration(sum(known)) if known else MISSING
    if known and len(known) < len(times):
        spent += f" in {len(known)} of {len(times)} steps"
    tokens = next((row["num_tokens"] for row in reversed(rows) if row.get("num_tokens")), None)
    numbers = [
        ("Steps", number(rows[-1]["step"] if rows else 0)),
        ("Tokens sampled in training", number(tokens)),
        ("Time of all steps", spent),
    ]
    cards = "".join(f"<div><dt>{k}</dt><dd>{escape(v)}</dd></div>" for k, v in numbers)
    line = _section(config, "isolation")
    contained = line.get("sentence")
    if contained and line.get("backend"):
        contained = f"{line['backend']}, {line.get('level')}: {contained}"
    if not contained:
        contained = "not recorded."
        if "isolation" in config and config["isolation"] is None:
            contained = "No reward of this run executes code, so no sandbox was in use."
    return (
        f'{_pass_at_1(events)}<dl class="numbers">{cards}</dl>'
        f"<p><strong>How code was contained:</strong> {escape(contained)}</p>"
    )


def _pass_at_1(events: Sequence[Mapping[str, Any]]) -> str:
    found = evaluations(events)
    if not found:
        return (
            "<p>There is no held-out evaluation yet, so nothing can be said of pass@1. "
            "The curves below show the training problems only.</p>"
        )
    table, notes = [], set()
    for domain, measured in found.items():
        before, after = measured[0], measured[-1] if len(measured) > 1 else None
        if step_of(before) > 0:
            notes.add("The earliest evaluation was made after training had begun.")
        if after is None:
            notes.add("There is only one evaluation so far: no before and after to compare.")
        low, high = (finite((e or {}).get("pass_at_1")) for e in (before, after))
        gain = MISSING if low is None or high is None else f"{high - low:+.3f}".replace("-", "−")
        unscored = sum(int((e or {}).get("unscored") or 0) for e in (before, after))
        if unscored:
            notes.add(f"{domain}: {_count(unscored, 'answer')} without a verdict left out.")
        problems = (after or before).get("problems")
        table.append([domain, _measured(before), _measured(after), gain, problems])
    columns = ["domain", "first", "latest", "change", "held-out problems"]
    caption = (
        "Held-out pass@1: the share of problems never trained on that one answer, sampled at the "
        "training temperature, solves. In brackets the 95 % interval over problems; a change "
        "smaller than the intervals may be chance."
    )
    said = "".join(f"<p>{escape(note)}</p>" for note in sorted(notes))
    return table_html(Table(columns, table), caption) + said


def _measured(event: Mapping[str, Any] | None) -> str:
    if event is None:
        return MISSING
    value, low, high = (finite(event.get(key)) for key in ("pass_at_1", "low", "high"))
    if value is None:
        return f"no verdict (step {step_of(event)})"
    interval = f" [{low:.3f}, {high:.3f}]" if low is not None and high is not None else ""
    return f"{value:.3f}{interval} (step {step_of(event)})"


def duration(seconds: float) -> str:
    """Seconds for people.

    >>> [duration(s) for s in (0.25, 42.4, 192, 3840)]
    ['0.25 s', '42 s', '3 min 12 s', '1 h 4 min']
    """
    if seconds < 10:
        return f"{seconds:.2g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


# -- the sections below ----------------------------------------------------------------------


def _figures(rows: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]]) -> str:
    figures = run_figures(rows, events)
    said = "" if rows else "<p>No step has been recorded yet, so there are no training curves.</p>"
    said += "<p>Drag over a figure to zoom in; a double click goes back.</p>" if figures else ""
    blocks = "".join(figure_block(figure, heading="h3") for figure in figures.values())
    empty = [
        name
        for name in dict.fromkeys(key for row in rows for key in row)
        if name not in ("step", "nonfinite") and all(finite(row.get(name)) is None for row in rows)
    ]
    if empty:
        said += f"<p>Recorded, but without a value in any step: {escape(_listed(empty))}.</p>"
    holes = sum(1 for row in rows if row.get("nonfinite"))
    if holes:
        said += (
            f"<p>In {_count(holes, 'step')} a number was infinite or not a number; "
            "the curves have gaps there.</p>"
        )
    return f'{said}<div class="figures">{blocks}</div>'


def _events(events: Sequence[Mapping[str, Any]]) -> str:
    if not events:
        return "<p>Nothing has been noted yet.</p>"
    shown = events[-MOST_EVENTS:]
    table = []
    for event in shown:
        mark = mark_of(event)
        sign = f"{EVENT_SIGNS[mark]} " if mark in EVENT_SIGNS else ""
        when = str(event.get("time", MISSING))[:19].replace("T", " ")
        table.append([step_of(event), f"{sign}{mark}", event_details(event), when])
    caption = "What happened, in order; events with a sign are marked on the curves."
    if len(shown) < len(events):
        caption += f" The newest {len(shown)} of {len(events):,} events, all are in events.jsonl."
    columns = ["step", "event", "what it says", "time"]
    return table_html(Table(columns, table), caption, most=MOST_EVENTS)


# -- small things ------------------------------------------------------------------------------


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = config.get(name)
    return value if isinstance(value, Mapping) else {}


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping) or not value:
        yield prefix, value
        return
    for key, inner in value.items():
        yield from _flat(inner, f"{prefix}.{key}" if prefix else str(key))


def _text(value: Any) -> str:
    """A setting as it would be typed; a missing one says so."""
    if value is None:
        return "not set"
    if isinstance(value, (list, tuple)):
        return _listed(value) if value else "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    # Settings are shown in full: 12345678 is not 1.235e+07 here.
    return str(value)


def _listed(names: Iterable[Any]) -> str:
    *first, last = [visible(name) for name in names]
    return f"{', '.join(first)} and {last}" if first else last


def _count(count: int, noun: str) -> str:
    return f"{number(count)} {noun}{'' if count == 1 else 's'}"


@lru_cache(maxsize=4)
def _template(name: str) -> str:
    file = resources.files("rlkit.lab").joinpath("templates", name)
    return file.read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    # A browser hashes a script after it has made all line ends alike.
    text = get_plotlyjs().replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
