"""The one error type that is meant for a person rather than for a traceback."""

from __future__ import annotations


class UserError(ValueError):
    """Something was asked for that cannot be done, and the message says what to do.

    The command line prints the message alone and ends with exit code 2; in a
    notebook it is an ordinary `ValueError`.
    """
