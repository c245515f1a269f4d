"""The application: routes over an open project, behind the gate."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from tagtrace._version import __version__
from tagtrace.review.http.answer import answer_errors
from tagtrace.review.http.gate import Gate, Guard
from tagtrace.review.http.pages import Pages
from tagtrace.review.http.routes_asking import asking_routes
from tagtrace.review.http.routes_deciding import deciding_routes
from tagtrace.review.http.routes_reading import reading_routes
from tagtrace.review.review import Review

TOKEN = {
    "type": "apiKey",
    "in": "header",
    "name": "X-Tagtrace",
    "description": 'The content of <meta name="csrf"> in the page.',
}


def document_token(app: FastAPI) -> None:
    """Let the OpenAPI document say that a POST needs the token of the page."""
    document = app.openapi

    def whole() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = document()
            found["components"]["securitySchemes"] = {"page": TOKEN}
            for methods in found["paths"].values():
                if "post" in methods:
                    methods["post"]["security"] = [{"page": []}]
        return document()

    app.openapi = whole


def make_app(review: Review, token: str | None = None, cookie: str = "tagtrace") -> Gate:
    """The review page of a project as an ASGI application; closes the project when it ends.

    ``token`` is needed by every request where other machines can reach the server.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        review.close()

    # kept with the decisions: a page that is open when the server starts again goes on
    csrf = review.decisions.store.setting("csrf", secrets.token_urlsafe(32))
    app = FastAPI(
        title="tagtrace review",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    answer_errors(app)
    document_token(app)
    for routes in (reading_routes, deciding_routes, asking_routes):
        app.include_router(routes(review))
    return Gate(Pages(app, csrf), Guard(csrf, token, cookie))  # outside of all else: its headers are on every answer
