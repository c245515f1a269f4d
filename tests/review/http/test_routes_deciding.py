"""Exports and imports have a thread of their own, and of an imported log nothing is parsed but its changes."""

from __future__ import annotations

import errno
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tagtrace._checks import TagtraceError
from tagtrace.review.http.routes_deciding import MAX_LINE
from tests.review.made import Client, light_review


def say_thread(*_: Any) -> None:
    raise TagtraceError(threading.current_thread().name)


def test_exports_and_imports_wait_for_each_other_only(ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many of them took all the threads in which the page is read."""
    for name in ("export", "import_log"):
        monkeypatch.setattr(f"tagtrace.review.http.routes_deciding.{name}", say_thread)
    assert ada.post("export", status=400)["error"] == "exports and imports_0"
    assert ada.post("import", {"log": ""}, 400)["error"] == "exports and imports_0"


def test_only_some_exports_and_imports_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tagtrace.review.http.app.MAX_TRANSFERS", 0)
    ada = Client(light_review(tmp_path))
    for path in ("export", "import"):
        assert "exports and imports are waiting already" in ada.post(path, status=503)["error"]
    assert ada.decide(1)["status"] == "accepted"
    ada.review.close()


def test_an_export_to_a_full_disk_is_refused_in_one_line(ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "export/train.conll")

    ada.decide(1)
    with monkeypatch.context() as patch:
        patch.setattr("tagtrace.review.decisions.export.write_corpus", full)
        error = ada.post("export", status=503)["error"]
    assert error == "export/train.conll: No space left on device; free some space and run again"
    assert ada.post("export")["changed"] == 1


def exported(client: Client) -> str:
    client.decide(1)
    client.post("export")
    client.post("undo")
    return client.http.get("/api/export/log").text


def imported(client: Client, body: str) -> Any:
    return client.http.post("/api/import", content=body, headers={**client.headers, "content-type": "application/json"})


@pytest.mark.parametrize("form", ["{log}", '{{"log":{json}}}', ' {{ "log" :\t{json} }}\n'])
def test_a_log_is_the_body_or_a_text_in_it(ada: Client, form: str) -> None:
    log = exported(ada)
    assert imported(ada, form.format(log=log, json=json.dumps(log))).json()["imported"] == 1


@pytest.mark.parametrize(
    "body", ['{"log":[]}', '{"log":"', '{"log":""} {', '{"log":"","log":[]}', "[[],[]]", "{", '""']
)
def test_what_is_neither_is_refused(ada: Client, body: str) -> None:
    assert "line 1 of the log is not a change" in imported(ada, body).json()["error"]


def test_a_line_as_long_as_a_file_is_not_parsed(ada: Client) -> None:
    """Parsing it would keep every other thread waiting for seconds."""
    body = "\n[" + "[]," * (MAX_LINE // 3) + "[]]"
    assert imported(ada, body).json()["error"].startswith("line 2 of the log is longer than 1,000,000 characters")
