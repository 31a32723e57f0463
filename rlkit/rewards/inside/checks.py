"""Tests that are statements, run beside the program in its own name space.

Used only for what can neither be said as a call and the value that it must return, nor run
apart from the program (the sandbox's mode `proxy`): here a program shares a process with its
test, and one that means to can pay itself. The job's
source is `names.py`, this file and a line that calls `start`; each test calls `holds`.
"""

import sys

HELD = {}


def start(source, checks):
    """Load the program.

    Args:
        source: the program.
        checks: statements; each text is one test, which holds when nothing is raised.
    """
    code = compile(source.removeprefix("\ufeff"), "solution.py", "exec", dont_inherit=True)
    HELD["checks"] = [compile(text, "test.py", "exec", dont_inherit=True) for text in checks]
    module = type(sys)("solution")
    module.__file__ = "solution.py"
    sys.modules["solution"] = module
    HELD["space"] = module.__dict__
    supply(code, module.__dict__)  # noqa: F821 - from names.py
    exec(code, module.__dict__)


def holds(index):
    exec(HELD["checks"][index], HELD["space"])
    return True
