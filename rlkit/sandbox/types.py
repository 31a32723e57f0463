"""The nouns of the sandbox: what to run, what it may use, what happened.

`Job` (a program, its tests, its limits) goes in, `Verdict` (a status, a result for each
test, the heads of its output, time and memory) comes out. All of them are frozen, hold
plain data only, and can be pickled. Each lives in a module of its own; this one gathers
them, so that they can be imported from one place.
"""

from __future__ import annotations

from rlkit.sandbox.job import MAX_SOURCE_CHARS, CacheUse, Job, Mode, Preload
from rlkit.sandbox.limits import Limits
from rlkit.sandbox.spec import TestSpec
from rlkit.sandbox.verdict import (
    CompileReport,
    IsolationReport,
    Level,
    Property,
    Status,
    TestResult,
    Verdict,
)

__all__ = [
    "MAX_SOURCE_CHARS",
    "CacheUse",
    "CompileReport",
    "IsolationReport",
    "Job",
    "Level",
    "Limits",
    "Mode",
    "Preload",
    "Property",
    "Status",
    "TestResult",
    "TestSpec",
    "Verdict",
]
