"""SandboxBench: a program, its tests and its limits, to be run and looked at.

Everything that the panel does can be done without it, in a script or where a front end shows
no widgets: `pick`, `set`, `run`, `repeat`, `try_all`, and `snapshot` for what there is to see.
What runs, runs in a thread when a button asked for it, so that the notebook stays usable.

Left out on purpose: an editor, and a button that interrupts a program. The wall clock ends
every program after the seconds that the slider says.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import plotly.graph_objects as go

from rlkit.errors import UserError
from rlkit.lab.dashboard import Snapshot
from rlkit.lab.frontend import headless
from rlkit.lab.sandboxbench.programs import Program, find_program, first_of, programs
from rlkit.lab.sandboxbench.repeats import Repeats, repeat
from rlkit.lab.sandboxbench.settings import Settings, limits_for
from rlkit.lab.sandboxbench.timeline import timeline_figure
from rlkit.lab.sandboxbench.verdict_map import VerdictMap, verdict_map
from rlkit.lab.sandboxbench.words import verdict_html, verdict_text
from rlkit.lab.theme import escape, figure_notes
from rlkit.sandbox import Level, Limits, Sandbox, Verdict, languages

#: How often "Run ten times" runs it.
TIMES = 10
HINT = (
    "If you see no buttons here, your front end shows no widgets. Use the bench from cells: "
    "bench.pick(name), bench.set(source=...), bench.run(), bench.snapshot(); in Colab you can also "
    "run this once and build the bench again: "
    "from google.colab import output; output.enable_custom_widget_manager()"
)


def sandbox_bench(
    source: str | None = None,
    *,
    tests: str | None = None,
    language: str = "python",
    mode: str | None = None,
    limits: Limits | None = None,
    sandbox: Sandbox | None = None,
    allow_unsafe: bool = False,
) -> SandboxBench:
    """Opens the sandbox bench: run a program, and see what happened to it.

    Args:
        source: the program; an honest one of the language when not given.
        tests: a test a line, such as `assert f(2) == 4`; those of the honest program when not
            given.
        language: see `rlkit.sandbox.languages.table()`.
        mode: how it is tested, and so how far the verdict can be trusted: `func`, `io`,
            `proxy` or `inproc`; the first that the language has when not given.
        limits: what the program may use.
        sandbox: where it runs, which stays yours to close; one of its own when not given.
        allow_unsafe: whether to run programs where this machine holds little back.

    Raises:
        UserError: an unknown language, or a mode that it has not.

    >>> bench = sandbox_bench("def f(x):\\n    return x + 1", tests="assert f(1) == 2")
    >>> str(bench.run().status)
    'PASS'
    """
    row = languages.get(language)
    chosen = mode or row.modes[0]
    model = first_of(row.name, chosen)
    settings = Settings(
        source=source if source is not None else (model.source if model else ""),
        tests=tests if tests is not None else (model.tests if model else ""),
        language=row.name,
        mode=chosen,
        limits=limits or limits_for(row.name),
    )
    return SandboxBench(settings, sandbox, allow_unsafe)


class SandboxBench:
    """The bench as a panel. Make it the last line of a cell to see it.

    Attributes:
        settings: program, tests, language, mode and limits.
        verdict: the latest, or None.
        total_s: seconds that it took, the way into the sandbox and out of it included.
        repeats: what running it many times found, or None.
        tried: the map of all programs on these tests, or None.
    """

    def __init__(
        self, settings: Settings, sandbox: Sandbox | None = None, allow_unsafe: bool = False
    ) -> None:
        self.settings = settings
        self.verdict: Verdict | None = None
        self.total_s: float | None = None
        self.repeats: Repeats | None = None
        self.tried: VerdictMap | None = None
        self.allow_unsafe = allow_unsafe
        self._given, self._own = sandbox, None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._controls: Any = None
        if not headless():
            from rlkit.lab.sandboxbench.widgets import Controls

            self._controls = Controls(self)

    # -- what may be asked of it ------------------------------------------------------------

    @property
    def sandbox(self) -> Sandbox:
        """Where programs run; opened when it is first needed."""
        if self._given is not None:
            return self._given
        with self._lock:
            if self._own is None:
                # The least that is asked for is what was always asked for; see allow_unsafe.
                self._own = Sandbox(
                    workers=2, min_isolation=Level.CONFINED, allow_unsafe=self.allow_unsafe
                )
            return self._own

    @staticmethod
    def programs() -> list[str]:
        """Names of the programs that `pick` knows."""
        return [program.name for program in programs()]

    def pick(self, name: str) -> Program:
        """Puts a program, its tests and its limits into the boxes.

        Raises:
            UserError: no such program.
        """
        program = find_program(name)
        if program is None:
            raise UserError(f"there is no program {name!r}; there are {', '.join(self.programs())}")
        self._take(
            Settings(
                program.source,
                program.tests,
                program.language,
                program.mode,
                program.limits or limits_for(program.language),
            )
        )
        if self._controls is not None:
            self._controls.show_picked(program)
        return program

    def set(self, **changes: Any) -> None:
        """Changes settings by name: source, tests, language, mode, or a limit such as wall_s.

        Raises:
            UserError: a name that is none, or a value that makes no sense.
        """
        names = {one.name for one in fields(Settings)}
        limits = {name: value for name, value in changes.items() if name in vars(Limits())}
        unknown = set(changes) - names - set(limits)
        if unknown:
            known = [*sorted(names), *vars(Limits())]
            raise UserError(f"no setting {sorted(unknown)}; there are {', '.join(known)}")
        others = {name: value for name, value in changes.items() if name in names}
        changed = replace(self.settings, **others)
        self._take(replace(changed, limits=replace(changed.limits, **limits)))

    def run(self) -> Verdict:
        """Runs the program once, and waits for its verdict.

        Raises:
            UserError: a test that cannot be read, a language that is not here, or a machine
                that cannot keep programs apart well enough.
        """
        job = self.settings.job()
        self.sandbox.report()  # it is open, and the clock may start
        began = time.perf_counter()
        verdict = self.sandbox.run(job)
        self.verdict, self.total_s = verdict, time.perf_counter() - began
        self._show()
        return verdict

    def repeat(self, times: int = TIMES, *, same_seed: bool = False) -> Repeats:
        """Runs the program many times, to find tests that do not always end alike."""
        self.repeats = repeat(self.sandbox, self.settings.job(), times, same_seed=same_seed)
        self.verdict, self.total_s = self.repeats.verdicts[0], None
        self._show()
        return self.repeats

    def try_all(self, sources: Mapping[str, str] | None = None) -> VerdictMap:
        """Runs many programs on these tests, and maps what came out.

        Args:
            sources: a name for each program; those of the list that define `f` when not given.

        Raises:
            UserError: no programs, or settings of another language than Python's functions.
        """
        job = self.settings.job()
        if sources is None:
            if (job.language, job.mode) != ("python", "func"):
                raise UserError("the programs of the list are Python functions; choose mode func")
            sources = {p.name: p.source for p in programs() if p.mode == "func"
                       and p.language == "python"}  # fmt: skip
        if not sources:
            raise UserError("there is no program to try")
        verdicts = self.sandbox.run_many([replace(job, source=s) for s in sources.values()])
        self.tried = verdict_map(
            verdicts, list(sources), title="Programs and tests", kind="program"
        )
        self._show()
        return self.tried

    def in_background(self, act: Callable[[], Any]) -> None:
        """Does something in a thread, so that the notebook stays usable; shows what goes wrong.

        Raises:
            UserError: something is running already.
        """
        if self.busy:
            raise UserError("a program is running already; wait until it has ended")
        self._thread = threading.Thread(target=self._safely, args=(act,), daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether something runs in the background."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> None:
        """Waits until nothing runs in the background."""
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        """Closes the sandbox, if it is the bench's own. May be called twice."""
        with self._lock:
            own, self._own = self._own, None
        if own is not None:
            own.close()

    # -- what it shows ------------------------------------------------------------------------

    def figure(self) -> go.Figure:
        """The timeline of the latest verdict.

        Raises:
            UserError: nothing was run yet.
        """
        if self.verdict is None:
            raise UserError("nothing was run yet; call run()")
        return timeline_figure(self.verdict, self.total_s)

    def snapshot(self) -> Snapshot:
        """Everything the panel shows, as it is now, without widgets."""
        s = self.settings
        head = f"{languages.get(s.language).title} in mode {s.mode}; {s.limits}"
        text, html = [head], [f"<p>{escape(head)}</p><pre>{escape(s.source)}</pre>"]
        if self.verdict is None:
            text.append("Nothing was run yet.")
            html.append("<p>Nothing was run yet.</p>")
        else:
            figure = self.figure()
            text += [verdict_text(self.verdict), figure.layout.meta["alt"]]
            html += [verdict_html(self.verdict), figure_notes(figure)]
        if self.repeats is not None:
            text.append(str(self.repeats))
            html.append(f"<p>{escape(self.repeats.sentence)}</p>")
            html.append(figure_notes(self.repeats.map.figure))
        if self.tried is not None:
            text.append(str(self.tried))
            html.append(figure_notes(self.tried.figure))
        return Snapshot("\n".join(text), "".join(html))

    def __str__(self) -> str:
        return self.snapshot().text

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return self.snapshot().beside(self._controls, HINT)

    # -- how it is done -------------------------------------------------------------------------

    def _take(self, settings: Settings) -> None:
        self.settings = settings
        if self._controls is not None:
            self._controls.show_settings()

    def _show(self) -> None:
        if self._controls is not None:
            self._controls.show_results()

    def _safely(self, act: Callable[[], Any]) -> None:
        try:
            act()
        except Exception as error:  # nobody is above this thread, so it is shown
            self._controls.failed(error)
        finally:
            self._controls.ended()
