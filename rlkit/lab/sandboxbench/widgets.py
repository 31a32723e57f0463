"""The widgets of the sandbox bench. They hold nothing but what is typed and shown.

Only core ipywidgets and static plotly figures, drawn anew when something has run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets as w

from rlkit.errors import UserError
from rlkit.lab.figure_box import Alert, FigureBox, button, checkbox, panel, row, slider, status
from rlkit.lab.live_run import describe_error
from rlkit.lab.sandboxbench.programs import Program, first_of, programs
from rlkit.lab.sandboxbench.test_lines import FORMS
from rlkit.lab.sandboxbench.words import verdict_html
from rlkit.lab.theme import escape
from rlkit.sandbox import languages

if TYPE_CHECKING:
    from rlkit.lab.sandboxbench.panel import SandboxBench

_STYLE = """<style>
.rlkit-panel textarea {font-family: var(--jp-code-font-family, monospace); font-size: 13px;
  line-height: 1.35; white-space: pre; tab-size: 4}
.rlkit-panel .widget-textarea > label {text-align: left; width: auto}
.rlkit-panel .widget-html-content table {border-collapse: collapse; margin: 4px 0}
.rlkit-panel .widget-html-content caption, .rlkit-panel .widget-html-content th,
.rlkit-panel .widget-html-content td {text-align: left; vertical-align: top; padding: 2px 8px 2px 0}
.rlkit-panel .rlkit-scroll {overflow-x: auto; max-width: 100%}
.rlkit-panel .widget-html {min-width: 0; max-width: 100%; margin: 2px 0}
.rlkit-panel .widget-html-content {min-width: 0; max-width: 100%; overflow-wrap: anywhere}
.rlkit-panel .rlkit-scroll td, .rlkit-panel .rlkit-scroll th {overflow-wrap: normal}
.rlkit-panel .widget-dropdown > select {min-height: 28px}
.rlkit-panel .widget-html-content p {margin: 2px 0}
</style>"""
#: What a slider offers, by the name of the limit, and what it is called.
_LIMITS = {
    "wall_s": ("Wall clock (s)", (0.25, 0.5, 1.0, 2.0, 4.0, 10.0)),
    "cpu_s": ("Processor time (s)", (1.0, 2.0, 4.0, 10.0)),
    "memory_mb": ("Memory (MiB)", (64, 128, 256, 512, 768, 1024, 2048)),
    "output_kb": ("Output (KiB)", (1, 4, 16, 64, 256, 1024)),
    "processes": ("More processes", (0, 1, 4, 16, 64)),
}
_MODES = {
    "func": "func: values are compared outside (strong)",
    "io": "io: what is printed is compared outside (strong)",
    "proxy": "proxy: assertions in a second process (strong)",
    "inproc": "inproc: tests beside the program (weak)",
}


class Controls:
    """The widgets of one bench."""

    def __init__(self, bench: SandboxBench) -> None:
        self.bench = bench
        self._quiet = False  # while widgets are set from here, their handlers rest
        self._shown_map: Any = None
        self.alert = Alert()
        wide = {"description_width": "initial"}
        full = w.Layout(width="100%", flex_flow="column", align_items="stretch")
        self.program = w.Dropdown(
            description="Example", options=[("choose one …", ""), *((p.name, p.name) for p in
            programs())], value="", style=wide, layout=w.Layout(width="100%"),
        )  # fmt: skip
        self.says = w.HTML()
        self.language = w.Dropdown(
            description="Language", options=[(_title(n), n) for n in languages.NAMES], style=wide,
            layout=w.Layout(width="260px", max_width="100%"),
        )  # fmt: skip
        self.mode = w.Dropdown(
            description="Trust", style=wide, layout=w.Layout(width="380px", max_width="100%")
        )
        self.source = w.Textarea(description="Program", rows=12, layout=full, style=wide)
        self.tests = w.Textarea(description="Tests, one a line", rows=4, layout=full, style=wide)
        self.sliders = {
            name: slider(label, values, getattr(bench.settings.limits, name))
            if getattr(bench.settings.limits, name) in values
            else slider(label, sorted({*values, getattr(bench.settings.limits, name)}),
                        getattr(bench.settings.limits, name))
            for name, (label, values) in _LIMITS.items()
        }  # fmt: skip
        self.run = button("Run", "play", "Run the program once in the sandbox", True)
        self.ten = button("Run ten times", "repeat", "Do all runs end alike?")
        self.all = button("Try all programs", "th", "Every program of the list on these tests")
        self.same_seed = checkbox("same seed each time", False)
        self.missing, self.state, self.verdict = w.HTML(), w.HTML(), w.HTML()
        self.timeline, self.map, self.map_says = FigureBox(300), FigureBox(300), w.HTML()
        left = w.VBox(
            [self.program, self.says, row(self.language, self.mode), self.source, self.tests,
             row(*self.sliders.values()), row(self.run, self.ten, self.all, self.same_seed)],
            layout=w.Layout(flex="1 1 420px", min_width="0"),
        )  # fmt: skip
        right = w.VBox(
            [self.state, self.alert.box, self.verdict, self.timeline.box],
            layout=w.Layout(flex="1 1 420px", min_width="0"),
        )
        columns = row(left, right)
        columns.layout.grid_gap = "8px 24px"
        self.box = panel(w.HTML(_STYLE), self.missing, columns, self.map_says, self.map.box)
        self.box.layout.width = "100%"
        for part in (self.timeline.box, self.map.box):
            part.layout.display = "none"
        self._say_missing()
        self.show_settings()
        self.state.value = status("Nothing was run yet.")
        self._watch()

    def _watch(self) -> None:
        self._on(self.program, self._pick)
        self._on(self.language, self._choose_language)
        self._on(self.mode, self._choose_mode)
        for pressed, act in (
            (self.run, lambda: self.bench.run()),
            (self.ten, lambda: self.bench.repeat(same_seed=self.same_seed.value)),
            (self.all, lambda: self.bench.try_all()),
        ):
            pressed.on_click(self.alert.guarded(lambda act=act: self._start(act)))

    def _on(self, widget: w.Widget, act: Any) -> None:
        guarded = self.alert.guarded(act)
        widget.observe(lambda change: None if self._quiet else guarded(change), "value")

    # -- what it is told ------------------------------------------------------------------------

    def show_settings(self) -> None:
        """Puts the settings in force into the boxes."""
        settings = self.bench.settings
        self._quiet = True
        self.language.value = settings.language
        modes = languages.get(settings.language).modes
        self.mode.options = [(_MODES[mode], mode) for mode in modes]
        self.mode.value = settings.mode
        self.source.value, self.tests.value = settings.source, settings.tests
        form = "math" if settings.language == "math" else settings.mode
        self.tests.placeholder = FORMS[form]
        for name, widget in self.sliders.items():
            value = getattr(settings.limits, name)
            if value not in widget.options:
                widget.options = sorted({*widget.options, value})
            widget.value = value
        self._quiet = False

    def show_picked(self, program: Program) -> None:
        """Names the program that stands in the boxes, and what it does."""
        self._quiet = True
        self.program.value = program.name
        self._quiet = False
        self.says.value = f"<p>{escape(program.says)}</p>"

    def show_results(self) -> None:
        """Shows the latest verdict, its timeline, and the latest map."""
        bench = self.bench
        self.state.value = status("")
        if bench.verdict is not None:
            self.verdict.value = verdict_html(bench.verdict)
            self.timeline.show(bench.figure())
            self.timeline.box.layout.display = None
        maps = [m for m in (bench.tried, bench.repeats and bench.repeats.map) if m is not None]
        newest = next((m for m in maps if m is not self._shown_map), None)
        if newest is not None:
            self._shown_map = newest
            mine = bench.repeats is not None and newest is bench.repeats.map
            self.map_says.value = status(bench.repeats.sentence if mine else "")
            self.map.show(newest.figure)
            self.map.box.layout.display = None

    def failed(self, error: Exception) -> None:
        """Shows what went wrong in the background."""
        self.alert.guarded(lambda: None)(None)
        self.alert.box.value = (
            '<div role="alert" style="border-left:4px solid #D55E00;padding:4px 8px">'
            f"⚠ {escape(describe_error(error))}</div>"
        )

    def ended(self) -> None:
        """What ran in the background has come to its end."""
        for pressed in (self.run, self.ten, self.all):
            pressed.disabled = False
        self.state.value = status("")

    # -- acting -------------------------------------------------------------------------------

    def _start(self, act: Any) -> None:
        """Reads the boxes, and lets something run in the background."""
        values = {name: widget.value for name, widget in self.sliders.items()}
        self.bench.set(source=self.source.value, tests=self.tests.value, **values)
        self.bench.settings.job()  # what cannot be read is told at once
        for pressed in (self.run, self.ten, self.all):
            pressed.disabled = True
        self.state.value = status("Running …")
        self.bench.in_background(act)

    def _pick(self) -> None:
        if not self.program.value:
            return
        self.bench.pick(self.program.value)

    def _choose_language(self) -> None:
        """An honest program of the language, for other tests would not fit it."""
        chosen = self.language.value
        mode = languages.get(chosen).modes[0]
        program = first_of(chosen, mode)
        if program is None:
            raise UserError(f"there is no program in {languages.get(chosen).title} to begin with")
        self.program.value = program.name

    def _choose_mode(self) -> None:
        settings = self.bench.settings
        typed = {"source": self.source.value, "tests": self.tests.value}
        kinds = {"func": "values", "proxy": "values", "inproc": "values", "io": "text"}
        if settings.language == "python" and kinds[settings.mode] != kinds[self.mode.value]:
            # Tests of the one kind are none of the other.
            chosen = first_of("python", self.mode.value)
            self.program.value = chosen.name
            return
        self.bench.set(mode=self.mode.value, **typed)

    def _say_missing(self) -> None:
        lines = [
            f"{row['title']}: {row['toolchain']}"
            for row in languages.table()
            if not row["available"]
        ]
        if lines:
            items = "".join(f"<li>{escape(line)}</li>" for line in lines)
            self.missing.value = (
                f"<details><summary>{len(lines)} languages are not on this machine</summary>"
                f"<ul>{items}</ul></details>"
            )


def _title(name: str) -> str:
    """A language's name, with a word where it is not here."""
    from rlkit.sandbox.languages.row import LanguageMissing

    missing = isinstance(languages.detect(name), LanguageMissing)
    return f"{languages.get(name).title}{' (not here)' if missing else ''}"
