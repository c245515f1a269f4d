"""The web application: the routes of an open project behind the security checks."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI

from tagtrace._version import __version__
from tagtrace.review.http.answer import answer_errors
from tagtrace.review.http.gate import Gate, Guard
from tagtrace.review.http.lane import Lane
from tagtrace.review.http.pages import Pages
from tagtrace.review.http.routes_asking import asking_routes
from tagtrace.review.http.routes_deciding import deciding_routes
from tagtrace.review.http.routes_reading import reading_routes
from tagtrace.review.http.routes_teaching import teaching_routes
from tagtrace.review.review import Review

DECIDING, MAX_DECISIONS = 2, 500
"""Threads for decisions, and how many may wait; they are saved one after the other."""
READING = 4
"""Threads for everything else: more would only take the interpreter from those that decide."""
TRANSFERRING, MAX_TRANSFERS = 1, 8
"""Threads for exports and imports, one after the other, and how many may wait."""
ASKING, MAX_QUESTIONS = 2, 40
"""Threads for explanations and what-ifs, and how many may wait."""
TOKEN = {
    "type": "apiKey",
    "in": "header",
    "name": "X-Tagtrace",
    "description": 'The content of <meta name="csrf"> in the page. A request can also have the content of '
    '<meta name="project"> in X-Tagtrace-Project; it is refused if another project is served by then.',
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


def make_app(review: Review, token: str | None = None, cookie: str = "tagtrace", *, is_remote: bool = False) -> Gate:
    """The review page of a project as an ASGI application, which closes the project when it shuts down.

    If ``token`` is given, as a server does, every request needs it. ``cookie`` is the name of the cookie that stores
    it. Requests must name a loopback host unless ``is_remote``.
    """

    decisions = Lane("decisions", DECIDING, MAX_DECISIONS)
    transfers = Lane("exports and imports", TRANSFERRING, MAX_TRANSFERS)
    questions = Lane("explanations", ASKING, MAX_QUESTIONS, is_slow=True)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = READING
        yield
        for lane in (questions, transfers, decisions):
            lane.close()
        review.close()

    csrf = secrets.token_urlsafe(32)  # on no disk: a page that outlives the server reads the next one from the page
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
    app.include_router(reading_routes(review))
    app.include_router(deciding_routes(review, decisions, transfers))
    app.include_router(asking_routes(review, questions))
    app.include_router(teaching_routes(review))
    project = review.fingerprint
    guard = Guard(csrf, token, cookie, is_remote, project)
    return Gate(Pages(app, csrf, project), guard)  # outermost, so that its headers are on every response
