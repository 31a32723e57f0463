"""One end of a conversation between two processes that work on each other's objects.

Either end asks (`call` this object, `get` that attribute, do this operation) and waits; while
it waits it serves what the other end asks in between, so calls and callbacks nest like a
stack. Plain data travels as copies, everything else by number (`proxy_values`). A question
carries a token that its answer must repeat; tokens are random, so an answer cannot be sent
in advance, and whatever comes out of turn ends the conversation.

    ("ask", token, verb, name, operands, mail)     verb: call get set del op, or a special one
    ("give", token, value, mail)                    ("raise", token, error, mail)

A frame is four bytes of length and one value of the codec. `mail` are the lists, dicts and
sets that are new or have changed on the sender's side since it last spoke.

Both ends run this file; what one end lets the other ask is decided by `permit`, which the
verifier's end overrides. Standard library only.
"""

from __future__ import annotations

import _thread
import operator
import posix

from rlkit.sandbox import codec
from rlkit.sandbox.zygote.proxy_errors import pack_error, unpack_error
from rlkit.sandbox.zygote.proxy_special import (
    make_class,
    make_coroutine,
    make_function,
    make_instance,
)
from rlkit.sandbox.zygote.proxy_stubs import RemoteClass, RemoteIterator, RemoteModule
from rlkit.sandbox.zygote.proxy_values import Home, Values

#: Questions may be nested this deep in each other; a call and a callback are four of them.
MAX_NESTING = 400
#: Each of them takes some Python frames.
RECURSION_LIMIT = 8000


class Ended(BaseException):
    """The conversation is over, or a question may not be asked; no test can pass after it."""


def _enter(manager):
    return type(manager).__enter__(manager)


def _exit(manager, kind, error, trace):
    return type(manager).__exit__(manager, kind, error, trace)


def _await(coroutine):
    import asyncio

    async def run():
        return await coroutine

    return asyncio.run(run())


def _copy(value):
    import copy

    return copy.copy(value)


def _deepcopy(value):
    import copy

    return copy.deepcopy(value)


def _math(name):
    def apply(value):
        import math

        return getattr(math, name)(value)

    return apply


