"""The web application: the routes of an open project behind the security checks."""

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
from tagtrace.review.http.routes_teaching import teaching_routes
from tagtrace.review.review import Review

TOKEN = {
    "type": "apiKey",
    "in": "header",
    "name": "X-Tagtrace",
    "description": 'The content of <meta name="csrf"> in the page.',
}


def document_token(app: FastAPI) -> None:
    """Document in the OpenAPI schema that every POST needs the token of the page."""
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
    """The review page of a project as an ASGI application, which closes the project when it shuts down.

    If ``token`` is given, every request needs it. It is required if other machines can reach the server. ``cookie`` is
    the name of the cookie that stores it.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        review.close()

    # stored with the decisions, so that an open page still works after the server is restarted
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
    for routes in (reading_routes, deciding_routes, asking_routes, teaching_routes):
        app.include_router(routes(review))
    return Gate(Pages(app, csrf), Guard(csrf, token, cookie))  # outermost, so that its headers are on every response
