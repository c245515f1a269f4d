"""Clients that are slow, silent or many are closed, and keep nobody out; questions do not keep decisions waiting."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, nullcontext
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tagtrace._checks import TagtraceError
from tagtrace.review import Review
from tagtrace.review.http import connection as limits
from tagtrace.review.http.app import MAX_QUESTIONS, READING, make_app
from tagtrace.review.http.gate import VISITOR
from tests.review.made import light_review

pytest.importorskip("selenium", reason="the server of the page's tests")

from tests.review.page import Api, Server, csrf_of

REQUEST = b"GET /api/why?sentence=a&start=0&stop=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEAD = b"POST /api/undo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Tagtrace: %s\r\n"
PATIENCE = 20.0
"""Maximum number of seconds that anything here waits; nothing is measured."""


@pytest.fixture
def review(tmp_path: Path) -> Review:
    return light_review(tmp_path)


@pytest.fixture
def server(review: Review) -> Iterator[Server]:
    found = Server(make_app(review))
    yield found
    found.stop()


def connected(server: Server, text: bytes = b"") -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
    sock.sendall(text)
    return sock


def status_of(connection: HTTPConnection) -> int:
    connection.request("GET", "/api/changes", headers={"Authorization": "Bearer secret"})
    response = connection.getresponse()
    response.read()
    return response.status


def is_closed(sock: socket.socket) -> bool:
    """Whether the server closes the connection without an answer."""
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def received(sock: socket.socket) -> bytes:
    """What the server sends next; nothing if it has closed the connection."""
    try:
        return sock.recv(10_000)
    except ConnectionResetError:
        return b""


def post_head(server: Server, more: bytes) -> bytes:
    return HEAD % csrf_of(f"http://127.0.0.1:{server.port}").encode() + more + b"\r\n\r\n"


@pytest.mark.parametrize("text", [b"", b"GET", b"GET / HTTP/1.1\r\nHost: localhost\r\n", REQUEST[:-1]])
def test_a_request_that_does_not_arrive_is_given_up(
    server: Server, monkeypatch: pytest.MonkeyPatch, text: bytes
) -> None:
    monkeypatch.setattr(limits, "HEAD_SECONDS", 0.1)
    with connected(server, text) as sock:
        assert is_closed(sock)


@pytest.mark.parametrize("more", [b"Content-Length: 10", b"Transfer-Encoding: chunked"])
def test_a_body_that_does_not_arrive_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch, more: bytes) -> None:
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.1)
    with connected(server, post_head(server, more)) as sock:
        assert is_closed(sock)


def test_a_byte_now_and_then_does_not_help(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HEAD_SECONDS", 0.2)
    with connected(server) as sock:
        sock.settimeout(0.01)
        for _ in range(int(PATIENCE / 0.01)):
            try:
                sock.sendall(b"G")
                if sock.recv(1) == b"":
                    return
            except TimeoutError:
                continue
            except OSError:
                return
    raise AssertionError("the connection is still open")


def test_a_slow_body_that_does_arrive_is_read(server: Server) -> None:
    with connected(server, post_head(server, b"Content-Length: 2")) as sock:
        sock.sendall(b"{")
        sock.sendall(b"}")
        assert sock.recv(100).startswith(b"HTTP/1.1 200")
        sock.sendall(REQUEST)  # the connection is kept
        assert sock.recv(100)


def test_many_silent_connections_keep_nobody_out(server: Server, review: Review) -> None:
    api = Api(f"http://127.0.0.1:{server.port}", review, "ada")
    with ExitStack() as open_ones:
        kinds = (b"", b"GET / HTTP/1.1\r\n", post_head(server, b"Content-Length: 10"))
        silent = [open_ones.enter_context(connected(server, kinds[number % 3])) for number in range(600)]
        assert api.decide(1, "accept")["status"] == "accepted"
        assert is_closed(silent[0])
        assert len(silent) > limits.MAX_CONNECTIONS


def test_who_has_the_token_is_not_closed_for_who_has_not(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two requests a reviewer says nothing."""
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 3)
    server = Server(make_app(review, "secret"))
    with closing(HTTPConnection("127.0.0.1", server.port, PATIENCE)) as reviewer, ExitStack() as open_ones:
        assert status_of(reviewer) == 200
        silent = [open_ones.enter_context(connected(server)) for _ in range(6)]
        assert is_closed(silent[0])
        reviewer.auto_open = 0  # on the same connection
        assert status_of(reviewer) == 200
    server.stop()


