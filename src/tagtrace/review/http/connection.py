"""Connections with limits of time and number, which uvicorn only has for idle ones after their first request.

Whoever opens many connections and says little on them must not keep a reviewer out: a request has to arrive within some
seconds, and if there are too many connections, one makes room for the next: the one that has been silent for longest,
first among those without the access token.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from tagtrace.review.http.gate import HAS_TOKEN

MAX_CONNECTIONS = 200
HEAD_SECONDS = 10.0
"""For the first line and the headers of a request."""
BODY_SECONDS = 60.0
"""For the whole body; 20 MB arrive in this time at 3 Mbit a second."""
SEND_SECONDS = 60.0
"""For a client that has stopped to read its answer."""
IDLE_SECONDS = 5
"""Between two requests."""


class Connection(H11Protocol):
    """One connection of a client, which is closed when the client takes too long."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._deadlines: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect("head", HEAD_SECONDS)
        if len(self.connections) > MAX_CONNECTIONS:
            silent = (one for one in self.connections if isinstance(one, Connection) and one is not self)
            oldest = min((one for one in silent if one.is_waiting), key=Connection.rank, default=self)
            oldest.give_up()

    @property
    def is_waiting(self) -> bool:
        """Whether the client has to say something next."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY) or not self._is_answering

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def rank(self) -> tuple[bool, float]:
        """Whether the last request had the access token, and when the client should have said something."""
        has_token = self.scope is not None and HAS_TOKEN in self.scope.get("state", {})
        return has_token, min((one.when() for one in self._deadlines.values()), default=0.0)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        state = self.conn.their_state
        if state is h11.IDLE:
            self._expect("head", HEAD_SECONDS)
        else:
            self._forget("head")
        if state is h11.SEND_BODY:
            self._expect("body", BODY_SECONDS)
        else:
            self._forget("body")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect("send", SEND_SECONDS)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget("send")

    def connection_lost(self, exc: Exception | None) -> None:
        for name in list(self._deadlines):
            self._forget(name)
        super().connection_lost(exc)

    def give_up(self) -> None:
        """Close the connection without an answer."""
        self.transport.abort()

    def _expect(self, name: str, seconds: float) -> None:
        """Give up after some seconds, counted from the first call."""
        if name not in self._deadlines and not self.transport.is_closing():
            self._deadlines[name] = self.loop.call_later(seconds, self.give_up)

    def _forget(self, name: str) -> None:
        if (one := self._deadlines.pop(name, None)) is not None:
            one.cancel()
