"""The review page in a browser, served by the real application: what the tests of the page share."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tagtrace.review import Decision, Decisions, Review, Store
from tagtrace.review.http.app import make_app
from tagtrace.review.http.serve import configured, listen
from tests.review.browser import Browser


def with_own_decisions(opened: Review, folder: Path) -> Review:
    """The same open project with a new database of decisions in a folder."""
    folder.mkdir(exist_ok=True)
    decisions = Decisions(opened.data, Store(folder / "decisions.sqlite"))
    model = copy(opened.the_model())
    model.decisions = decisions
    return Review(opened.name, "ada", decisions, folder / "export", model)


class Faults:
    """The real application with a network in front of it that records requests, holds them back or loses answers."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.asked: list[str] = []
        """Paths of GET requests to the API, with their query."""
        self.num_lost = 0
        """How many of the next POST requests are carried out but answered with an error 503."""
        self.num_cut = 0
        """How many of the next POST requests are carried out and answered, but the connection breaks in the answer."""
        self.held = ""
        """A part of the address: requests whose address contains it wait until this is empty again."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        address = f"{scope['path']}?{scope['query_string'].decode()}"
        if scope["method"] == "GET" and address.startswith("/api/"):
            self.asked.append(address)
        while self.held and self.held in address:
            await asyncio.sleep(0.01)
        if scope["method"] == "POST" and self.num_lost:
            self.num_lost -= 1
            await self.app(scope, receive, _lost)
            await send({"type": "http.response.start", "status": 503, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body"})
        elif scope["method"] == "POST" and self.num_cut:
            self.num_cut -= 1
            await self.app(scope, receive, _cut(send))
        else:
            await self.app(scope, receive, send)


async def _lost(_: Message) -> None:
    """Nobody hears it."""


def _cut(send: Send) -> Send:
    """Send the first half of each answer only; the server then closes the connection."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.body":
            body = message.get("body", b"")
            message = {"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True}
        await send(message)

    return sending


class Server:
    """An application under uvicorn, in a thread of its own, at 127.0.0.1."""

    def __init__(self, app: ASGIApp, port: int = 0) -> None:
        sock = listen("127.0.0.1", port)
        self.port: int = sock.getsockname()[1]
        config = configured(app)
        config.timeout_graceful_shutdown = 1
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [sock]}, daemon=True)
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive(), "the server did not start"
            time.sleep(0.005)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()


def csrf_of(url: str) -> str:
    """The token in the page of a server, which a POST needs."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        found = re.search(r'name="csrf" content="([^"]+)"', answer.read().decode())
    assert found is not None
    return found[1]


class Api:
    """A client of the JSON API over HTTP, for example another reviewer."""

    def __init__(self, url: str, review: Review, reviewer: str) -> None:
        self.url, self.review = url, review
        self.headers = {"X-Tagtrace": csrf_of(url), "X-Reviewer": reviewer, "Content-Type": "application/json"}

    def get(self, path: str) -> Any:
        return self._ask(urllib.request.Request(f"{self.url}/api/{path}", headers=self.headers))

    def post(self, path: str, body: Any) -> Any:
        content = json.dumps(body).encode()
        return self._ask(urllib.request.Request(f"{self.url}/api/{path}", content, self.headers))

    def _ask(self, request: urllib.request.Request) -> Any:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def decide(self, rank: int, action: str, **more: Any) -> Any:
        one = self.review.data.by_rank[rank]
        place = {"sentence_number": one.sentence_number, "start": one.start, "stop": one.stop}
        return self.post("decisions", {"rank": rank, **place, "action": action, **more})

    def job(self, body: Any) -> Any:
        """The result of a job."""
        number = self.post("jobs", body)["job"]
        while (job := self.get(f"jobs/{number}"))["state"] == "running":
            time.sleep(0.02)
        return job["result"]


class Site:
    """A server with the page open in a browser."""

    def __init__(self, browser: Browser, review: Review) -> None:
        self.browser = browser
        self.start(review)

    def start(self, review: Review, port: int = 0) -> None:
        self.review, self.faults = review, Faults(make_app(review))
        self.server = Server(self.faults, port)
        self.url = f"http://127.0.0.1:{self.server.port}"

    def stop(self) -> None:
        """Stop the server, which closes the project."""
        self.server.stop()

    def open(self, path: str = "findings") -> None:
        self.browser.open(f"{self.url}/{path}")
        view = path.split("?", maxsplit=1)[0]
        ready = "#why-query .sentence" if view == "why" else f"#{view}-list [aria-selected=true]"
        self.browser.wait(lambda: self.browser.texts(ready), ready)
        self.browser.wait(lambda: self.browser.run("return document.activeElement !== document.body"), "focus")

    def api(self, reviewer: str = "ada") -> Api:
        return Api(self.url, self.review, reviewer)

    @property
    def rows(self) -> list[Decision]:
        """The decisions in the database; undoing one is a row of its own and is left out."""
        return [row for row in self.review.decisions.store.after(0) if row.undoes is None]

    def decisions(self, number: int) -> list[Decision]:
        """The decisions, once there are at least so many."""
        self.browser.wait(lambda: len(self.rows) >= number, f"{number} decisions")
        return self.rows

    def num_undone(self) -> int:
        return sum(row["undone"] for row in self.api().get("history")["items"])

    @property
    def rank(self) -> str:
        found = re.search(r"Finding (\d+)", self.browser.text("#detail h3"))
        return found[1] if found else ""


@contextmanager
def serving(browser: Browser, review: Review) -> Iterator[Site]:
    """A site for one test."""
    site = Site(browser, review)
    try:
        yield site
    finally:
        site.faults.held = ""
        browser.open("about:blank")
        site.stop()
