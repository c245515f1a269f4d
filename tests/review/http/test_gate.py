"""The security checks on requests, the headers of responses and the limits on sizes."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import time
from collections.abc import Iterator, MutableMapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from fastapi.testclient import TestClient

from tagtrace._checks import OptionError
from tagtrace.data import LabelSet, read_corpus
from tagtrace.review import Decisions, Review, Store, TrainingData
from tagtrace.review.http.app import make_app
from tagtrace.review.http.bounds import MAX_TOGETHER as MAX_ITEMS
from tagtrace.review.http.gate import MAX_BODY, MAX_IMPORT, MAX_NESTED, MAX_TOGETHER, Gate, Guard
from tagtrace.review.http.serve import address, check_host, listen, serve
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
    old = Client(first).headers
    first.close()
    again = Client(light_review(tmp_path))
    refused(again, post(again, old), 403)
    (new,) = re.findall(r'<meta name="csrf" content="([^"]+)">', again.http.get("/findings").text)
    assert post(again, {"X-Tagtrace": new}).status_code == 201


def test_the_token_of_the_page_is_on_no_disk_and_comes_from_none(tmp_path: Path) -> None:
    review = light_review(tmp_path)
    review.decisions.store.setting("csrf", "known-to-whoever-made-this-file")  # as earlier versions did
    ada = Client(review)
    refused(ada, post(ada, {"X-Tagtrace": "known-to-whoever-made-this-file"}), 403)
    ada.decide(1)
    token = ada.headers["X-Tagtrace"].encode()
    assert not any(token in path.read_bytes() for path in tmp_path.iterdir() if path.is_file())


OTHER = "another project, or another audit of it, is open at this address now; reload the page"


def project_of(client: Client) -> dict[str, str]:
    """The header with the project of a page that is open."""
    (found,) = re.findall(r'<meta name="project" content="([0-9a-f]+)">', client.http.get("/findings").text)
    return {"X-Tagtrace-Project": found}


def test_a_page_of_another_project_decides_nothing(ada: Client, tmp_path: Path) -> None:
    """Its server was stopped, and this one was started at the same address: origin and cookie are the same."""
    own, folder = project_of(ada), tmp_path / "copy"
    assert post(ada, own).status_code == 201
    ada.review.close()
    shutil.copytree(tmp_path, folder)  # with the token of its page
    other = Client(light_review(folder))
    before = other.get("history")
    for path in ("decisions", "decisions/bulk", "undo", "redo", "export", "import", "teach", "jobs"):
        response = post(other, own, f"/api/{path}")
        assert (response.status_code, response.json()["error"]) == (409, OTHER)
        assert [response.headers["x-tagtrace-project"]] == list(project_of(other).values())
    for path in ("/findings", "/api/project", "/api/changes"):  # nor does it learn the token, or show what is here
        assert other.http.get(path, headers=own).status_code == 409
    assert post(other, {**own, "X-Tagtrace": "that of the other project"}).status_code == 409
    assert other.get("history") == before
    assert post(other, project_of(other)).status_code == 201
    other.review.close()


def test_every_answer_names_the_project_to_those_who_have_the_token(ada: Client, tmp_path: Path) -> None:
    """A page then knows the answers of another program that has taken the address of a server that was stopped."""
    own, name = project_of(ada), "X-Tagtrace-Project"
    answers = [ada.http.get(path) for path in ("/", "/static/main.js", "/api/project", "/api/jobs/9", "/nowhere")]
    answers += [post(ada, own), post(ada, own, "/api/decisions", b"{"), post(ada, {"X-Tagtrace": "stale"})]
    answers += [post(ada, own, body=b" " * (MAX_BODY + 1))]
    assert {one.status_code for one in answers} == {200, 201, 400, 403, 404, 413}
    assert all(one.headers[name] == own[name] for one in answers)
    locked = Client(light_review(tmp_path), token="secret")
    for path in ("/", "/static/main.js", "/api/project", "/?token=wrong"):
        assert name not in locked.http.get(path).headers
    assert locked.http.get("/api/project", headers={"Authorization": "Bearer secret"}).headers[name] == own[name]
    locked.review.close()


def test_a_page_of_another_audit_decides_nothing(ada: Client) -> None:
    """The same rank is of another finding by now."""
    own = project_of(ada)
    ada.review.data.audit = "another"
    again = Client(ada.review)
    assert post(again, own).status_code == 409
    assert post(again, project_of(again)).status_code == 201


def test_a_page_outlives_its_database(tmp_path: Path) -> None:
    first = light_review(tmp_path)
    own = project_of(Client(first))
    first.close()
    for path in tmp_path.glob("decisions.sqlite*"):
        path.unlink()
    assert project_of(Client(light_review(tmp_path))) == own


def test_bodies_are_limited(ada: Client) -> None:
    refused(ada, post(ada, {}, body=b" " * (MAX_BODY + 1)), 413)
    refused(ada, post(ada, {}, "/api/import", b" " * (MAX_IMPORT + 1)), 413)

    def parts() -> Iterator[bytes]:
        for _ in range(MAX_BODY // 1000 + 1):
            yield b" " * 1000

    headers = {"Content-Type": "application/json", **ada.headers}
    refused(ada, ada.http.post("/api/decisions", content=parts(), headers=headers), 413)
    assert post(ada, {}, "/api/import", b"\n" * (MAX_BODY + 1)).status_code == 200


@pytest.mark.parametrize("one", [b"[]", b"{}", b'{"a":1}', b"[[]]"])
def test_a_body_has_no_millions_of_objects(ada: Client, one: bytes) -> None:
    """Parsing them kept everybody waiting for seconds; 20,000 decisions with labels are far fewer."""
    refused(ada, post(ada, {}, "/api/decisions/bulk", b'{"x":[%s]}' % b",".join([one] * MAX_NESTED)), 413)
    assert post(ada, {}, "/api/import", json.dumps({"log": "\n[" * (MAX_NESTED + 1)}).encode()).status_code == 400
    assert MAX_NESTED > 2 * 2 * MAX_ITEMS


class Admission:
    """A gate whose application waits, with the statuses and headers of its answers."""

    def __init__(self) -> None:
        self.gate, self.arrived, self.num_read = Gate(self.answer, Guard("csrf")), asyncio.Event(), 0

    async def answer(self, _: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def post(self, path: str, **more: str) -> tuple[int, list[tuple[bytes, bytes]]]:
        sent = list[MutableMapping[str, Any]]()

        async def receive() -> MutableMapping[str, Any]:
            self.num_read += 1
            await self.arrived.wait()
            return {"type": "http.request", "body": b"{}"}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        named = {"host": "localhost", "x-tagtrace": "csrf", "content-type": "application/json", **more}
        headers = [(key.replace("_", "-").encode(), value.encode()) for key, value in named.items()]
        await self.gate({"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers},
                        receive, send)  # fmt: skip
        return sent[0]["status"], sent[0]["headers"]


@pytest.mark.parametrize("more", [{"content_length": str(MAX_IMPORT)}, {"transfer_encoding": "chunked"}])
def test_bodies_are_limited_together_before_they_are_read(more: dict[str, str]) -> None:
    async def told() -> None:
        server, most = Admission(), MAX_TOGETHER // MAX_IMPORT
        begun = [asyncio.create_task(server.post("/api/import", **more)) for _ in range(most)]
        await asyncio.sleep(0)
        assert server.num_read == most
        status, headers = await server.post("/api/import", **more)
        assert (status, server.num_read) == (503, most)
        assert (b"retry-after", b"2") in headers
        server.arrived.set()
        assert (await server.post("/api/decisions", content_length="2"))[0] == 200  # has room of its own
        assert [(await one)[0] for one in begun] == [200] * most
        assert (await server.post("/api/import", **more))[0] == 200

    asyncio.run(told())


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


BEARER = {"Authorization": f"Bearer {TOKEN}"}
BROWSER = {"Accept": "text/html,*/*;q=0.8", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.fixture(params=[False, True], ids=["loopback", "remote"])
def locked(tmp_path: Path, request: pytest.FixtureRequest) -> Client:
    return Client(light_review(tmp_path), token=TOKEN, cookie="tagtrace-8321", is_remote=request.param)


def test_everybody_needs_the_token(locked: Client) -> None:
    """Other users of this machine can reach 127.0.0.1 as its owner does."""
    for path in (
        "/",
        "/findings",
        "/api/project",
        "/static/core/api.js",
        "/?token=wrong",
        "/?token=",
        "/api/openapi.json",
    ):
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Cookie": "tagtrace-8321=wrong"},
            {"Cookie": ";=;"},
        ):
            response = locked.http.get(path, headers=headers)
            assert response.status_code == 401
            assert locked.headers["X-Tagtrace"] not in response.text
    assert post(locked, {}).status_code == 401
    assert locked.http.get("/api/project", headers=BEARER).status_code == 200
    assert post(locked, BEARER).status_code == 201
    assert post(locked, {**BEARER, "Origin": "http://evil.example"}).status_code == 403
    assert post(locked, {**BEARER, "X-Tagtrace": "wrong"}).status_code == 403


def test_only_a_remote_server_answers_to_any_name(tmp_path: Path) -> None:
    review = light_review(tmp_path)
    for is_remote, status in ((False, 421), (True, 200)):
        client = Client(review, token=TOKEN, is_remote=is_remote)
        assert client.http.get("/api/project", headers={"Host": "box:8321", **BEARER}).status_code == status


def test_a_browser_without_the_token_gets_one_plain_page(locked: Client) -> None:
    response = locked.http.get("/findings?rank=3", headers={**BROWSER, "Sec-Fetch-Site": "none"})
    assert response.status_code == 401
    assert "Open the address that the server printed" in response.text
    assert "csrf" not in response.text


def test_the_token_becomes_a_cookie(locked: Client) -> None:
    response = locked.http.get(f"/findings?rank=3&token={TOKEN}")
    assert response.status_code == 200
    assert 'content="0; url=/findings?rank=3"' in response.text
    assert TOKEN not in response.text
    cookie = response.headers["set-cookie"]
    assert cookie == f"tagtrace-8321={TOKEN}; Path=/; HttpOnly; SameSite=Strict"
    assert locked.http.get("/api/project").status_code == 200  # the client keeps it
    followed = {**BROWSER, "Sec-Fetch-Site": "cross-site"}
    assert post(locked, followed).status_code == 403
    elsewhere = locked.http.get(f"//evil.example/?token={TOKEN}&x=<'\"")
    assert "//evil" not in elsewhere.text
    assert "<'" not in elsewhere.text


NAMED = f"tagtrace-8321={TOKEN}"


@pytest.mark.parametrize("cookie", [NAMED, f"a=1;{NAMED};b", f"tagtrace-8321=old; {NAMED}", f'x="; {NAMED}'])
def test_the_cookie_is_found_among_others(locked: Client, cookie: str) -> None:
    """Those of other ports of this machine come with it, and a page there can set one of the same name."""
    assert locked.http.get("/api/project", headers={"Cookie": cookie}).status_code == 200


@pytest.mark.parametrize("cookie", [f'tagtrace-8321="{TOKEN}"', f"x{NAMED}", f"a={NAMED}"])
def test_what_is_almost_the_cookie_is_not(locked: Client, cookie: str) -> None:
    assert locked.http.get("/api/project", headers={"Cookie": cookie}).status_code == 401


@pytest.mark.parametrize("cookie", ['tagtrace-8321="%s"' % (r"\"" * 100_000), "tagtrace-8321=;" * 20_000])
def test_a_long_cookie_is_read_at_once(locked: Client, cookie: str) -> None:
    """Whoever has no token must not keep the others waiting: with ``http.cookies`` this took a minute."""
    begin = time.monotonic()
    assert locked.http.get("/api/project", headers={"Cookie": cookie}).status_code == 401
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("target", ["?" + "a&" * 30_000, "?token=%ff" + "&" * 60_000, f"?x={'%ff' * 3000}", "x" * 9000])
def test_a_long_address_is_not_parsed(locked: Client, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """Whoever has no token must not keep the others waiting; a reviewer's filters may be long."""

    def fails(*_: Any) -> None:
        raise AssertionError("the address is parsed")

    for name in ("parse_qsl", "quote", "going_on"):
        monkeypatch.setattr(f"tagtrace.review.http.gate.{name}", fails)
    link = {**BROWSER, "Sec-Fetch-Site": "cross-site"}
    assert [locked.http.get(f"/{target}", headers=more).status_code for more in ({}, BROWSER, link)] == [414] * 3
    assert locked.http.get(f"/{target}", headers=BEARER).status_code in (200, 404)


