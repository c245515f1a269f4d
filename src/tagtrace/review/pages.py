"""The page and its files, shipped with the package. A client names them; it never names a path."""

from __future__ import annotations

import hashlib
from html import escape
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

STATIC = Path(__file__).parent / "static"
TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json",
}
VIEWS = ("errors", "why", "findings")


def page_routes(csrf: str) -> APIRouter:
    """The shell, the same for all views, and the static files."""
    router = APIRouter(include_in_schema=False)

    def shell(request: Request) -> Response:
        view = request.url.path.strip("/")
        twin = f"/api/{view if view in VIEWS else 'project'}"
        text = (STATIC / "index.html").read_text(encoding="utf-8")
        text = text.replace("__CSRF__", escape(csrf)).replace("__TWIN__", escape(twin))
        headers = {"link": f'<{twin}>; rel="alternate"; type="application/json"'}
        return Response(text, media_type="text/html", headers=headers)

    for path in ("/", *(f"/{view}" for view in VIEWS)):
        router.add_api_route(path, shell, methods=["GET", "HEAD"])

    @router.get("/static/{name}")
    def static(name: str, request: Request) -> Response:
        known = {path.name: path for path in STATIC.iterdir() if path.suffix in TYPES}
        if name not in known:
            raise HTTPException(404, "there is no such file")
        content = known[name].read_bytes()
        tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        headers = {"etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=TYPES[known[name].suffix], headers=headers)

    return router
