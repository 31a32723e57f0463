"""A server that runs programs for others, in the local sandbox: `rlkit sandbox serve`."""

from __future__ import annotations

from rlkit.sandbox.serve.server import Server

__all__ = ["Server"]