class Waiting:
    """An application whose answers wait until they are released: to ``/known`` it is as if the token had been shown."""

    def __init__(self) -> None:
        self.released, self.begun = threading.Event(), threading.Semaphore(0)

    async def __call__(self, scope: Any, _: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        scope["state"][VISITOR].has_token = scope["path"] == "/known"
        self.begun.release()
        if scope["path"] == "/all":
            self.released.wait(PATIENCE)  # nothing else is done meanwhile
        while scope["path"] != "/quick" and not self.released.is_set():
            await asyncio.sleep(0.01)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})


@pytest.fixture
def waiting() -> Iterator[tuple[Waiting, Server]]:
    app = Waiting()
    server = Server(app)
    yield app, server
    app.released.set()
    server.stop()


def get(path: bytes) -> bytes:
    return b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path


def test_who_has_no_token_makes_room_even_while_it_is_answered(
    waiting: tuple[Waiting, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads no answers could keep a connection for a minute."""
    app, server = waiting
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 3)
    with ExitStack() as open_ones:
        asked = list[socket.socket]()
        for path in (b"/known", b"/slow", b"/slow", b"/quick"):
            asked.append(open_ones.enter_context(connected(server, get(path))))
            assert app.begun.acquire(timeout=PATIENCE)
        assert asked[3].recv(100).startswith(b"HTTP/1.1 200")
        assert is_closed(asked[1])
        app.released.set()
        assert asked[0].recv(100).startswith(b"HTTP/1.1 200")
        assert asked[2].recv(100).startswith(b"HTTP/1.1 200")


def test_connections_that_come_together_make_room_one_by_one(
    waiting: tuple[Waiting, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    app, server = waiting
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 3)
    with ExitStack() as open_ones:
        open_ones.enter_context(connected(server, get(b"/all")))
        assert app.begun.acquire(timeout=PATIENCE)
        silent = [open_ones.enter_context(connected(server)) for _ in range(20)]
        app.released.set()
        assert all(is_closed(sock) for sock in silent[:17])
        silent[17].sendall(get(b"/quick"))
        assert silent[17].recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("is_together", [True, False])
def test_thousands_of_headers_are_not_read(server: Server, *, is_together: bool) -> None:
    """Whoever has no token kept everybody waiting with them."""
    first, rest = b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"a:b\r\n" * limits.MAX_LINES
    with connected(server, first + rest * is_together) as sock:
        if not is_together:
            time.sleep(0.01)
            sock.sendall(rest)
        assert received(sock).startswith(b"HTTP/1.1 400")
        while received(sock):
            pass


def test_the_lines_of_a_body_are_no_headers(server: Server) -> None:
    text = post_head(server, b"Content-Length: 1002") + b"\n" * 1000 + b"{}"
    with connected(server) as sock:
        for _ in range(2):  # on the same connection
            sock.sendall(text)
            answer = b""
            while not answer.endswith(b"}"):
                answer += sock.recv(10_000)
            assert answer.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("more", [b"", b"Accept: text/html\r\n", b"Host: b\r\n", b"Host: b\r\nContent-Length: 9\r\n"])
def test_who_has_no_token_gets_one_answer(review: Review, more: bytes) -> None:
    """Further requests on the same connection are not read."""
    server = Server(make_app(review, "secret"))
    with connected(server, (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + more + b"\r\n") * 50) as sock:
        answer = b"".join(iter(lambda: received(sock), b""))
    assert answer.count(b"HTTP/1.1 4") == 1
    server.stop()


@pytest.mark.parametrize("path", [b"/", b"/known"])
@pytest.mark.parametrize("is_together", [True, False])
def test_what_is_not_http_is_no_error_of_the_server(
    waiting: tuple[Waiting, Server],
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    path: bytes,
    *,
    is_together: bool,
) -> None:
    """Anybody could fill the log with tracebacks."""
    app, server = waiting
    app.released.set()
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" % path
    with connected(server, head + b"zzz\r\n" * is_together) as sock:
        if not is_together:
            assert sock.recv(100)
            sock.sendall(b"zzz\r\n")
        while received(sock):
            pass
    server.stop()
    assert (capfd.readouterr().err, caplog.text) == ("", "")


def test_questions_do_not_keep_decisions_waiting(
    server: Server, review: Review, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, asked = threading.Event(), threading.Semaphore(0)

    def slow() -> Any:
        asked.release()
        answered.wait(PATIENCE)
        raise TagtraceError("done")

    monkeypatch.setattr(review, "the_model", slow)
    api = Api(f"http://127.0.0.1:{server.port}", review, "ada")
    with ExitStack() as open_ones:
        waiting = [open_ones.enter_context(connected(server, REQUEST)) for _ in range(MAX_QUESTIONS)]
        assert asked.acquire(timeout=PATIENCE)
        with connected(server, REQUEST) as sock:
            api.get("project")  # by now the server has read the requests before this one
            answer = sock.recv(10_000).lower()
        assert answer.startswith(b"http/1.1 503")
        assert b"retry-after: " in answer
        assert api.decide(1, "accept")["status"] == "accepted"
        assert api.post("undo", {})["undone"] == 1
        assert not answered.is_set()
        answered.set()
        for sock in waiting:
            assert sock.recv(100).startswith(b"HTTP/1.1 400")


def fail() -> None:
    raise ValueError("\x1b]0;evil\x07")


async def fails(scope: Any, *_: Any) -> None:
    if scope["type"] == "http":
        fail()


async def fails_later(scope: Any, *_: Any) -> None:
    """In a callback of the event loop, whose errors asyncio logs."""
    if scope["type"] == "http":
        asyncio.get_running_loop().call_soon(fail)


async def logs(scope: Any, *_: Any) -> None:
    """As jobs in the background do."""
    try:
        await fails(scope)
    except ValueError:
        logging.getLogger("tagtrace.review.model.jobs").exception("job failed")


def test_readers_leave_room_for_decisions(server: Server, review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of Python take turns: with forty readers, a decision took a second."""
    released, reading = threading.Event(), threading.Semaphore(0)

    def slow(_: Any) -> Any:
        reading.release()
        released.wait(PATIENCE)
        return {}

    monkeypatch.setattr("tagtrace.review.model.listings.list_patterns", slow)
    monkeypatch.setattr(review.decisions, "reading", nullcontext)
    with ExitStack() as open_ones:
        asked = [open_ones.enter_context(connected(server, get(b"/api/patterns"))) for _ in range(READING + 3)]
        for _ in range(READING):
            assert reading.acquire(timeout=PATIENCE)
        with connected(server, get(b"/static/main.js")) as sock:
            assert received(sock)  # by now the server has read the requests before this one
        assert not reading.acquire(timeout=0.1)
        released.set()
        assert all(received(sock).startswith(b"HTTP/1.1 200") for sock in asked)


@pytest.mark.parametrize("app", [fails, fails_later, logs])
def test_an_unexpected_error_is_logged_as_visible_text(app: Any, capfd: pytest.CaptureFixture[str]) -> None:
    server = Server(app)
    with pytest.raises(HTTPError, match="500"):
        urlopen(f"http://127.0.0.1:{server.port}", timeout=30)
    server.stop()
    said = capfd.readouterr().err
    assert "\nValueError: \\x1b]0;evil\\x07\n" in said
    assert "\x1b" not in said
