"""No request, whatever is in it, is answered with an error of the server. ``python -m tests.fuzz.page`` tries more."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings

pytest.importorskip("fastapi", reason="the page needs it")

from tagtrace.review import open_review
from tests.fuzz.page import CHECKS, check, fuzzed
from tests.review.made import make_project


def test_no_request_gives_an_error_of_the_server(tmp_path: Path) -> None:
    review = open_review(make_project(tmp_path), "ada")
    client, schemas = fuzzed(review)
    statuses = Counter[int]()

    @settings(max_examples=400, deadline=None, database=None, derandomize=True, suppress_health_check=CHECKS)
    @given(schemas.requests())
    def run(request: tuple[str, str, bytes, bytes | None]) -> None:
        statuses[check(client, request)] += 1

    try:
        run()
    finally:
        review.close()
    assert statuses[200] > 20  # some are right, and some wrong
    assert statuses[400] > 20