@pytest.mark.parametrize("query", ["a=token=%s", "tokens=%s", "token=&token=%s", "x%%26token=%s", "token=%s%%20"])
def test_what_is_almost_the_token_is_not(locked: Client, query: str) -> None:
    assert locked.http.get("/api/project?" + query % TOKEN).status_code == 401


ELSEWHERE = (
    "/%09/evil.example/x", "/%0a/evil.example", "/%0d%09%5cevil.example/", "/%5c%5cevil.example", "//evil.example",
    "/%2f%2fevil.example", "/%00/evil.example", "/x%22%3e%3cscript%3e", "/%e2%80%a8/evil.example", "/%ff//evil.example",
)  # fmt: skip


@pytest.mark.parametrize("path", ELSEWHERE)
def test_no_address_goes_on_to_another_host(locked: Client, path: str) -> None:
    """Browsers leave out tabs and line ends, take backslashes for slashes, and two slashes begin a host."""
    link = {**BROWSER, "Sec-Fetch-Site": "cross-site"}
    for response in (locked.http.get(path, headers=link), locked.http.get(f"{path}?token={TOKEN}")):
        assert response.status_code == 200
        for pattern in ('content="0; url=([^"]*)"', 'href="([^"]*)"'):
            (found,) = re.findall(pattern, response.text)
            assert re.fullmatch(r"/([\w.~%-][\w.~%/-]*)?", found, re.ASCII), found


