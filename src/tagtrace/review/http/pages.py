"""The page and its files, shipped with the package and read once. A client names them; it never names a path.

The page asks for its files under an address that holds the fingerprint of all of them: a browser keeps them, and asks
again only for those of another version.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from html import escape
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tagtrace.review.http.answer import refusal

STATIC = Path(__file__).parents[1] / "static"
TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json",
}
VIEWS = ("errors", "why", "findings")
FOREVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True)
class File:
    """A static file in memory."""

    content: bytes
    kind: str

    @property
    def tag(self) -> str:
        return f'"{fingerprint(self.content)}"'


def fingerprint(*contents: bytes) -> str:
    return hashlib.sha256(b"\0".join(contents)).hexdigest()[:32]


def read_files() -> dict[str, File]:
    """The files that may be asked for, by name."""
    paths = sorted(path for path in STATIC.iterdir() if path.suffix in TYPES)
    return {path.name: File(path.read_bytes(), TYPES[path.suffix]) for path in paths}


class Pages:
    """ASGI middleware: the shell, the same for all views, and the static files; all else is the application's.

    A first page asks for some forty files, so they pass no routing.
    """

    def __init__(self, app: ASGIApp, csrf: str) -> None:
        self.app, self.files = app, read_files()
        self.tags = {name: file.tag for name, file in self.files.items()}
        self.version = fingerprint(*(file.content for file in self.files.values()))
        text = (STATIC / "index.html").read_text(encoding="utf-8")
        self.text = text.replace('"/static/', f'"/static/{self.version}/').replace("__CSRF__", escape(csrf))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._answer(scope) if scope["type"] == "http" and scope["method"] in ("GET", "HEAD") else None
        await (answer or self.app)(scope, receive, send)

    def _answer(self, scope: Scope) -> Response | None:
        if scope["path"] == "/" or scope["path"][1:] in VIEWS:
            return self._shell(scope["path"][1:] or "project")
        if not scope["path"].startswith("/static/"):
            return None
        of, _, name = scope["path"].removeprefix("/static/").rpartition("/")
        if name not in self.files or "/" in of:
            return refusal(404, "there is no such file")
        headers = {"etag": self.tags[name], "cache-control": FOREVER if of == self.version else "no-cache"}
        if Headers(scope=scope).get("if-none-match") == self.tags[name]:
            return Response(status_code=304, headers=headers)
        return Response(self.files[name].content, media_type=self.files[name].kind, headers=headers)

    def _shell(self, view: str) -> Response:
        twin = f"/api/{view}"
        headers = {"link": f'<{twin}>; rel="alternate"; type="application/json"'}
        return Response(self.text.replace("__TWIN__", twin), media_type="text/html", headers=headers)
