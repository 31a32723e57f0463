"""What a handler of one endpoint is given, and what it may answer.

Left out on purpose: the protocol. `server` reads and writes bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rlkit.errors import UserError
from rlkit.sandbox.limits import Limits


class Refusal(Exception):
    """A request that is not served.

    Attributes:
        status: of HTTP.
        message: one sentence for a person.
        wait_s: seconds after which another try makes sense; 0 for none.
    """

    def __init__(self, status: int, message: str, wait_s: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.wait_s = wait_s


@dataclass(frozen=True)
class Request:
    """One request, read and checked as far as all endpoints have it in common.

    Attributes:
        body: its bytes.
        cancelled: whether the client has gone away, or the server stops; asked often.
    """

    body: bytes
    cancelled: Callable[[], bool] = field(default=lambda: False)

    def json(self) -> dict[str, Any]:
        """The body as a JSON object.

        Raises:
            Refusal: it is none.
        """
        try:
            told = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise Refusal(400, f"the body is no JSON: {str(error)[:200]}") from None
        if not isinstance(told, dict):
            raise Refusal(400, "the body must be a JSON object")
        return told


def field_of(told: dict[str, Any], name: str, kind: Any, default: Any) -> Any:
    """A field of a JSON object, by its type; null is the default.

    Raises:
        Refusal: it has another type.

    >>> field_of({"stdin": None}, "stdin", str, "")
    ''
    """
    value = told.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        wanted = kind.__name__ if isinstance(kind, type) else "a number"
        raise Refusal(400, f"{name} must be {wanted}, not {value!r:.80}")
    return value


def within(asked: Limits, ceiling: Limits, what: str = "the job") -> None:
    """Refuse limits above those of the server.

    Nothing is lowered in silence: a program would then fail for a reason that nobody sees.

    Raises:
        Refusal: one of them is above.
    """
    for name, most in vars(ceiling).items():
        if getattr(asked, name) > most:
            raise Refusal(
                400,
                f"{what} asks for {name}={getattr(asked, name)!r}, and this server allows at most "
                f"{most!r}",
            )


def limits_from(base: Limits, **changes: Any) -> Limits:
    """Limits with some of them changed.

    Raises:
        Refusal: a number that is no limit.
    """
    try:
        return Limits(**{**vars(base), **changes})
    except UserError as error:
        raise Refusal(400, str(error)) from None
