"""Security checks on every request, and security headers on every response.

The checks are made in this order:

length    A request whose length is given in two ways is refused: two servers could read two different requests in it.
Host      Another web page can make its own host name resolve to 127.0.0.1 (DNS rebinding). A server that listens on
          loopback therefore only answers to loopback names.
token     Every request needs the access token, which keeps other users of this machine out: once as ``?token=``, which
          sets a cookie, or as ``Authorization: Bearer``.
Origin    A request from another web page is refused.
project   A page names its project in ``X-Tagtrace-Project``. If another one is served at its address by now, all its
          requests are refused, so that no decision gets into a project that its reviewer has not seen. Every answer to
          a client with the token names the project, so that a page knows the answers of other programs.
CSRF      A POST needs the header ``X-Tagtrace`` with a token that only our own page can read, and a content type that
          other pages cannot send without a preflight request.
size      The size of request bodies is limited, that of each and of all that are in memory together. So are the
          lists and objects in one: parsing millions of them would keep all others waiting.

Whoever has not shown the token gets one answer, and the connection is closed.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tagtrace.review.http.answer import RETRY_AFTER
from tagtrace.review.http.entrance import going_on, locked

MAX_BODY = 1_000_000
MAX_BULK = 6_000_000
MAX_IMPORT = 20_000_000
LIMITS = {"/api/import": MAX_IMPORT, "/api/decisions/bulk": MAX_BULK}
"""Size limits of paths that accept larger bodies, in bytes."""
MAX_TOGETHER = 40_000_000
"""Bytes of all bodies with the same limit that are being read or answered. Imports hold up no decisions."""
SMALL = 16_000
"""Bytes of a body that is never refused for others, which may be slow to arrive: any decision on one finding."""
MAX_NESTED = 100_000
"""Lists and objects in a body; the largest that a schema allows has fewer than half as many."""
HAS_TOKEN = "has_token"
"""A key in the state of a request that has shown the access token."""
VISITOR = "visitor"
"""A key in the state of a request, for who is at the other end of its connection."""
OTHER_PROJECT = 409
"""The status for a page whose project is not served here any more."""
MAX_TARGET = 8_000
"""Bytes of the address in a request without the access token: nobody is kept waiting by what they make."""
_GIVEN = re.compile(rb"(?:^|&)token=([^&]*)")
MAX_DIGITS = 15
"""Digits of a length that is a number at all."""
CONTENT_TYPES = ("application/json", "application/x-ndjson")

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}


def is_loopback(host: str) -> bool:
    """Whether a host name or address is a loopback one.

    >>> [is_loopback(name) for name in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "localhost.evil.example")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Guard:
    """What the server requires from its clients."""

    csrf: str
    token: str | None = None
    """The access token that every request needs; None for an application that no server serves."""
    cookie: str = "tagtrace"
    """The name of the cookie that stores the access token."""
    is_remote: bool = False
    """Whether other machines can reach the server, under any name."""
    project: str = ""
    """The fingerprint of the project that is served."""


@dataclass
class Visitor:
    """Who is at the other end of a connection."""

    has_token: bool = False
    """Whether a request on this connection has shown the access token."""


