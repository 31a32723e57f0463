"""Run untrusted programs against tests, and say what happened.

>>> from rlkit.sandbox import Job, Sandbox, TestSpec
>>> job = Job(source="def double(x): return x + x", entry="double",
...           tests=[TestSpec("number", args=(2,), expected=4),
...                  TestSpec("text", args=("ab",), expected="abab")])
>>> with Sandbox(workers=1) as sandbox:
...     verdict = sandbox.run(job)
>>> verdict.status.name, verdict.reward, verdict.summary
('PASS', 1.0, '2 of 2 tests passed')

Names are resolved when they are first used; nothing heavy is imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "badge": "rlkit.sandbox.badges",
    "Sandbox": "rlkit.sandbox.sandbox",
    "SandboxUnavailable": "rlkit.sandbox.unavailable",
    "ResultCache": "rlkit.sandbox.cache",
    "CompileReport": "rlkit.sandbox.types",
    "IsolationReport": "rlkit.sandbox.types",
    "Job": "rlkit.sandbox.types",
    "Level": "rlkit.sandbox.types",
    "Limits": "rlkit.sandbox.types",
    "Property": "rlkit.sandbox.types",
    "Status": "rlkit.sandbox.types",
    "TestResult": "rlkit.sandbox.types",
    "TestSpec": "rlkit.sandbox.types",
    "Verdict": "rlkit.sandbox.types",
    "CodecError": "rlkit.sandbox.codec",
    "decode": "rlkit.sandbox.codec",
    "encode": "rlkit.sandbox.codec",
    "same": "rlkit.sandbox.compare",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'rlkit.sandbox' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
