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
size      The size of request bodies is limited.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tagtrace.review.http.entrance import going_on, locked

MAX_BODY = 1_000_000
MAX_BULK = 6_000_000
MAX_IMPORT = 20_000_000
LIMITS = {"/api/import": MAX_IMPORT, "/api/decisions/bulk": MAX_BULK}
"""Size limits of paths that accept larger bodies, in bytes."""
HAS_TOKEN = "has_token"
"""A key in the state of a request that has shown the access token."""
OTHER_PROJECT = 409
"""The status for a page whose project is not served here any more."""
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, _shut_down_if_cancelled(receive), send)
            return
        if scope["type"] != "http":  # web sockets are not used
            await send({"type": "websocket.close", "code": 1008})
            return
        send = _with_headers(send, scope, self.guard.project)
        try:
            headers = Headers(scope=scope)
            if "content-length" in headers and "transfer-encoding" in headers:
                raise RefusalError(400, "the request has both Content-Length and Transfer-Encoding; send one of them")
            self._check_host(headers)
            if page := self._entrance(scope, headers):
                await _show(send, *page)
                return
            scope.setdefault("state", {})[HAS_TOKEN] = True
            is_read = scope["method"] in ("GET", "HEAD")
            self._check_origin(headers, is_read=is_read)
            self._check_project(headers)
            if not is_read:
                self._check_post(headers)
                limit = LIMITS.get(scope["path"], MAX_BODY)
                receive = _replayed(await _body(receive, headers, limit), receive)
        except RefusalError as refusal:
            await _answer(send, refusal.status, str(refusal))
            return
        await self.app(scope, receive, send)

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
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        rest = urlencode([pair for pair in query if pair[0] != "token"])
        here = _address(scope["path"]) + (f"?{rest}" if rest else "")
        if given and scope["method"] == "GET" and self._is_token(given[0]):
            cookie = f"{self.guard.cookie}={self.guard.token}; Path=/; HttpOnly; SameSite=Strict"
            return 200, going_on(here), [(b"set-cookie", cookie.encode())]
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if any(map(self._is_token, (bearer, *_cookies(headers, self.guard.cookie)))):
            return None
        if _is_navigation(headers) and headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            return 200, going_on(here), []  # a link in a colleague's message: the cookie comes with the next request
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


async def _body(receive: Receive, headers: Headers, limit: int) -> bytes:
    """The whole body; raises RefusalError as soon as it is larger than ``limit`` bytes."""
    too_long = RefusalError(413, f"the request is larger than {limit:,} bytes; send it in smaller parts")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > MAX_DIGITS or int(length) > limit:
        raise too_long
    parts, size = list[bytes](), 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RefusalError(400, "the client closed the connection before the whole request arrived")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise too_long
        if not message.get("more_body", False):
            return b"".join(parts)


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


async def _answer(send: Send, status: int, reason: str) -> None:
    await _show(send, status, json.dumps({"error": reason}).encode(), [], b"application/json")


async def _show(
    send: Send, status: int, body: bytes, more: list[tuple[bytes, bytes]], kind: bytes = b"text/html; charset=utf-8"
) -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *more]
    headers += [(b"connection", b"close")] if status == 400 else []  # where the next request begins is not known
    headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
