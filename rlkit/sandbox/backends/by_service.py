"""What backends over an execution service share: asking it, and running one text through it.

`fusion` and `piston` differ in their schemas only: what they are asked and how their answers
are understood.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlkit.sandbox.backends.base import InfrastructureFault, Outcome
from rlkit.sandbox.backends.by_text import CallByText
from rlkit.sandbox.backends.http import Cancelled, Service
from rlkit.sandbox.backends.remote_io import Program
from rlkit.sandbox.limits import Limits

#: Seconds that a service may take beside what a job may: queueing, starting, the way there.
PATIENCE_S = 30.0


class ByService(CallByText):
    """Mix this into a backend that can write a request and understand its answer.

    Attributes:
        service: where it is.
        patience_s: seconds to wait beyond a job's own time limits.
        path: of the service, that runs a program.
        compiled: languages that the service compiles first, which takes time of its own.
    """

    service: Service
    patience_s: float
    path = ""
    compiled: tuple[str, ...] = ()

    def request_of(self, program: Program) -> dict[str, Any]:
        """The request that asks for this program. To be given by the backend."""
        raise NotImplementedError

    def understood(self, answer: Any) -> tuple[Outcome | None, Outcome | None]:
        """The compiler's outcome and the program's. To be given by the backend."""
        raise NotImplementedError

    def run_program(
        self, program: Program, cancelled: Callable[[], bool]
    ) -> tuple[Outcome | None, Outcome | None]:
        """Compile and run a whole program; see `remote_io`.

        Raises:
            UserError: the service has no such language, or cannot be given what it needs.
            InfrastructureFault: the service failed.
        """
        compile_s = program.compile_limits.wall_s if program.language in self.compiled else 0.0
        try:
            answer = self.service.json(
                "POST",
                self.path,
                self.request_of(program),
                wait_s=compile_s + program.limits.wall_s + self.patience_s,
                cancelled=cancelled,
            )
        except Cancelled:
            return None, Outcome(ended="cancelled")
        return self.understood(answer)

    def run_text(
        self, source: str, stdin: str, limits: Limits, cancelled: Callable[[], bool]
    ) -> Outcome:
        """Run a Python program; see `by_text`."""
        return self.run_alone(Program("python", source, stdin.encode(), limits=limits), cancelled)

    def run_alone(self, program: Program, cancelled: Callable[[], bool]) -> Outcome:
        """The outcome of a program that needs no compiler.

        Raises:
            InfrastructureFault: the service did not run it.
        """
        outcome = self.run_program(program, cancelled)[1]
        if outcome is None:
            raise InfrastructureFault(f"{self.service.address} did not run the program")
        return outcome

    def close(self) -> None:
        """Close the connections; may be called twice."""
        self.service.close()
