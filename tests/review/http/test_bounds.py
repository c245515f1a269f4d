"""Every number, text and list in a request has its limits, and what is beyond them is refused with one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from tagtrace.review import Decisions, Review, Store, TrainingData
from tagtrace.review.http.request_bodies import BulkBody, DecisionBody, RetrainBody, SupposeBody
from tests.review.made import Client, light_data, light_review, write_light

LIMITS = {
    "integer": {"minimum", "maximum"}, "number": {"minimum", "maximum"}, "string": {"maxLength"},
    "array": {"maxItems"}, "object": {"properties"},
}  # fmt: skip


def asked(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The schema of every parameter and body, with its place."""
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            for one in route.get("parameters", ()):
                yield f"{method} {path} {one['name']}", one["schema"]
            for kind, one in route.get("requestBody", {}).get("content", {}).items():
                yield f"{method} {path} {kind}", one["schema"]


def unlimited(document: dict[str, Any], schema: Any, place: str) -> Iterator[str]:
    """The places in a schema that have a type but no limits."""
    if isinstance(schema, list):
        for number, one in enumerate(schema):
            yield from unlimited(document, one, f"{place}.{number}")
    if not isinstance(schema, dict):
        return
    if reference := schema.get("$ref"):
        yield from unlimited(document, document["components"]["schemas"][reference.rsplit("/", 1)[1]], place)
    is_named = "enum" in schema or "const" in schema
    if not is_named and LIMITS.get(schema.get("type", ""), set()) - schema.keys():
        yield f"{place}: {schema}"
    if schema.get("additionalProperties"):
        yield f"{place}: other keys"
    for key in ("anyOf", "oneOf", "allOf", "items", "prefixItems"):
        yield from unlimited(document, schema.get(key), f"{place}.{key}")
    for name, one in schema.get("properties", {}).items():
        yield from unlimited(document, one, f"{place}.{name}")


def test_every_value_of_a_request_is_limited(ada: Client) -> None:
    document = ada.http.get("/api/openapi.json").json()
    schemas = list(asked(document))
    assert len(schemas) > 50
    assert [found for place, schema in schemas for found in unlimited(document, schema, place)] == []


def test_unlimited_values_are_found() -> None:
    schema = {"type": "object", "properties": {"one": {"type": "integer", "minimum": 0}, "two": {"type": "null"}}}
    assert len(list(unlimited({}, schema, "body"))) == 1
    assert list(unlimited({}, {"type": "array", "maxItems": 3, "items": {"type": "string"}}, "body"))


@pytest.mark.parametrize(
    "path",
    [
        "findings?limit=1001", "findings?offset=-1", f"findings?rank={10**30}", "findings?pattern=%D9%A1",
        f"findings?text={'x' * 501}", "errors?min_loss=nan", f"occurrences?sentence_number=0&start=0&stop={2**53}",
        "changes?since=-1", f"jobs/{10**400}", f"sentences/{2**60}", f"why?sentence=a&start=0&stop={2**53}",
        "why?sentence=a&start=0&stop=1&top=999",
    ],
)  # fmt: skip
def test_what_is_beyond_the_limits_is_refused(ada: Client, path: str) -> None:
    response = ada.http.get(f"/api/{path}")
    assert response.status_code == 400, response.text
    assert list(response.json()) == ["error"]


@pytest.mark.parametrize("body", [BulkBody, SupposeBody, RetrainBody])
def test_only_the_first_wrong_item_of_a_list_is_told(body: type[BaseModel]) -> None:
    """Errors of 20,000 items kept everybody waiting for more than a second."""
    bad = {"sentence_number": -1, "labels": [1, 2]}
    for name in {"decisions", "edits"} & body.model_fields.keys():
        with pytest.raises(ValidationError) as caught:
            body.model_validate({name: [bad] * 100})
        places = [one["loc"][:4] for one in caught.value.errors() if one["loc"][0] == name]
        assert len(places) <= len(DecisionBody.model_fields)
        assert {place[1] for place in places} == {0}
        assert [place for place in places if place[2] == "labels"] == [(name, 0, "labels", 0)]


@pytest.mark.parametrize("where", ["prediction", "edit"])
def test_a_segment_beyond_all_tokens_is_refused_at_once(ada: Client, where: str) -> None:
    """Before anything as long as it is made."""
    edit = {"sentence_number": 0, "start": 0, "stop": 2**53 if where == "edit" else 1, "labels": None}
    body = {"sentence": "a", "start": 0, "stop": 2**53 if where == "prediction" else 1, "edits": [edit]}
    for path, more in (("what-if", {}), ("jobs", {"kind": "verify"}), ("jobs", {"kind": "retrain"})):
        assert "stop is not valid" in ada.post(path, {**body, **more}, 400)["error"]


def test_a_length_that_is_not_a_number_is_refused(ada: Client) -> None:
    headers = {**ada.headers, "Content-Type": "application/json", "Content-Length": "9" * 5000}
    assert ada.http.post("/api/undo", content=b"{}", headers=headers).status_code == 413


@pytest.mark.parametrize("name", ["new", "given", "tokens"])
@pytest.mark.parametrize("value", [[["B-ORG"]], [{}], [1], "O", 1, None, [None]])
def test_an_import_with_something_else_than_texts_is_refused(ada: Client, name: str, value: Any) -> None:
    ada.decide(1)
    ada.post("export")
    change = json.loads(ada.http.get("/api/export/log").text.splitlines()[0])
    body = {"log": json.dumps({**change, name: value})}
    assert "line 1 of the log is not a change" in ada.post("import", body, 400)["error"]


@pytest.mark.parametrize("number", [nan, inf, -inf])
def test_a_score_that_is_not_a_number_is_shown_as_none(tmp_path: Path, number: float) -> None:
    write_light(tmp_path)
    data = light_data(tmp_path)
    findings = [replace(one, score=number, scores={"doubt": number}) for one in data.findings]
    data = TrainingData(data.corpus, data.labels, findings=findings, audit="made")
    ada = Client(Review("strange", "ada", Decisions(data, Store(tmp_path / "d.sqlite")), tmp_path / "export"))
    found = ada.get("findings")["items"][0]
    assert (found["score"], found["scores"]) == (None, {"doubt": None})
    assert ada.get("findings/1")["tokens"] == list(asdict(findings[0])["tokens"])
    ada.review.close()


def test_a_job_is_of_a_kind_that_the_schema_names(tmp_path: Path) -> None:
    ada = Client(light_review(tmp_path))
    for kind in ("", "guess", None, ["verify"]):
        assert "error" in ada.post("jobs", {"kind": kind}, 400)
    ada.review.close()
