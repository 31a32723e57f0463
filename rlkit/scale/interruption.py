"""Interruption: what Ctrl-C and SIGTERM do to a run of several processes.

The first signal asks for an end: the step under way is finished, the ranks agree on it, a
checkpoint and the model are written. When the step takes longer than the grace time, or a
second signal comes, the step is given up and the model is saved as it was before it.

A launcher sends the signal on to all its processes, and kills them half a minute later; the
grace time is shorter than that.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

import torch
from transformers import TrainerCallback

#: Seconds that the step under way may still take; torchrun kills after 30.
GRACE_S = 15.0


class Interruption(TrainerCallback):
    """Ends training in an orderly way when a signal asks for it.

    Use it as a context around `trainer.train()`, and give it to the trainer as a callback.

    Args:
        monitoring: a `MonitorCallback`, which writes down how training ended.
        grace_s: seconds before the step under way is given up.
    """

    def __init__(self, monitoring: Any, grace_s: float = GRACE_S) -> None:
        self.monitoring = monitoring
        self.grace_s = grace_s
        self.asked = False
        self._kept: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._kept[number] = signal.signal(number, self._on_signal)
            self._kept[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._on_alarm)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._kept:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._kept.items():
            signal.signal(number, handler)
        self._kept = {}

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        signal.setitimer(signal.ITIMER_REAL, self.grace_s)

    def _on_alarm(self, number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        if self.agreed(kwargs["model"]):
            self.monitoring.stop(control, "interrupted")
            if self._kept:
                signal.setitimer(signal.ITIMER_REAL, 0)  # what is left is short
        return control

    def agreed(self, model: torch.nn.Module) -> bool:
        """Whether any rank was asked to end; all ranks get the same answer."""
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return self.asked
        flag = torch.tensor([int(self.asked)], device=next(model.parameters()).device)
        torch.distributed.all_reduce(flag, op=torch.distributed.ReduceOp.MAX)
        return bool(flag.item())
