"""Response times of the review page for a project as large as CoNLL-2003: 14,000 sentences and 5,000 findings.

    python benchmarks/review.py --out benchmarks/results/review.json

All data, 200,000 tokens, are invented. Features (D = 768, float16) are rows of a random table, chosen by each token's
hash, and the head is random, because the cost of a request does not depend on their values. Nor does it depend on the
values of the curvature, which is a random positive definite matrix (benchmarks/query.py). The application is served by
uvicorn on this machine, and one client that keeps its connection, as a browser does, requests each route many times
with changing arguments. Times are measured from sending a request until the whole response is read. If Chromium and
selenium are installed, the page is measured too: from the start of a navigation until the first row is painted, and
from a key press until its effect is painted. docs/review.md states the targets.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import torch
import uvicorn

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.query import HashEncoder, RandomMatrix

from tagtrace.data import LabelSet, read_corpus
from tagtrace.findings import Finding, find_patterns, write_findings
from tagtrace.index import IndexOptions, build_index
from tagtrace.influence.curvature.inverse_file import save_inverse
from tagtrace.influence.curvature.solvers import Cholesky
from tagtrace.review import Review, open_review, write_project_file
from tagtrace.review.http.app import make_app
from tagtrace.review.http.serve import configured, listen
from tagtrace.tagger import new_tagger

if TYPE_CHECKING:
    from tests.review.browser import Browser

SENTENCES, DEV_SENTENCES, FINDINGS = 14_000, 400, 5_000
TYPES = ("LOC", "MISC", "ORG", "PER")
LABELS = LabelSet(("O", *(f"{prefix}-{type_}" for type_ in TYPES for prefix in "BI")), "iob2")


def write_data(path: Path, num_sentences: int, seed: int) -> None:
    """Write invented words, frequent and rare as in text: 14.3 tokens per sentence, 15 sentences per document."""
    rng = random.Random(seed)
    lines = list[str]()
    for number in range(num_sentences):
        if number % 15 == 0:
            lines += ["-DOCSTART-\tO", ""]
        left = rng.randint(4, 24)
        while left > 0:
            length = min(rng.choice((1, 1, 2, 3)), left)
            type_ = rng.choice(TYPES) if rng.random() < 0.15 else None
            for t in range(length):
                word = f"word{int(rng.paretovariate(0.8)) % 20_000}"
                label = "O" if type_ is None else f"{'I' if t else 'B'}-{type_}"
                lines.append(f"{word}\t{label}")
            left -= length
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")


def make_review(folder: Path) -> Review:
    """The project, opened as ``tagtrace review`` opens it."""
    write_data(folder / "train.conll", SENTENCES, 0)
    write_data(folder / "dev.conll", DEV_SENTENCES, 1)
    train = read_corpus(folder / "train.conll")
    tagger = new_tagger(HashEncoder(), LABELS)
    tagger.head.set_flat(torch.randn(tagger.head.num_parameters, generator=torch.Generator().manual_seed(1)))
    index = build_index(tagger, train, folder / "index", IndexOptions(refit=False))
    save_inverse(index, 0.0, Cholesky(RandomMatrix(index.head.num_parameters)))
    rng = random.Random(2)
    findings = list[Finding]()
    for rank, number in enumerate(rng.sample(range(SENTENCES), FINDINGS), start=1):
        sentence = train.sentences[number]
        start = rng.randrange(len(sentence))
        given = sentence.labels[start]
        findings.append(Finding(
            rank, sentence.id, sentence.document, number, start, start + 1, sentence.lines[start],
            sentence.tokens[start : start + 1], sentence.tokens[max(start - 8, 0) : start],
            sentence.tokens[start + 1 : start + 9], (given,), ("B-ORG" if given != "B-ORG" else "O",),
            FINDINGS / rank, rng.random(), {"doubt": rng.random(), "out-of-sample doubt": rng.random()},
        ))  # fmt: skip
    patterns, findings = find_patterns(index, findings)
    (folder / "audit").mkdir()
    write_findings(findings, folder / "audit" / "findings.jsonl")
    (folder / "audit" / "patterns.jsonl").write_text("".join(f"{one.to_line()}\n" for one in patterns))
    file = write_project_file(
        folder, index=folder / "index", data=folder / "train.conll", dev=folder / "dev.conll", audit=folder / "audit"
    )
    return open_review(file, "ada", tagger)


class Client:
    """A client that keeps one connection."""

    def __init__(self, port: int, csrf: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.headers = {"X-Tagtrace": csrf, "Content-Type": "application/json"}

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        method, content = ("GET", None) if body is None else ("POST", json.dumps(body))
        self.connection.request(method, path, content, self.headers)
        response = self.connection.getresponse()
        answer = response.read()
        assert response.status < 300, answer
        return answer


def measure(times: int, work: Callable[[int], Any]) -> dict[str, float]:
    """Milliseconds of each of ``times`` calls, and of one call before them."""
    taken = list[float]()
    for number in range(times + 1):
        begin = time.perf_counter()
        work(number)
        taken.append(1000 * (time.perf_counter() - begin))
    return summary(taken)


def summary(taken: Sequence[float]) -> dict[str, float]:
    """The first value, and the median, 95th percentile and largest of the others."""
    first, rest = taken[0], sorted(taken[1:])
    found = {"first": first, "p50": statistics.median(rest), "p95": rest[int(0.95 * len(rest))], "max": rest[-1]}
    return {name: round(value, 1) for name, value in found.items()}


def routes(review: Review, client: Client) -> dict[str, Callable[[int], Any]]:
    """The requests by name; their argument is the number of the request."""
    findings = review.data.findings
    errors = json.loads(client.ask("/api/errors?limit=1000"))["items"]
    words = [one.text for one in findings]
    usual = json.loads(client.ask("/api/project"))["asking"]
    pairs = [name for name, _ in json.loads(client.ask("/api/errors"))["pairs"]]

    def get(path: str, **query: Any) -> Any:
        return client.ask(f"/api/{path}?{urlencode(query)}")

    def decide(number: int) -> Any:
        one = findings[number]
        place = {"rank": one.rank, "sentence_number": one.sentence_number, "start": one.start, "stop": one.stop}
        action = ("accept", "reject", "skip")[number % 3]
        return client.ask("/api/decisions", {**place, "action": action, "key": f"b{number}"})

    def why(number: int, **more: Any) -> Any:
        one = errors[number % len(errors)]
        return get("why", sentence=one["sentence"], start=one["start"], stop=one["stop"], **more)

    def bulk(number: int) -> Any:
        some = findings[50 * number : 50 * number + 50]
        places = [
            {"rank": one.rank, "sentence_number": one.sentence_number, "start": one.start, "stop": one.stop}
            for one in some
        ]
        return client.ask("/api/decisions/bulk", {"decisions": [{**place, "action": "reject"} for place in places]})

    return {
        "GET /": lambda _: client.ask("/"),
        "GET /static/core/api.js": lambda _: client.ask("/static/core/api.js"),
        "GET project": lambda _: get("project"),
        "GET findings, 50": lambda number: get("findings", offset=number * 50, limit=50),
        "GET findings, text": lambda number: get("findings", text=words[number], status="open"),
        "GET findings, 1000": lambda _: get("findings", limit=1000),
        "GET findings/RANK": lambda number: client.ask(f"/api/findings/{number + 1}"),
        "GET patterns": lambda _: get("patterns"),
        "GET errors, 50": lambda number: get("errors", pair=pairs[number % len(pairs)]),
        "GET errors, text": lambda number: get("errors", text=words[number]),
        "GET occurrences": lambda number: get("occurrences", rank=number + 1),
        "GET changes": lambda _: get("changes", since=0),
        "GET history": lambda _: get("history"),
        "POST decisions": decide,
        "POST decisions/bulk, 50": bulk,
        "POST undo": lambda _: client.ask("/api/undo", {}),
        "POST redo": lambda _: client.ask("/api/redo", {}),
        "GET why, cosine, tokens": why,
        "GET why, influence (identity), tokens": lambda number: why(number, score="influence"),
        "GET why, influence (kept Hessian), tokens": lambda number: why(number, score="influence", curvature="auto"),
        "GET why, as the page asks": lambda number: why(number, **usual, wait="false"),
        "GET why, relative (kept Hessian), tokens": lambda number: why(number, score="relative", curvature="auto"),
        "GET why, neighbour, tokens": lambda number: why(number, score="neighbour"),
        "POST export": lambda _: client.ask("/api/export", {}),
    }


WATCH = """
new MutationObserver((_, watcher) => {
  if (!document.querySelector("[role=listbox] [aria-selected=true]")) return;
  watcher.disconnect();
  requestAnimationFrame(() => setTimeout(() => (window.painted = performance.now())));
}).observe(document, {subtree: true, childList: true, attributes: true});
"""
"""Records when the first row is painted, in milliseconds since the navigation began."""

PRESS = """
const [key, shown, done] = arguments, start = performance.now();
const is = () => !shown || document.querySelector(shown);
const look = () => requestAnimationFrame(() => (is() ? setTimeout(() => done(performance.now() - start)) : look()));
document.querySelector("#message").textContent = "";
const event = new KeyboardEvent("keydown", {key, shiftKey: key === "U", bubbles: true, cancelable: true});
(document.activeElement ?? document.body).dispatchEvent(event);
look();
"""
"""Presses a key and waits until the element of a selector is present and painted."""

KEYS = (
    *((view, key, None) for view in ("findings", "errors") for key in ("j", "k", "PageDown", "End", "Home")),
    *(("findings", key, None) for key in ("a", "r", "s", "1", "0", "[", "]", "c", "x")),
    ("findings", "u", "#message:not(:empty)"), ("findings", "U", "#message:not(:empty)"),
    ("findings", "h", "#history:not([hidden])"), ("findings", "n", "#note[open]"), ("findings", "o", "#preview[open]"),
    ("findings", "e", "#export[open]"), ("findings", "?", "#help[open]"),
)  # fmt: skip
"""View, key, and the element that it shows; None if the effect is immediate."""


@contextmanager
def always_teaching(review: Review) -> Iterator[None]:
    """Learn from the decisions again and again inside the block."""
    is_over = threading.Event()

    def work() -> None:
        while not is_over.wait(0.05):
            review.teaching.start()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def measure_page(review: Review, url: str, times: int) -> dict[str, dict[str, float]]:
    """Times of first pages, without and with a cache, and of keys; empty if there is no browser."""
    if find_spec("selenium") is None or shutil.which("chromedriver") is None:
        return {}
    from tests.review.browser import Browser  # noqa: PLC0415

    browser = Browser()
    browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
    try:
        found = {
            f"page {path}, {cache}": _first_pages(browser, f"{url}/{path}", times, is_cached=cache == "cached")
            for path in ("findings", "findings?rank=2500&status=all", "errors")
            for cache in ("not cached", "cached")
        }
        for view, key, shown in KEYS:
            found[f"key {key} in {view}"] = _keys(browser, f"{url}/{view}", key, shown, times)
        with always_teaching(review):
            for key in ("a", "c"):
                found[f"key {key} in findings, while teaching"] = _keys(browser, f"{url}/findings", key, None, times)
        return found
    finally:
        browser.quit()


def _first_pages(browser: Browser, url: str, times: int, *, is_cached: bool) -> dict[str, float]:
    browser.driver.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": not is_cached})
    taken = list[float]()
    for _ in range(times + 1):
        browser.open("about:blank")
        browser.open(url)
        taken.append(browser.wait(lambda: browser.run("return window.painted"), "a row"))
    return summary(taken)


def _keys(browser: Browser, url: str, key: str, shown: str | None, times: int) -> dict[str, float]:
    browser.open(url)
    browser.wait(lambda: browser.run("return window.painted"), "a row")
    taken = list[float]()
    for _ in range(times + 1):
        taken.append(browser.driver.execute_async_script(PRESS, key, shown))
        browser.run("document.querySelector('dialog[open]')?.close()")
        browser.run("document.querySelector('#history').hidden = true")
        time.sleep(0.05)  # nobody types faster
    return summary(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--times", type=int, default=60)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        begin = time.perf_counter()
        review = make_review(Path(name))
        assert review.held is not None
        print(f"made and opened in {time.perf_counter() - begin:.0f} s")
        review.held.wait()
        while review.is_busy:  # preparing for the first question
            time.sleep(0.1)
        print(f"ready after {time.perf_counter() - begin:.0f} s")
        sock = listen("127.0.0.1", 0)
        app = make_app(review)
        server = uvicorn.Server(configured(app))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        client = Client(sock.getsockname()[1], app.guard.csrf)
        counts = json.loads(client.ask("/api/project"))["counts"]
        print(counts)
        found = dict[str, Any]()
        for route, work in routes(review, client).items():
            times = 5 if "export" in route else 20 if "why" in route else arguments.times
            found[route] = measure(times, work)
            print(f"{route:40} {found[route]}", flush=True)
        pages = measure_page(review, f"http://127.0.0.1:{sock.getsockname()[1]}", max(arguments.times // 6, 3))
        for what, figures in pages.items():
            print(f"{what:40} {figures}", flush=True)
        found |= pages
        server.should_exit = True
        thread.join()
    if arguments.out is not None:
        load = [round(number, 2) for number in os.getloadavg()]
        record = {
            "counts": counts, "threads": torch.get_num_threads(), "load_average": load, "milliseconds": found
        }  # fmt: skip
        arguments.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
