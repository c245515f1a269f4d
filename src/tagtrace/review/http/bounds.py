"""The limits of every number, text and list in a request: the routes and the bodies are declared with these types.

They are part of the OpenAPI schema; a test finds any value that has no limit. Of a list, only the first wrong item is
told (``fail_fast``): a list of thousands of them would keep all other requests waiting.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import Field

from tagtrace._checks import MAX_NUMBER
from tagtrace.review.decisions.decide import MAX_TOGETHER, MAX_TOKENS
from tagtrace.review.model.listings import MAX_ITEMS
from tagtrace.review.model.model import MAX_TOP

MAX_REVIEWER = 1_200
"""Characters of a reviewer's name, percent-encoded: 100 of four bytes each."""

Id = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
"""A rank, a row, a version, or the number of a sentence, pattern or job."""
Token = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
"""A place between two tokens of a sentence."""
Top = Annotated[int, Field(ge=1, le=MAX_TOP)]
Text = Annotated[str, Field(max_length=10_000)]
Name = Annotated[str, Field(max_length=200)]
Labels = Annotated[list[Name], Field(max_length=MAX_TOGETHER, fail_fast=True)]

Filter = Annotated[str, Query(max_length=500)]
Offset = Annotated[int, Query(ge=0, le=MAX_NUMBER)]
Limit = Annotated[int, Query(ge=0, le=MAX_ITEMS)]
Digits = Annotated[str, Query(pattern="^[0-9]*$", max_length=9)]
"""A number, or nothing."""
