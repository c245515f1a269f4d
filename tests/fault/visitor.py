"""A visitor of the review page: opens it, decides, exports, and stops the server as Ctrl-C does."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PATIENCE = 30.0
RANKS = (4, 5, 6)


class Refused(http.client.HTTPException):
    """The server could not save something. The page then sends nothing else before it has been saved."""


class Visitor:
    """Decisions have the same keys at each visit, so that a second visit after a kill ends where one would have."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        """What the server said, for comparison."""
        self.acknowledged: dict[str, int] = {}
        """Ids of decisions by key."""
        self.problems: list[str] = []
        self._headers: dict[str, str] = {}

    def __call__(self, stdout: Path, child: int) -> None:
        address = _address(stdout, child)
        if address is None:
            return
        with suppress(OSError, http.client.HTTPException):
            self._visit(address)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGINT)

    def _visit(self, address: str) -> None:
        parts = urlsplit(address)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
        self._ask(connection, "GET", f"{parts.path}?{parts.query}")  # gives the cookie
        page = self._ask(connection, "GET", parts.path)
        if found := re.search(r'name="csrf" content="([^"]*)"', page):
            self._headers["X-Tagtrace"] = found[1]
        listed = json.loads(self._ask(connection, "GET", "/api/findings"))
        self.answers.append(listed)
        rows = {row["rank"]: row for row in listed.get("items", [])}
        for rank in RANKS:
            if rank in rows:
                self._decide(connection, rows[rank])
        self._ask(connection, "POST", "/api/undo", {"key": "visitor"})
        self.answers.append(json.loads(self._ask(connection, "POST", "/api/export", {})))

    def _decide(self, connection: http.client.HTTPConnection, row: dict[str, Any]) -> None:
        key = f"visitor-{row['rank']}"
        body = {name: row[name] for name in ("rank", "sentence_number", "start", "stop")}
        answer = json.loads(self._ask(connection, "POST", "/api/decisions", {**body, "action": "accept", "key": key}))
        if "id" in answer:
            self.acknowledged[key] = answer["id"]

    def _ask(self, connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> str:
        headers = {**self._headers, "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read().decode()
        if cookie := response.getheader("Set-Cookie"):
            self._headers["Cookie"] = cookie.split(";")[0]
        if response.status in (302, 303, 307):
            return self._ask(connection, "GET", response.getheader("Location") or "/")
        if response.status >= 500:
            self.problems.append(f"{method} {path}: {response.status} {text[:200]}")
            if method == "POST":
                raise Refused(path)
        return text


def _address(stdout: Path, child: int) -> str | None:
    """The address that the server printed; None if it ended before."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = re.search(rb"http://\S+", stdout.read_bytes()) if stdout.exists() else None
        if found:
            return found[0].decode()
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return None
        time.sleep(0.01)
    return None
