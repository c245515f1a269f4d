"""Requests to the review page, made from its own OpenAPI document: right ones, ones at the limits and wrong ones.

    PYTHONPATH=src python -m tests.fuzz.page --requests 100000

No request may be answered with an error of the server, whatever is in it; what is refused is refused with one line.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tagtrace.review import Review, open_review
from tests.review.made import Client, make_project

HOSTILE: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    | st.sampled_from([2**53, 2**63, -1, 10**30, float("nan"), "\ud800", "\x00", "undo:U1:0", "../..", "a" * 501]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4), max_leaves=8,
)  # fmt: skip
NUM_KNOWN = 30
MOSTLY = 15
"""How many right values there are for each that can be anything."""
CHECKS = (
    HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example, HealthCheck.filter_too_much,
)  # fmt: skip


class Schemas:
    """Strategies for the schemas of an OpenAPI document; ``known`` are texts that mean something in the project."""

    def __init__(self, document: dict[str, Any], known: Sequence[str]) -> None:
        self.document = document
        self.known = st.sampled_from([*known, ""]) | st.text(max_size=20)

    def value(self, schema: dict[str, Any]) -> SearchStrategy[Any]:
        """Mostly what the schema allows."""
        return st.one_of(*[self.right(schema)] * MOSTLY, HOSTILE)

    def right(self, schema: dict[str, Any]) -> SearchStrategy[Any]:
        if "$ref" in schema:
            return self.right(self.document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]])
        if choices := schema.get("anyOf", schema.get("oneOf")):
            return st.one_of([self.value(one) for one in choices])
        if "const" in schema or "enum" in schema:
            return st.sampled_from(schema.get("enum", [schema.get("const")]))
        return self._of_kind(schema.get("type", ""), schema)

    def _of_kind(self, kind: str, schema: dict[str, Any]) -> SearchStrategy[Any]:
        if kind == "integer":
            low, high = schema["minimum"], schema["maximum"]
            return st.integers(low, min(high, NUM_KNOWN)) | st.sampled_from([low - 1, low, high, high + 1])
        if kind == "array":
            return st.lists(self.value(schema["items"]), max_size=5)
        if kind == "object":
            needed = schema.get("required", [])
            parts = {name: self.value(one) for name, one in schema.get("properties", {}).items()}
            return st.fixed_dictionaries(
                {name: one for name, one in parts.items() if name in needed},
                optional={name: one for name, one in parts.items() if name not in needed},
            )
        return {"boolean": st.booleans(), "null": st.none(), "string": self.known}.get(kind, HOSTILE)

    def requests(self) -> SearchStrategy[tuple[str, str, bytes, bytes | None]]:
        """Method, address, name of the reviewer and body."""
        return st.one_of([
            self._request(method, path, route)
            for path, methods in self.document["paths"].items() for method, route in methods.items()
        ])  # fmt: skip

    def _request(
        self, method: str, path: str, route: dict[str, Any]
    ) -> SearchStrategy[tuple[str, str, bytes, bytes | None]]:
        given = {one["name"]: one for one in route.get("parameters", ()) if one["in"] in ("path", "query")}
        values = st.fixed_dictionaries(
            {name: self.value(one["schema"]) for name, one in given.items() if one.get("required")},
            optional={name: self.value(one["schema"]) for name, one in given.items() if not one.get("required")},
        )
        kind = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        body = st.none() if method == "get" else st.one_of(self.value(kind).map(_json), st.binary(max_size=50))
        reviewer = st.sampled_from([b"ada", b"bob"]) | st.binary(max_size=20)

        def address(found: dict[str, Any]) -> str:
            inside = {name: quote(_text(value), safe="") for name, value in found.items() if f"{{{name}}}" in path}
            query = {name: _text(value) for name, value in found.items() if name not in inside}
            return path.format(**inside) + (f"?{urlencode(query)}" if query else "")

        return st.tuples(st.just(method.upper()), values.map(address), reviewer, body)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _text(value: Any) -> str:
    return (value if isinstance(value, str) else json.dumps(value)).encode("utf-8", "replace").decode()


def check(client: Client, request: tuple[str, str, bytes, bytes | None]) -> int:
    """The status of the answer, which is never an error of the server and is always well formed."""
    method, address, reviewer, body = request
    headers = [(key.encode(), value.encode()) for key, value in client.headers.items()]
    headers += [(b"content-type", b"application/json")]
    headers += [(b"x-reviewer", reviewer)] if not set(reviewer) & set(b"\r\n\0") else []
    answer = client.http.request(method, address, content=body, headers=headers)
    assert answer.status_code < 500, f"{method} {address} {body!r}: {answer.status_code} {answer.text[:500]}"
    if answer.status_code >= 400:
        assert list(answer.json()) == ["error"]
        assert "\n" not in answer.json()["error"]
    return answer.status_code


def fuzzed(review: Review) -> tuple[Client, Schemas]:
    """A client of the project and the requests to make; jobs are started but do no work, which would take minutes."""
    review.jobs.start = lambda work, lane="short": 1  # noqa: ARG005  # pyright: ignore[reportAttributeAccessIssue]
    client = Client(review)
    known = [one.id for one in review.data.sentences[:NUM_KNOWN]] + list(review.data.labels.labels)
    known += ["predicted", "gold", "cosine", "influence", "auto", "token", "all", "open", "loss", "train"]
    return client, Schemas(client.http.get("/api/openapi.json").json(), known)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    arguments = parser.parse_args()
    statuses: dict[int, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        review = open_review(make_project(Path(folder)), "ada")
        client, schemas = fuzzed(review)

        @settings(
            max_examples=arguments.requests, deadline=None, database=None, suppress_health_check=CHECKS,
            phases=(Phase.generate, Phase.shrink),
        )  # fmt: skip
        @given(schemas.requests())
        def run(request: tuple[str, str, bytes, bytes | None]) -> None:
            status = check(client, request)
            statuses[status] = statuses.get(status, 0) + 1

        try:
            run()
        finally:
            review.close()
    print(json.dumps(statuses))


if __name__ == "__main__":
    main()