def test_a_link_in_a_colleagues_message_works(locked: Client) -> None:
    """A browser sends the cookie with the next request, which our own page asks for."""
    response = locked.http.get("/findings?rank=3", headers={**BROWSER, "Sec-Fetch-Site": "cross-site"})
    assert 'content="0; url=/findings?rank=3"' in response.text
    assert "set-cookie" not in response.headers


def test_a_length_given_in_two_ways_is_refused(ada: Client) -> None:
    headers = {"Content-Length": "2", "Transfer-Encoding": "chunked", "Content-Type": "application/json"}
    for method in ("POST", "GET"):
        response = ada.http.request(method, "/api/undo", content=b"{}", headers={**ada.headers, **headers})
        assert response.status_code == 400
        assert "both Content-Length and Transfer-Encoding" in response.json()["error"]
        assert response.headers["connection"] == "close"


def test_a_server_always_has_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said, and opened through a page that only this user can read: all users see a browser's arguments."""
    said, opened, seen = list[str](), list[str](), list[Any]()

    class Server:
        def __init__(self, config: Any) -> None:
            seen.append(config.app)

        def run(self, sockets: list[socket.socket]) -> None:
            sockets[0].close()
            while not opened:
                time.sleep(0.01)

    def open_page(address: str) -> None:
        path = Path(unquote(urlsplit(address).path))
        assert path.parent.stat().st_mode & 0o077 == 0
        opened.append(path.read_text())

    monkeypatch.setattr("uvicorn.Server", Server)
    monkeypatch.setattr("webbrowser.open", open_page)
    serve(light_review(tmp_path), port=0, say=said.append)
    (token,) = parse_qs(urlsplit(said[0]).query)["token"]
    assert len(token) > 30
    assert f'url={said[0]}"' in opened[0]
    http = TestClient(seen[0], base_url="http://127.0.0.1")
    assert http.get("/api/project").status_code == 401
    assert http.get("/api/project", headers={"Authorization": f"Bearer {token}"}).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.4", "::", "example.org"])
