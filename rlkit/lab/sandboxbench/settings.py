"""What stands in the boxes of the sandbox bench, and the job that it makes.

Left out on purpose: files, arguments and seeds; write a `Job` for those.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rlkit.errors import UserError
from rlkit.lab.sandboxbench.test_lines import read_lines
from rlkit.sandbox import Job, Limits, languages


@dataclass(frozen=True)
class Settings:
    """What stands in the boxes and on the sliders.

    Attributes:
        source: the program.
        tests: a test a line, see `test_lines`.
        language, mode: as in `Job`.
        limits: what the program may use.
    """

    source: str
    tests: str
    language: str = "python"
    mode: str = "func"
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        object.__setattr__(self, "language", languages.canonical(self.language))
        modes = languages.get(self.language).modes
        if self.mode not in modes:
            raise UserError(
                f"{languages.get(self.language).title} has the modes {', '.join(modes)}, not "
                f"{self.mode!r}"
            )

    def job(self) -> Job:
        """The job that this is.

        Raises:
            UserError: a test that cannot be read, or a language that is not here.
        """
        languages.require(self.language)
        entry, tests = read_lines(self.tests, self.language, self.mode)
        return Job(
            language=self.language,
            source=self.source,
            tests=tests,
            mode=self.mode,
            entry=entry,
            limits=self.limits,
            cache="off",
        )


def limits_for(language: str) -> Limits:
    """The usual limits, with the memory and the processes that a language needs."""
    row = languages.get(language)
    usual = Limits()
    return replace(
        usual,
        memory_mb=max(usual.memory_mb, row.needs_mb),
        processes=max(usual.processes, row.processes),
    )
