"""Security checks on every request, and security headers on every response.

The checks are made in this order:

Host      Another web page can make its own host name resolve to 127.0.0.1 (DNS rebinding). A server that listens on
          loopback therefore only answers to loopback names. Otherwise the access token keeps such a page out.
token     If other machines can reach the server, every request needs the access token: once as ``?token=``, which sets
          a cookie, or as ``Authorization: Bearer``.
Origin    A request from another web page is refused.
CSRF      A POST needs the header ``X-Tagtrace`` with a token that only our own page can read, and a content type that
          other pages cannot send without a preflight request.
size      The size of request bodies is limited.
"""

from __future__ import annotations

import hmac
import json
import re
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 1_000_000
MAX_BULK = 6_000_000
MAX_IMPORT = 20_000_000
LIMITS = {"/api/import": MAX_IMPORT, "/api/decisions/bulk": MAX_BULK}
"""Size limits of paths that accept larger bodies, in bytes."""
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
    """The access token that every request needs; None if only this machine can reach the server."""
    cookie: str = "tagtrace"
    """The name of the cookie that stores the access token."""


class RefusalError(Exception):
    """A request that is refused, with the HTTP status of the refusal."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Gate:
    """ASGI middleware that checks each request and adds the security headers to each response."""

    app: ASGIApp
    guard: Guard

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self.app, self.guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # web sockets are not used
            await send({"type": "websocket.close", "code": 1008})
            return
        send = _with_headers(send, scope["path"])
        try:
            headers = Headers(scope=scope)
            self._check_host(headers)
            if location := self._check_token(scope, headers):
                await self._welcome(location, send)
                return
            is_read = scope["method"] in ("GET", "HEAD")
            self._check_origin(headers, is_read=is_read)
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
        if self.guard.token is None and not is_loopback(_name(hosts[0])):
            raise RefusalError(421, "this server only answers to 127.0.0.1 and localhost; open the address it printed")

    def _check_token(self, scope: Scope, headers: Headers) -> str | None:
        """Raise if the access token is missing or wrong. If it is in the address, return the address without it."""
        if self.guard.token is None:
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        if given and scope["method"] == "GET" and self._is_token(given[0]):
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            return scope["path"] + (f"?{rest}" if rest else "")
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if not self._is_token(_cookie(headers, self.guard.cookie)) and not self._is_token(bearer):
            raise RefusalError(401, "the access token is missing or wrong; open the address that the server printed")
        return None

    def _is_token(self, given: str) -> bool:
        return self.guard.token is not None and hmac.compare_digest(given.encode(), self.guard.token.encode())

    async def _welcome(self, location: str, send: Send) -> None:
        """Store the access token in a cookie and redirect to the address without it.

        The cookie is SameSite=Lax, not Strict, so that a link to a finding works from a colleague's message. Requests
        that change anything are POST requests, which also need the token of the page.
        """
        cookie = f"{self.guard.cookie}={self.guard.token}; Path=/; HttpOnly; SameSite=Lax"
        local = "/" + location.lstrip("/\\")  # never redirect to another host
        headers = [(b"location", local.encode("ascii", "ignore")), (b"set-cookie", cookie.encode())]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    def _check_origin(self, headers: Headers, *, is_read: bool) -> None:
        host, origin = headers["host"], headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
            raise RefusalError(403, "requests from other web pages are refused; use the page that this server shows")
        is_followed = is_read and _is_navigation(headers)
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not is_followed:
            raise RefusalError(403, "requests from other web pages are refused; use the page that this server shows")

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


def _cookie(headers: Headers, name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value


async def _body(receive: Receive, headers: Headers, limit: int) -> bytes:
    """The whole body; raises RefusalError as soon as it is larger than ``limit`` bytes."""
    too_long = RefusalError(413, f"the request is larger than {limit:,} bytes; send it in smaller parts")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > limit:
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


def _with_headers(send: Send, path: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            if not path.startswith("/static/"):
                headers["cache-control"] = "no-store"
        await send(message)

    return sending


async def _answer(send: Send, status: int, reason: str) -> None:
    body = json.dumps({"error": reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
