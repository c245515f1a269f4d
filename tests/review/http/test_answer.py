"""What the system refuses is answered with one line, and no decision waits while an answer is written."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tagtrace.review.http.answer import Answer
from tests.review.made import Client

PATHS = (
    "project", "patterns", "findings", "findings/1", "occurrences?rank=1", "history", "changes", "questions",
    "sentences/1", "why?sentence=x&start=0&stop=1", "export/data", "export/log",
)  # fmt: skip


def unreadable(*_: Any) -> None:
    raise PermissionError(13, "Permission denied", "seed-0.safetensors")


@pytest.mark.parametrize("path", PATHS)
def test_a_file_that_cannot_be_read_is_no_error_of_the_server(
    ada: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    monkeypatch.setattr(ada.review.decisions, "reading", unreadable)
    monkeypatch.setattr(ada.review, "the_model", unreadable)
    monkeypatch.setattr("tagtrace.review.http.downloads._handle", unreadable)
    response = ada.http.get(f"/api/{path}")
    assert (response.status_code, response.json()) == (503, {"error": "seed-0.safetensors: Permission denied"})
    assert caplog.text == ""


@pytest.mark.parametrize("path", PATHS[:9])
def test_no_answer_is_written_while_decisions_wait(ada: Client, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    render, is_free = Answer.render, list[bool]()

    def checked(answer: Answer, content: Any) -> bytes:
        taken = threading.Event()

        def take() -> None:
            with ada.review.decisions.reading():
                taken.set()

        threading.Thread(target=take).start()
        is_free.append(taken.wait(5))
        return render(answer, content)

    monkeypatch.setattr(Answer, "render", checked)
    assert ada.http.get(f"/api/{path}").status_code == 200
    assert is_free == [True]
