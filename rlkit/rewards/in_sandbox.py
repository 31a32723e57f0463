"""InSandbox: what the rewards that run a model's text share: one sandbox, started when needed.

Left out on purpose: closing it. A sandbox ends with its process, and one that was given
belongs to whoever gave it.
"""

from __future__ import annotations

from typing import Any

from rlkit.rewards.reward import Reward
from rlkit.sandbox import Sandbox


class InSandbox(Reward):
    """A reward that runs what it judges in a sandbox.

    A subclass sets `_sandbox` to the sandbox it was given, or to `None`.
    """

    #: Processes of the sandbox that is started when none was given; `None`: its own default.
    _workers: int | None = None
    _sandbox: Sandbox | None

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox in use; one with default limits is started at the first call."""
        if self._sandbox is None:
            self._sandbox = Sandbox() if self._workers is None else Sandbox(workers=self._workers)
        return self._sandbox

    def with_sandbox(self, sandbox: Sandbox) -> Any:
        """The same reward on another sandbox; settings stay, and a cache is shared."""
        copied = self.__copy__()
        copied._sandbox = sandbox
        return copied

    def sandboxes(self) -> list[Sandbox]:
        return [self.sandbox]