class RefusalError(Exception):
    """A request that is refused, with the HTTP status of the refusal."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def _shut_down_if_cancelled(receive: Receive) -> Receive:
    """Ctrl-C while the server starts cancels what waits for its end: the end has come, and it is no error."""

    async def received() -> Message:
        try:
            return await receive()
        except asyncio.CancelledError:
            return {"type": "lifespan.shutdown"}

    return received


class Gate:
    """ASGI middleware that checks each request and adds the security headers to each response."""

    app: ASGIApp
    guard: Guard

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self.app, self.guard = app, guard
        self._held = Counter[int]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, _shut_down_if_cancelled(receive), send)
            return
        if scope["type"] != "http":  # web sockets are not used
            await send({"type": "websocket.close", "code": 1008})
            return
        visitor = scope.setdefault("state", {}).setdefault(VISITOR, Visitor())
        send = _with_headers(send, scope, self.guard.project)
        is_known = False
        try:
            headers = Headers(scope=scope)
            if "content-length" in headers and "transfer-encoding" in headers:
                raise RefusalError(400, "the request has both Content-Length and Transfer-Encoding; send one of them")
            self._check_host(headers)
            if page := self._entrance(scope, headers):
                await _show(send, *page, is_last=True)
                return
            is_known = visitor.has_token = scope["state"][HAS_TOKEN] = True
            is_read = scope["method"] in ("GET", "HEAD")
            self._check_origin(headers, is_read=is_read)
            self._check_project(headers)
            if is_read:
                await self.app(scope, receive, send)
                return
            self._check_post(headers)
            limit = LIMITS.get(scope["path"], MAX_BODY)
            with self._holding(_length(headers, limit), limit):
                body = await _body(receive, limit)
                if limit != MAX_IMPORT:
                    _check_nested(body)
                await self.app(scope, _replayed(body, receive), send)
        except RefusalError as refusal:
            await _answer(send, refusal.status, str(refusal), is_last=not is_known or refusal.status == 400)

    @contextmanager
    def _holding(self, size: int, limit: int) -> Iterator[None]:
        """Room for a body of ``size`` bytes, taken before the body is read; there always is for a small one."""
        size = 0 if size <= SMALL else size
        if size and self._held[limit] + size > MAX_TOGETHER:
            raise RefusalError(503, "too many large requests are being answered; try again in a moment")
        self._held[limit] += size
        try:
            yield
        finally:
            self._held[limit] -= size

    def _check_host(self, headers: Headers) -> None:
        hosts = headers.getlist("host")
        if len(hosts) != 1:
            raise RefusalError(400, "expected exactly one Host header in the request")
        if not self.guard.is_remote and not is_loopback(_name(hosts[0])):
            raise RefusalError(421, "this server only answers to 127.0.0.1 and localhost; open the address it printed")

    def _entrance(self, scope: Scope, headers: Headers) -> tuple[int, bytes, list[tuple[bytes, bytes]]] | None:
        """What a browser is shown before the page: status, content and headers; None if it has the access token.

        Raises RefusalError if what is not a browser does not have it.
        """
        if self.guard.token is None:
            return None
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        is_known = any(map(self._is_token, (bearer, *_cookies(headers, self.guard.cookie))))
        if not is_known and len(scope["path"]) + len(scope["query_string"]) > MAX_TARGET:
            raise RefusalError(414, f"the address is longer than {MAX_TARGET:,} bytes; shorten it")
        given = _GIVEN.search(scope["query_string"]) if scope["method"] == "GET" else None
        if given is not None and self._is_token(given[1].decode("latin-1")):
            cookie = f"{self.guard.cookie}={self.guard.token}; Path=/; HttpOnly; SameSite=Strict"
            return 200, going_on(_without_token(scope)), [(b"set-cookie", cookie.encode())]
        if is_known:
            return None
        if _is_navigation(headers) and headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            return 200, going_on(_without_token(scope)), []  # a link in a message: the cookie comes with the next one
        if "text/html" in headers.get("accept", ""):
            return 401, locked(), []
        raise RefusalError(401, "the access token is missing or wrong; open the address that the server printed")

    def _is_token(self, given: str) -> bool:
        return self.guard.token is not None and hmac.compare_digest(given.encode(), self.guard.token.encode())

    def _check_origin(self, headers: Headers, *, is_read: bool) -> None:
        host, origin = headers["host"], headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
            raise RefusalError(403, "requests from other web pages are refused; use the page that this server shows")
        is_followed = is_read and _is_navigation(headers)
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not is_followed:
            raise RefusalError(403, "requests from other web pages are refused; use the page that this server shows")

    def _check_project(self, headers: Headers) -> None:
        if headers.get("x-tagtrace-project", self.guard.project) != self.guard.project:
            raise RefusalError(
                OTHER_PROJECT, "another project, or another audit of it, is open at this address now; reload the page"
            )

    def _check_post(self, headers: Headers) -> None:
        if not hmac.compare_digest(headers.get("x-tagtrace", "").encode(), self.guard.csrf.encode()):
            raise RefusalError(403, "the header X-Tagtrace is missing or out of date; reload the page")
        kind = headers.get("content-type", "").split(";")[0].strip().lower()
        if kind not in CONTENT_TYPES:
            raise RefusalError(415, f"the content type is {kind[:40]!r}; send {CONTENT_TYPES[0]}")


def _is_navigation(headers: Headers) -> bool:
    """Whether the request follows a link, which shows the page and reveals nothing to the page with the link."""
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"


def _name(host: str) -> str:
    """The host name in a Host header, without the port; empty if the header is malformed.

    >>> _name("localhost:8321"), _name("[::1]:80"), _name("127.0.0.1")
    ('localhost', '::1', '127.0.0.1')
    >>> _name("[::1].evil.example"), _name("localhost:80@evil.example")
    ('', '')
    """
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]]*))(?::\d{1,5})?", host)
    return "" if found is None else (found[1] or found[2]).lower()


def _cookies(headers: Headers, name: str) -> list[str]:
    """The values of all cookies of a name, as they were sent.

    A value in quotes is not unquoted, because ours has none, and ``http.cookies`` takes quadratic time for it.

    >>> _cookies(Headers({"cookie": 'a=1; tagtrace="2"; tagtrace=3'}), "tagtrace")
    ['"2"', '3']
    """
    pairs = (part.strip().partition("=") for line in headers.getlist("cookie") for part in line.split(";"))
    return [value for key, _, value in pairs if key == name]


def _address(path: str) -> str:
    """The address of a path on this server, whatever is in it: two slashes would begin the name of another host, and
    browsers take backslashes for slashes and leave out tabs and line ends.

    >>> _address("/findings"), _address("//evil.example/"), _address("/\\t/evil.example/")
    ('/findings', '/evil.example/', '/%09/evil.example/')
    """
    return "/" + quote(path.lstrip("/\\"))


def _without_token(scope: Scope) -> str:
    """The address that a request asks for, without the access token in it."""
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    rest = urlencode([pair for pair in query if pair[0] != "token"])
    return _address(scope["path"]) + (f"?{rest}" if rest else "")


def _length(headers: Headers, limit: int) -> int:
    """The bytes of a body, at most; raises RefusalError if they are more than ``limit``."""
    length = headers.get("content-length", str(limit) if "transfer-encoding" in headers else "0")
    if not length.isdecimal() or len(length) > MAX_DIGITS or int(length) > limit:
        raise _too_long(limit)
    return int(length)


def _too_long(limit: int) -> RefusalError:
    return RefusalError(413, f"the request is larger than {limit:,} bytes; send it in smaller parts")


async def _body(receive: Receive, limit: int) -> bytes:
    """The whole body; raises RefusalError as soon as it is larger than ``limit`` bytes."""
    parts, size = list[bytes](), 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RefusalError(400, "the client closed the connection before the whole request arrived")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise _too_long(limit)
        if not message.get("more_body", False):
            return b"".join(parts)


def _check_nested(body: bytes) -> None:
    if body.count(b"[") + body.count(b"{") > MAX_NESTED:
        raise RefusalError(413, f"the request has more than {MAX_NESTED:,} lists and objects; send it in smaller parts")


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives the application a body that was read already."""
    is_sent = False

    async def replay() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _with_headers(send: Send, scope: Scope, project: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            if not scope["path"].startswith("/static/"):
                headers["cache-control"] = "no-store"
            if HAS_TOKEN in scope.get("state", {}):
                headers["x-tagtrace-project"] = project
        await send(message)

    return sending


async def _answer(send: Send, status: int, reason: str, *, is_last: bool) -> None:
    await _show(send, status, json.dumps({"error": reason}).encode(), [], b"application/json", is_last=is_last)


async def _show(
    send: Send,
    status: int,
    body: bytes,
    more: list[tuple[bytes, bytes]],
    kind: bytes = b"text/html; charset=utf-8",
    *,
    is_last: bool,
) -> None:
    """Send an answer; after the last one the connection is closed."""
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *more]
    headers += [(b"connection", b"close")] if is_last else []
    headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
    headers += [(b"retry-after", RETRY_AFTER.encode())] if status == 503 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
