"""Who may talk to the server, and what a browser may do with its answers.

Every request passes, in this order:

Host      A page elsewhere may point a name of its own at 127.0.0.1 (DNS rebinding). On loopback only loopback names are
          answered; elsewhere the access token is what keeps such a page out.
token     Where the server listens to other machines, each request needs the token: as ``?token=`` once, which sets a
          cookie, or as ``Authorization: Bearer``.
Origin    A request that says it comes from another page is refused.
CSRF      A POST needs the header ``X-Tagtrace`` with a token that only our own page can read, and a content type that
          other pages cannot send unasked.
size      Bodies are read up to a limit.
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
"""Of bodies that may be longer."""
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
    """Whether a host name or address is this machine's own.

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
    """What a server asks of its clients."""

    csrf: str
    token: str | None = None
    """Needed by every request where other machines can reach the server."""
    cookie: str = "tagtrace"
    """The name of the cookie that holds the token."""


class RefusalError(Exception):
    """A request that is not answered."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Gate:
    """ASGI middleware: the checks above before each request, the headers on each answer."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self.app, self.guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no web sockets here
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
            raise RefusalError(400, "a request needs one Host header")
        if self.guard.token is None and not is_loopback(_name(hosts[0])):
            raise RefusalError(421, "this server answers only to 127.0.0.1 and localhost; open the address it printed")

    def _check_token(self, scope: Scope, headers: Headers) -> str | None:
        """Raise unless the token is there; where it is in the address, return the address without it."""
        if self.guard.token is None:
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        if given and scope["method"] == "GET" and self._is_token(given[0]):
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            return scope["path"] + (f"?{rest}" if rest else "")
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if not self._is_token(_cookie(headers, self.guard.cookie)) and not self._is_token(bearer):
            raise RefusalError(401, "this server needs its token: open the address with ?token= that it printed")
        return None

    def _is_token(self, given: str) -> bool:
        return self.guard.token is not None and hmac.compare_digest(given.encode(), self.guard.token.encode())

    async def _welcome(self, location: str, send: Send) -> None:
        """Keep the token in a cookie and leave the address that has it.

        Lax, not strict: a link to a finding that a colleague sent is followed from another site. What changes anything
        is a POST, which needs the page's own token besides.
        """
        cookie = f"{self.guard.cookie}={self.guard.token}; Path=/; HttpOnly; SameSite=Lax"
        local = "/" + location.lstrip("/\\")  # never to another host
        headers = [(b"location", local.encode("ascii", "ignore")), (b"set-cookie", cookie.encode())]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    def _check_origin(self, headers: Headers, *, is_read: bool) -> None:
        host, origin = headers["host"], headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
            raise RefusalError(403, "the request comes from another page")
        is_followed = is_read and _is_navigation(headers)
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not is_followed:
            raise RefusalError(403, "the request comes from another page")

    def _check_post(self, headers: Headers) -> None:
        if not hmac.compare_digest(headers.get("x-tagtrace", "").encode(), self.guard.csrf.encode()):
            raise RefusalError(403, "the header X-Tagtrace is missing or stale; reload the page")
        kind = headers.get("content-type", "").split(";")[0].strip().lower()
        if kind not in CONTENT_TYPES:
            raise RefusalError(415, f"expected the content type {CONTENT_TYPES[0]}")


def _is_navigation(headers: Headers) -> bool:
    """A link that was followed, which shows the page and tells nothing to where it came from."""
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"


def _name(host: str) -> str:
    """A Host header without its port.

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
    """The whole body, or a refusal as soon as it is too long."""
    too_long = RefusalError(413, f"the request is larger than {limit:,} bytes; send less at once")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > limit:
        raise too_long
    parts, size = list[bytes](), 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RefusalError(400, "the client went away")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise too_long
        if not message.get("more_body", False):
            return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A body that was read, for the application to read again."""
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
