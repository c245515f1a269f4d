"""Connections with limits of time and number, which uvicorn only has for idle ones after their first request.

Whoever opens many connections and says little on them must not keep a reviewer out: a request has to arrive within some
seconds, and if there are too many connections, one makes room for the next: the oldest one that has not shown the
access token, whatever it is doing; if all have, the one that has been silent for longest.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from tagtrace.review.http.gate import VISITOR, Visitor

MAX_CONNECTIONS = 200
MAX_LINES = 100
"""Lines in the head of a request: thousands of headers would take the time of all others, whoever sends them."""
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
        self._visitor = Visitor()
        self._begin = self.loop.time()
        self._num_lines, self._head_end = 0, b""
        self.app_state: dict[str, Any] = {**self.app_state, VISITOR: self._visitor}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect("head", HEAD_SECONDS)
        if len(self.connections) > MAX_CONNECTIONS:
            others = [one for one in self.connections if isinstance(one, Connection) and one is not self]
            min((one for one in others if one.makes_room), key=Connection._rank, default=self).give_up()

    @property
    def makes_room(self) -> bool:
        """Whether the connection may be closed for another one: none that gives an answer to a reviewer may be."""
        return not self._visitor.has_token or self.is_waiting

    @property
    def is_waiting(self) -> bool:
        """Whether the client has to say something next."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY) or not self._is_answering

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _rank(self) -> tuple[bool, float]:
        """Those without the token first, by age; then by the time when the client should have said something."""
        if not self._visitor.has_token:
            return False, self._begin
        return True, min((one.when() for one in self._deadlines.values()), default=0.0)

    def data_received(self, data: bytes) -> None:
        if self.conn.their_state is h11.IDLE:
            head, end, _ = (self._head_end + data).partition(b"\r\n\r\n")
            self._num_lines += head.count(b"\n") - self._head_end.count(b"\n")
            self._head_end = b"" if end else head[-3:]  # the end of the head may come in two parts
            if self._num_lines > MAX_LINES:
                self.send_400_response(f"A request has at most {MAX_LINES} lines of headers.")
                return
        super().data_received(data)
        state = self.conn.their_state
        if state is h11.IDLE:
            self._expect("head", HEAD_SECONDS)
        else:
            self._forget("head")
            self._num_lines, self._head_end = 0, b""
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

    def send_400_response(self, msg: str) -> None:
        """Answer to what is not HTTP. If an answer was begun already, nothing else can be said; none is begun later."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.give_up()

    def give_up(self) -> None:
        """Close the connection without an answer."""
        self.connections.discard(self)  # at once, so that the next one that comes does not choose this one again
        self.transport.abort()

    def _expect(self, name: str, seconds: float) -> None:
        """Give up after some seconds, counted from the first call."""
        if name not in self._deadlines and not self.transport.is_closing():
            self._deadlines[name] = self.loop.call_later(seconds, self.give_up)

    def _forget(self, name: str) -> None:
        if (one := self._deadlines.pop(name, None)) is not None:
            one.cancel()
