"""JSON responses. Errors are sent as ``{"error": "one line"}``."""

from __future__ import annotations

import json
import math
import sqlite3
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from tagtrace._checks import TagtraceError, describe_failure
from tagtrace.review.decisions.decide import KeyUsedError, NotFoundError
from tagtrace.review.http.lane import BusyError

RETRY_AFTER = "2"
"""Seconds until a client that was sent away should ask again."""


class Answer(JSONResponse):
    """JSON in UTF-8.

    Lone surrogates, which UTF-8 cannot encode, are written as JSON escapes; numbers that JSON does not have (infinity,
    and what is not a number) as null.
    """

    def render(self, content: Any) -> bytes:
        try:
            text = _dumps(content)
        except ValueError:
            text = _dumps(_finite(content))
        return text.encode("utf-8", "backslashreplace")


def _dumps(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def refusal(status: int, reason: object) -> Answer:
    return Answer({"error": " ".join(str(reason).split())}, status)


def answer_errors(app: FastAPI) -> None:
    """Make every error of the application a response ``{"error": "one line"}`` with a fitting status."""

    @app.exception_handler(TagtraceError)
    def refused(_: Request, error: Exception) -> Response:
        if isinstance(error, BusyError):
            answer = refusal(503, error)
            answer.headers["retry-after"] = RETRY_AFTER
            return answer
        status = 404 if isinstance(error, NotFoundError) else 409 if isinstance(error, KeyUsedError) else 400
        return refusal(status, error)

    @app.exception_handler(RequestValidationError)
    def malformed(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
        return refusal(400, f"{where or 'the body'} is not valid: {first['msg']}")

    @app.exception_handler(HTTPException)
    def missed(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return refusal(error.status_code, error.detail)

    @app.exception_handler(sqlite3.Error)
    def unkept(_: Request, error: Exception) -> Response:
        if isinstance(error, sqlite3.OperationalError):  # a lock, a full disk: it may be over soon
            return refusal(503, f"the decision could not be saved ({error}); nothing was changed, so try again")
        return refusal(500, f"the decision could not be saved ({error}); nothing was changed, so look at the database")

    @app.exception_handler(OSError)
    def unwritten(_: Request, error: Exception) -> Response:
        assert isinstance(error, OSError)
        return refusal(503, describe_failure(error))

    @app.exception_handler(Exception)
    def broken(_: Request, error: Exception) -> Response:
        return refusal(500, f"unexpected {type(error).__name__}; see the output of the server for details")