#: What can be done with an object beside calling it and its attributes, by name.
OPERATIONS = {
    **{
        name: getattr(operator, name)
        for name in (
            *("add", "sub", "mul", "truediv", "floordiv", "mod", "matmul"),
            *("and_", "or_", "xor", "lshift", "rshift"),
            *("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "imatmul"),
            *("iand", "ior", "ixor", "ilshift", "irshift", "ipow"),
            *("neg", "pos", "invert", "index", "contains", "getitem", "setitem", "delitem"),
            *("lt", "le", "gt", "ge", "eq", "ne"),
        )
    },
    **{
        function.__name__: function
        for function in (
            *(abs, bool, complex, divmod, float, format, hash, int, iter, len, next, pow),
            *(repr, reversed, round, str),
        )
    },
    "bytes": bytes,
    "dir": lambda value: [name for name in dir(value) if not name.startswith("_")],
    "enter": _enter,
    "exit": _exit,
    "await": _await,
    "copy": _copy,
    "deepcopy": _deepcopy,
    **{name: _math(name) for name in ("trunc", "floor", "ceil")},
}


class Peer(Values):
    """This end of the conversation.

    Args:
        sock: descriptor of a connected stream socket.
        leads: whether this end speaks first; it also decides which containers are still shared.
        max_bytes: longest frame taken or sent.
    """

    def __init__(self, sock: int, leads: bool, max_bytes: int) -> None:
        super().__init__(leads)
        self.sock = sock
        self.max_bytes = max_bytes
        self.depth = 0
        self.lock = _thread.RLock()
        self.tokens: list[bytes] = []

    # -- stand-ins ---------------------------------------------------------------------

    def forget(self) -> None:
        super().forget()
        self.hashes: dict[int, int] = {}

    def stand_in(self, number: int, description: tuple) -> object:
        kind, first, *more = description
        if kind == "class":
            bases, special, exception, enumeration = more
            if type(first) is not str or not first.isidentifier():
                self.end("TAMPERED", "the program sent a class without a name")
            parents = [self.unpack(base) for base in bases]
            made = make_class(self, number, first, parents, special, exception, enumeration)
        elif kind == "function":
            doc, coroutine = more
            if type(first) is not str or type(doc) not in (str, type(None)):
                self.end("TAMPERED", "the program sent a broken function")
            made = make_function(self, number, first, doc, coroutine)
        elif kind == "module":
            made = RemoteModule(self, number, str(first))
        elif kind == "iterator":
            made = RemoteIterator(self, number)
        elif kind == "coroutine":
            made = make_coroutine(self, number)
        else:
            hashed, args = more
            cls = self.unpack(first)
            if not isinstance(cls, RemoteClass) or cls._rl_peer is not self:
                self.end("TAMPERED", "the program sent an object without a class")
            args = () if args is None else tuple(self.unpack(arg) for arg in args)
            made = make_instance(cls, number, args)
            if type(hashed) is int:
                self.hashes[number] = hash(hashed)
        self.stand_ins[number] = made
        return made

    def call(self, number: int, name: str, args: tuple, kwargs: dict) -> object:
        """Call a function or an object of the other end."""
        return self.ask("call", name, Home(number), args, kwargs)

    def named(self, found: object, name: str) -> None:
        """The other end's object was reached by its name."""

    def exactly(self, kind: type, value: object) -> object:
        """The value of an operation that must give exactly this type; the program is trusted."""
        return value

    # -- asking -----------------------------------------------------------------------

    def ask(self, verb: str, name: str, *operands: object) -> object:
        """Ask the other end, and serve what it asks meanwhile.

        Raises:
            Ended: the conversation is over.
            BaseException: whatever the other end's code raised, as this end's own class.
        """
        with self.lock:
            if self.depth >= MAX_NESTING:
                raise RecursionError("calls and callbacks are nested too deep")
            token = posix.urandom(8) if self.leads else self.tokens[-1]
            packed = [self.pack(operand) for operand in operands]
            self.write(("ask", token, verb, name, packed, self.mail()))
            self.depth += 1
            try:
                return self._await(token)
            finally:
                self.depth -= 1

    def _await(self, token: bytes) -> object:
        while True:
            frame = self.read()
            if frame[0] == "ask":
                if self.leads and frame[1] != token:
                    self.end("TAMPERED", "the program asked out of turn")
                self.serve(frame)
                continue
            if frame[0] == "large" and frame[1] == token and type(frame[2]) is str:
                self.end("BAD_VALUE", f"the program returned what cannot be sent: {frame[2][:80]}")
            if frame[1] != token or frame[0] not in ("give", "raise") or len(frame) != 4:
                self.end("TAMPERED", "the program sent an answer that nobody asked for")
            self.open_mail(frame[3])
            if frame[0] == "raise":
                raise unpack_error(self, frame[2])
            return self.unpack(frame[2])

    # -- serving ----------------------------------------------------------------------

    def serve(self, frame: tuple) -> None:
        """Do what the other end asks, and answer."""
        if len(frame) != 6:
            self.end("TAMPERED", "the program sent a broken question")
        _, token, verb, name, packed, mail = frame
        self.open_mail(mail)
        self.tokens.append(token)
        self.depth += 1
        try:
            operands = [self.unpack(operand) for operand in packed]
            try:
                answer = ("give", token, self.pack(self.answer(verb, name, operands)))
            except Ended:
                raise
            except BaseException as error:
                self.noticed(error)
                answer = ("raise", token, pack_error(self, error))
        finally:
            self.depth -= 1
            self.tokens.pop()
        self.write((*answer, self.mail()))

    def answer(self, verb: str, name: str, operands: list) -> object:
        """The value of one question; raises what the object raises."""
        if self.depth > MAX_NESTING:
            raise RecursionError("calls and callbacks are nested too deep")
        self.permit(verb, name, operands)
        if verb == "call":
            target, args, kwargs = operands
            return target(*args, **kwargs)
        if verb == "get":
            return getattr(operands[0], name)
        if verb == "set":
            return setattr(operands[0], name, operands[1])
        if verb == "del":
            return delattr(operands[0], name)
        if verb == "op":
            return OPERATIONS[name](*operands)
        raise ValueError(f"{verb!r} is no question")

    def permit(self, verb: str, name: str, operands: list) -> None:
        """Raise if the other end may not ask this; the candidate's end permits everything."""

    def noticed(self, error: BaseException) -> None:
        """An exception leaves this end for the other."""

    # -- frames -----------------------------------------------------------------------

    def write(self, message: tuple) -> None:
        try:
            wire = codec.encode(message, max_bytes=self.max_bytes)
        except codec.CodecError as error:
            # Not a byte of it was sent, and the other end waits for something in its place.
            self.spoilt(message, error)
            return
        view = memoryview(len(wire).to_bytes(4, "big") + wire)
        try:
            while view:
                view = view[posix.write(self.sock, view) :]
        except OSError:
            self.end("NO_RESULT", "the program ended before it answered")

    def read(self) -> tuple:
        size = int.from_bytes(self._exactly(4), "big")
        if size > self.max_bytes:
            self.end("OUTPUT_LIMIT", f"the program sent {size:,} bytes at once")
        try:
            frame = codec.decode(self._exactly(size))
        except codec.CodecError as error:
            self.end("TAMPERED", f"the program sent what is no message: {error}")
        if type(frame) is not tuple or len(frame) < 4 or type(frame[1]) is not bytes:
            self.end("TAMPERED", "the program sent what is no message")
        return frame

    def _exactly(self, size: int) -> bytes:
        pieces = []
        while size:
            try:
                piece = posix.read(self.sock, min(size, 1 << 20))
            except OSError:
                piece = b""
            if not piece:
                self.end("NO_RESULT", "the program ended before it answered")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def spoilt(self, message: tuple, error: Exception) -> None:
        """What is to be said cannot be said."""
        wire = codec.encode(("large", message[1], str(error), ((), (), ())))
        posix.write(self.sock, len(wire).to_bytes(4, "big") + wire)

    def end(self, status: str, message: str) -> None:
        """Leave the conversation for good."""
        raise Ended(status, message)
