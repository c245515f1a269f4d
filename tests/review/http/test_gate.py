"""The security checks on requests, the headers of responses and the limits on sizes."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tagtrace._checks import OptionError
from tagtrace.data import LabelSet, read_corpus
from tagtrace.review import Decisions, Review, Store, TrainingData
from tagtrace.review.http.app import make_app
from tagtrace.review.http.gate import MAX_BODY, MAX_IMPORT
from tagtrace.review.http.serve import address, check_host, listen
from tests.review.made import Client, light_review

DECISION = {"rank": 1, "sentence_number": 0, "start": 0, "stop": 1, "action": "accept"}
TOKEN = "a-token-of-the-server"


def post(client: Client, headers: dict[str, str], path: str = "/api/decisions", body: bytes | None = None) -> Any:
    content = json.dumps(DECISION).encode() if body is None else body
    sent = {"Content-Type": "application/json", **client.headers, **headers}
    return client.http.post(path, content=content, headers={k: v for k, v in sent.items() if v})


def refused(client: Client, response: Any, status: int) -> None:
    assert response.status_code == status, response.text
    assert list(response.json()) == ["error"]
    assert client.get("history")["total"] == 0


PATHS = ("/", "/errors", "/why", "/findings", "/static/core/api.js", "/api/project", "/api/openapi.json", "/nowhere",
         "/api/findings/999", "/api/why?sentence=x&start=0&stop=1", "/api/findings?limit=x")  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_has_the_headers(ada: Client, path: str) -> None:
    headers = ada.http.get(path).headers
    assert headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cross-origin-embedder-policy"] == "require-corp"
    assert headers["cache-control"] == ("no-cache" if path.startswith("/static") else "no-store")
    assert "access-control-allow-origin" not in headers


def test_an_unexpected_error_has_them_too(ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tagtrace.review.model.listings.list_patterns", lambda _: 1 / 0)
    response = ada.http.get("/api/patterns")
    assert response.status_code == 500
    assert "content-security-policy" in response.headers
    assert "ZeroDivisionError" in response.json()["error"]


@pytest.mark.parametrize("host", ["127.0.0.1:8321", "localhost:1", "[::1]:8321", "LOCALHOST", "127.0.0.1"])
def test_this_machine_is_answered(ada: Client, host: str) -> None:
    assert ada.http.get("/api/project", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8321",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "",
        "0.0.0.0:8321",
        "[::1].evil.example",
        "localhost:80@evil.example",
        "192.168.0.7",
    ],
)
def test_other_names_are_not(ada: Client, host: str) -> None:
    """A page at evil.example can make its name resolve to this machine."""
    for path in ("/", "/api/project", "/static/core/api.js"):
        assert ada.http.get(path, headers={"Host": host}).status_code == 421
    if host:
        refused(ada, post(ada, {"Host": host}), 421)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://127.0.0.1", "file://"]
)
def test_other_pages_are_refused(ada: Client, origin: str) -> None:
    refused(ada, post(ada, {"Origin": origin}), 403)
    assert ada.http.get("/api/project", headers={"Origin": origin}).status_code == 403


def test_our_own_page_is_not(ada: Client) -> None:
    own = {"Origin": "http://127.0.0.1:8321", "Sec-Fetch-Site": "same-origin"}
    assert post(ada, own).status_code == 201


def test_the_browser_says_where_a_request_is_from(ada: Client) -> None:
    for site in ("cross-site", "same-site"):
        refused(ada, post(ada, {"Sec-Fetch-Site": site}), 403)
        assert ada.http.get("/static/core/api.js", headers={"Sec-Fetch-Site": site}).status_code == 403
        link = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        assert ada.http.get("/findings?rank=3", headers=link).status_code == 200  # links can be sent


@pytest.mark.parametrize("path", ["decisions", "decisions/bulk", "undo", "redo", "export", "import", "what-if", "jobs"])
def test_a_post_needs_the_header(ada: Client, path: str) -> None:
    for token in ("", "wrong", "ü"):
        response = ada.http.post(
            f"/api/{path}",
            content=b"{}",
            headers=[(b"x-tagtrace", token.encode("latin-1")), (b"content-type", b"application/json")],
        )
        refused(ada, response, 403)
    assert not (ada.review.export).exists()


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_post_needs_a_content_type_that_forms_do_not_have(ada: Client, kind: str) -> None:
    refused(ada, post(ada, {"Content-Type": kind}), 415)


def test_the_page_has_the_header(ada: Client) -> None:
    text = ada.http.get("/findings").text
    assert f'<meta name="csrf" content="{ada.headers["X-Tagtrace"]}">' in text
    assert "__CSRF__" not in text
    assert ada.http.get("/findings").headers["link"] == '</api/findings>; rel="alternate"; type="application/json"'


def test_a_page_that_is_open_outlives_the_server(tmp_path: Path) -> None:
    first = light_review(tmp_path)
    headers = Client(first).headers
    first.close()
    assert Client(light_review(tmp_path)).headers == headers


def test_bodies_are_limited(ada: Client) -> None:
    refused(ada, post(ada, {}, body=b" " * (MAX_BODY + 1)), 413)
    refused(ada, post(ada, {}, "/api/import", b" " * (MAX_IMPORT + 1)), 413)

    def parts() -> Iterator[bytes]:
        for _ in range(MAX_BODY // 1000 + 1):
            yield b" " * 1000

    headers = {"Content-Type": "application/json", **ada.headers}
    refused(ada, ada.http.post("/api/decisions", content=parts(), headers=headers), 413)
    assert post(ada, {}, "/api/import", b"\n" * (MAX_BODY + 1)).status_code == 200


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"[" * 100_000, b"\xff", b'{"action":"accept"}', b"1" * 5000]
)
def test_bodies_that_are_not_a_decision(ada: Client, body: bytes) -> None:
    refused(ada, post(ada, {}, body=body), 400)


@pytest.mark.parametrize(
    "name",
    [
        "..%2fapp.py", "%2e%2e/app.py", "../app.py", "..\\app.py", "%2fetc%2fpasswd", "index.html", "nowhere.js", "",
        "core", "core/", "api.js", "core%2f..%2f..%2freview.py", "core/../index.html", "core//api.js", "./core/api.js",
        "views/core/api.js",
    ],
)  # fmt: skip
def test_no_file_is_named_by_its_path(ada: Client, name: str) -> None:
    version = "0" * 32
    for path in (f"/static/{name}", f"/static/{version}/{name}"):
        assert status_of(ada, path) == 404
        assert status_of(ada, unquote(path)) == 404
    assert status_of(ada, "/static/core/api.js") == status_of(ada, f"/static/{version}/core/api.js") == 200


def status_of(client: Client, path: str) -> int:
    """The status of the response to exactly this path, which a client library would normalise."""
    sent = list[MutableMapping[str, Any]]()

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": [(b"host", b"localhost")]}
    asyncio.run(make_app(client.review)(scope, receive, send))
    return sent[0]["status"]


def test_files_are_not_sent_twice(ada: Client) -> None:
    first = ada.http.get("/static/core/api.js")
    assert first.headers["content-type"].startswith("text/javascript")
    again = ada.http.get("/static/core/api.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_files_of_the_page_are_kept_by_the_browser(ada: Client) -> None:
    """They have addresses with the version in them, which the page and the modules use."""
    names = re.findall(r'(?:src|href)="(/static/[^"]+)"', ada.http.get("/findings").text)
    assert len(names) > 30
    (folder,) = {"/".join(name.split("/")[:3]) for name in names}
    assert f"{folder}/core/api.js" in names
    for name in names:
        answer = ada.http.get(name)
        assert answer.status_code == 200, name
        assert "immutable" in answer.headers["cache-control"]
    assert folder != "/static"
    assert ada.http.get(f"/static/{'0' * 32}/core/api.js").headers["cache-control"] == "no-cache"
    assert ada.http.get(f"{folder}/nowhere.js").status_code == 404


@pytest.mark.parametrize("name", ["", "%00", "x" * 101, "a%0Ab", "%20"])
def test_names_of_reviewers(ada: Client, name: str) -> None:
    headers = [(key.encode(), value.encode()) for key, value in ada.headers.items()]
    response = ada.http.post(
        "/api/undo",
        content=b"{}",
        headers=[*headers, (b"content-type", b"application/json"), (b"x-reviewer", name.encode())],
    )
    assert response.status_code == 400
    assert "reviewer" in response.json()["error"]


def test_text_is_sent_as_json_and_never_in_the_page(tmp_path: Path) -> None:
    """Training text can contain HTML."""
    bad = "<script>alert(1)</script>"
    (tmp_path / "train.conll").write_text(f"{bad}\tB-X\n")
    corpus = read_corpus(tmp_path / "train.conll")
    data = TrainingData(corpus, LabelSet.from_sentences(corpus.sentences, "iob2"))
    ada = Client(Review(bad, bad, Decisions(data, Store(tmp_path / "d.sqlite")), tmp_path / "export"))
    for path in ("/", f"/why?sentence={bad}", f"/errors?text={bad}"):
        assert "alert(1)" not in ada.http.get(path).text
    for path in ("/api/project", f"/api/why?sentence={bad}&start=0&stop=1", f"/api/findings?status={bad}"):
        assert ada.http.get(path).headers["content-type"] == "application/json"
    download = ada.http.get("/api/export/data") if ada.post("export") else None
    assert download is not None
    assert download.headers["content-type"] == "application/octet-stream"
    assert download.headers["content-disposition"].startswith("attachment")


@pytest.fixture
def remote(tmp_path: Path) -> Client:
    return Client(light_review(tmp_path), token=TOKEN, cookie="tagtrace-8321")


def test_other_machines_need_the_token(remote: Client) -> None:
    for path in ("/", "/api/project", "/static/core/api.js", "/?token=wrong", "/?token="):
        assert remote.http.get(path, headers={"Host": "box:8321"}).status_code == 401
    assert post(remote, {"Host": "box:8321"}).status_code == 401
    bearer = {"Host": "box:8321", "Authorization": f"Bearer {TOKEN}"}
    assert remote.http.get("/api/project", headers=bearer).status_code == 200
    assert post(remote, bearer).status_code == 201
    assert post(remote, {**bearer, "Origin": "http://evil.example"}).status_code == 403
    assert post(remote, {**bearer, "X-Tagtrace": "wrong"}).status_code == 403


def test_the_token_becomes_a_cookie(remote: Client) -> None:
    response = remote.http.get(f"/findings?rank=3&token={TOKEN}", follow_redirects=False)
    assert response.status_code == 303
    assert response.headers["location"] == "/findings?rank=3"
    cookie = response.headers["set-cookie"]
    assert cookie.startswith("tagtrace-8321=")
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert remote.http.get("/api/project").status_code == 200  # the client keeps it
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert remote.http.get("/findings?rank=3", headers=followed).status_code == 200  # a link in a colleague's message
    assert post(remote, followed).status_code == 403
    elsewhere = remote.http.get(f"//evil.example/?token={TOKEN}", follow_redirects=False)
    assert not elsewhere.headers.get("location", "/").startswith("//")


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.4", "::", "example.org"])
def test_other_addresses_need_a_flag(host: str) -> None:
    with pytest.raises(OptionError, match="allow_remote"):
        check_host(host, allow_remote=False)
    check_host(host, allow_remote=True)


def test_the_address_that_is_printed() -> None:
    with listen("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        assert address(sock, "127.0.0.1", None) == f"http://127.0.0.1:{port}/"
        assert address(sock, "0.0.0.0", "abc") == f"http://{socket.gethostname()}:{port}/?token=abc"
        with pytest.raises(OptionError, match=f"cannot listen at 127.0.0.1:{port}"):
            listen("127.0.0.1", port)
    with listen("127.0.0.1", None) as first, listen("127.0.0.1", None) as second:
        assert first.getsockname()[1] != second.getsockname()[1]
