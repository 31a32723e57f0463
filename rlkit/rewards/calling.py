"""Calling a reward function: plain or `async`, for all completions or one by one.

An `async` function is run to its end here, also inside a running event loop (a
notebook has one): its coroutine then gets a thread and a loop of its own.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rlkit.rewards.pickling import pack_function, unpack_function


@dataclass(frozen=True)
class RowError:
    """An exception that one row's call raised.

    Attributes:
        fault: type and message, as one line.
        trace: the whole traceback.
    """

    fault: str
    trace: str

    @classmethod
    def of(cls, error: BaseException) -> RowError:
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        return cls(f"{type(error).__name__}: {error}", trace)


def call_now(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """The function's result; an awaitable result is waited for.

    >>> async def half(completions):
    ...     return [0.5 for _ in completions]
    >>> call_now(half, {"completions": ["a"]})
    [0.5]
    """
    result = function(**arguments)
    return wait_for(result) if inspect.isawaitable(result) else result


def wait_for(awaitable: Awaitable[Any]) -> Any:
    """The result of an awaitable, whether or not an event loop is running in this thread."""

    async def finish() -> Any:
        return await awaitable

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(finish())
    outcome: dict[str, Any] = {}

    def in_thread() -> None:
        try:
            outcome["result"] = asyncio.run(finish())
        except BaseException as error:  # handed to the caller's thread, never lost
            outcome["error"] = error

    thread = threading.Thread(target=in_thread, name="rlkit-async-reward", daemon=True)
    thread.start()
    thread.join()
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]


class EachRow:
    """Makes a function of one completion into one of all of them.

    The function gets the completion first and, by name, those entries of its row that
    it asks for. An exception concerns its own row alone.

    >>> EachRow(lambda completion, answer: completion == answer)(
    ...     completions=["4", "5"], answer=["4", "4"], other=[1, 2])
    [True, False]
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        kinds = inspect.Parameter
        named = list(inspect.signature(function).parameters.values())
        self.takes_all = any(p.kind is kinds.VAR_KEYWORD for p in named)
        # The first parameter is the completion, whatever it is called.
        keywords = [
            p for p in named[1:] if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
        ]
        self.names = tuple(p.name for p in keywords)
        self.required = tuple(p.name for p in keywords if p.default is kinds.empty)

    def __call__(self, *, completions: list[str], **columns: Any) -> Any:
        wanted = {
            name: values
            for name, values in columns.items()
            if (self.takes_all or name in self.names) and _is_column(values, len(completions))
        }
        rows = [
            (text, {name: values[i] for name, values in wanted.items()})
            for i, text in enumerate(completions)
        ]
        if inspect.iscoroutinefunction(self.function):
            return self._together(rows)
        results = []
        for text, row in rows:
            try:
                results.append(self.function(text, **row))
            except Exception as error:
                results.append(RowError.of(error))
        return results

    async def _together(self, rows: list[tuple[str, dict[str, Any]]]) -> list[Any]:
        """All rows of an `async` function at once."""
        calls = [self.function(text, **row) for text, row in rows]
        results = await asyncio.gather(*calls, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, Exception):
                raise result
        return [RowError.of(r) if isinstance(r, Exception) else r for r in results]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "function": pack_function(self.function)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.function = unpack_function(state["function"])


def _is_column(values: Any, rows: int) -> bool:
    return not isinstance(values, (str, bytes, Mapping)) and (
        hasattr(values, "__len__") and hasattr(values, "__getitem__") and len(values) == rows
    )
