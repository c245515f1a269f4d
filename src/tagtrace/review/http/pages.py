"""The page and its static files, which ship with the package.

All files are read once, when the server starts, into a dictionary from relative name (``core/api.js``) to content. A
request can only name a key of that dictionary, so that no path from a client ever reaches the file system.

The page asks for its files under an address that contains the fingerprint of all of them. Browsers keep these files
for good, and ask again only when another version is installed, because its address differs.
"""

from __future__ import annotations

import hashlib
import re
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
    """The content and type of a static file."""

    content: bytes
    kind: str

    @property
    def tag(self) -> str:
        return f'"{fingerprint(self.content)}"'


def fingerprint(*contents: bytes) -> str:
    return hashlib.sha256(b"\0".join(contents)).hexdigest()[:32]


def read_files() -> dict[str, File]:
    """The static files, by their name relative to the folder: ``main.js``, ``core/api.js``."""
    paths = sorted(path for path in STATIC.rglob("*") if path.suffix in TYPES and path.is_file())
    return {path.relative_to(STATIC).as_posix(): File(path.read_bytes(), TYPES[path.suffix]) for path in paths}


class Pages:
    """ASGI middleware that serves the page, which is the same for all views, and its static files.

    Other requests go to the application. The page asks for some forty files when it is first opened, so they are
    answered here, before any routing.
    """

    app: ASGIApp
    files: dict[str, File]
    tags: dict[str, str]
    version: str
    text: str

    def __init__(self, app: ASGIApp, csrf: str, project: str) -> None:
        self.app, self.files = app, read_files()
        self.tags = {name: file.tag for name, file in self.files.items()}
        self.version = fingerprint(*(file.content for file in self.files.values()))
        text = (STATIC / "index.html").read_text(encoding="utf-8")
        text = text.replace('"/static/', f'"/static/{self.version}/')
        self.text = text.replace("__CSRF__", escape(csrf)).replace("__PROJECT__", escape(project))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._answer(scope) if scope["type"] == "http" and scope["method"] in ("GET", "HEAD") else None
        await (answer or self.app)(scope, receive, send)

    def _answer(self, scope: Scope) -> Response | None:
        if scope["path"] == "/" or scope["path"][1:] in VIEWS:
            return self._shell(scope["path"][1:] or "project")
        if not scope["path"].startswith("/static/"):
            return None
        version, name = self._split(scope["path"].removeprefix("/static/"))
        if name not in self.files:
            return refusal(404, "this file does not exist; reload the page")
        headers = {"etag": self.tags[name], "cache-control": FOREVER if version == self.version else "no-cache"}
        if Headers(scope=scope).get("if-none-match") == self.tags[name]:
            return Response(status_code=304, headers=headers)
        return Response(self.files[name].content, media_type=self.files[name].kind, headers=headers)

    def _split(self, name: str) -> tuple[str, str]:
        """The version and the name in ``VERSION/core/api.js`` or ``core/api.js``; a version may be an old one."""
        version, _, rest = name.partition("/")
        return (version, rest) if re.fullmatch(r"[0-9a-f]{32}", version) else ("", name)

    def _shell(self, view: str) -> Response:
        twin = f"/api/{view}"
        headers = {"link": f'<{twin}>; rel="alternate"; type="application/json"'}
        return Response(self.text.replace("__TWIN__", twin), media_type="text/html", headers=headers)