def test_other_addresses_need_a_flag(host: str) -> None:
    with pytest.raises(OptionError, match="allow_remote"):
        check_host(host, allow_remote=False)
    check_host(host, allow_remote=True)


def test_the_address_that_is_printed() -> None:
    with listen("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        assert address(sock, "abc") == f"http://127.0.0.1:{port}/?token=abc"
        with pytest.raises(OptionError, match=f"cannot listen at 127.0.0.1:{port}"):
            listen("127.0.0.1", port)
    with listen("127.0.0.1", None) as first, listen("127.0.0.1", None) as second:
        assert first.getsockname()[1] != second.getsockname()[1]


def numeric(host: str) -> str:
    """The host in the address that is printed for a server at ``host``."""
    with listen(host, 0) as sock:
        found = urlsplit(address(sock, "abc"))
        assert found.port == sock.getsockname()[1]
        return str(ip_address(found.hostname or ""))


def test_the_address_has_no_name_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """``localhost`` is ``::1`` too, where somebody else may listen and be given the token."""
    assert numeric("localhost") == "127.0.0.1"
    assert not ip_address(numeric("0.0.0.0")).is_unspecified

    def alone(*_: Any) -> socket.socket:
        raise OSError("Network is unreachable")

    with listen("0.0.0.0", 0) as sock:
        monkeypatch.setattr("socket.socket.connect", alone)
        assert address(sock, "abc").startswith("http://127.0.0.1:")


@pytest.mark.skipif(not socket.has_ipv6, reason="this system has no IPv6")
def test_an_address_of_ipv6_has_brackets() -> None:
    with socket.socket(socket.AF_INET6) as sock:
        try:
            sock.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        assert address(sock, "abc") == f"http://[::1]:{sock.getsockname()[1]}/?token=abc"


def test_a_name_that_stands_for_another_address_needs_a_flag(tmp_path: Path) -> None:
    with listen("0.0.0.0", 0) as elsewhere, pytest.raises(OptionError, match="allow_remote"):
        serve(light_review(tmp_path), "localhost", browser=False, listening=elsewhere)


def test_ctrl_c_while_the_server_starts_ends_it() -> None:
    """It cancels what waits for the end of the server: the application shuts down, and nothing is raised."""
    received = list[str]()

    async def app(_: Any, receive: Any, send: Any) -> None:
        for _ in range(2):
            message = await receive()
            received.append(message["type"])
            await send({"type": f"{message['type']}.complete"})

    async def start_and_cancel() -> list[str]:
        sent, messages = list[str](), asyncio.Queue[MutableMapping[str, Any]]()

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message["type"])

        await messages.put({"type": "lifespan.startup"})
        running = asyncio.create_task(Gate(app, Guard("csrf"))({"type": "lifespan"}, messages.get, send))
        while not sent:
            await asyncio.sleep(0)
        running.cancel()
        await running
        return sent

    assert asyncio.run(start_and_cancel()) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert received == ["lifespan.startup", "lifespan.shutdown"]
