"""The review page under load: 50 reviewers decide while 20 others ask why and what-if all the time.

    python benchmarks/load.py --out benchmarks/results/load.json

The project is invented newswire with a small tagger, whose head is at its optimum, as what-ifs need it. It is served by
a process of its own as ``tagtrace review`` serves it. A reviewer decides on a random finding, waits for the
confirmation, pauses for about a second and decides again; whoever asks does so without a pause. Reported are the times
of decisions, from sending one until its whole answer is read, how many were confirmed and how many of those are missing
in the database afterwards, and the server's memory.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))

from tagtrace.review import open_review
from tagtrace.review.http.serve import serve as serve_page
from tests.review.made import make_project

NUM_DOCUMENTS = 300
PATIENCE = 120.0
ACTIONS = ("accept", "reject", "skip", "reopen")


def serve(folder: Path) -> None:
    """Serve the project until SIGINT, once nothing is prepared in the background any more."""
    review = open_review(make_project(folder, NUM_DOCUMENTS), "ada")
    review.the_model().prepare_edits()
    while review.is_busy:
        time.sleep(0.1)
    with suppress(KeyboardInterrupt):
        serve_page(review, port=0, browser=False, say=lambda url: print(url, flush=True))


class Client:
    """A client that keeps one connection, and opens it again when the server has closed it."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
        self.headers = {
            "Authorization": f"Bearer {parse_qs(parts.query)['token'][0]}",
            "Content-Type": "application/json",
        }
        found = re.search(rb'name="csrf" content="([^"]*)"', self.ask("/")[1])
        assert found is not None
        self.headers["X-Tagtrace"] = found[1].decode()

    def ask(self, path: str, body: Any = None) -> tuple[int, bytes]:
        method, content = ("GET", None) if body is None else ("POST", json.dumps(body))
        for is_last in (False, True):
            try:
                self.connection.request(method, path, content, self.headers)
                response = self.connection.getresponse()
                return response.status, response.read()
            except (OSError, http.client.HTTPException):
                self.connection.close()
                if is_last:
                    raise
        raise AssertionError

    def get(self, path: str, **query: Any) -> Any:
        return json.loads(self.ask(f"/api/{path}?{urlencode(query)}")[1])


class Reviewer:
    """Decides, pauses, and decides again."""

    def __init__(self, address: str, name: str, findings: list[dict[str, Any]]) -> None:
        self.client, self.name, self.findings = Client(address), name, findings
        self.client.headers["X-Reviewer"] = name
        self.seconds: list[float] = []
        self.acknowledged: dict[str, int] = {}
        """Ids by key."""
        self.num_failed = 0

    def work(self, end: float, pause: float) -> None:
        rng = random.Random(self.name)
        while time.monotonic() < end:
            time.sleep(pause * rng.uniform(0.5, 1.5))
            key = f"{self.name}-{len(self.seconds)}"
            body = {**rng.choice(self.findings), "action": rng.choice(ACTIONS), "key": key}
            begin = time.perf_counter()
            status, answer = self.client.ask("/api/decisions", body)
            self.seconds.append(time.perf_counter() - begin)
            if status == 201:
                self.acknowledged[key] = json.loads(answer)["id"]
            else:
                self.num_failed += 1


class Asker:
    """Asks why and what-if in turns, without a pause."""

    def __init__(self, address: str, name: str, errors: list[dict[str, Any]]) -> None:
        self.client, self.name, self.errors = Client(address), name, errors
        self.seconds: list[float] = []
        self.statuses: dict[int, int] = {}

    def work(self, end: float) -> None:
        rng = random.Random(self.name)
        while time.monotonic() < end:
            one = rng.choice(self.errors)
            about = {name: one[name] for name in ("sentence", "start", "stop")}
            begin = time.perf_counter()
            if rng.random() < 0.5:
                status, _ = self.client.ask(f"/api/why?{urlencode({**about, 'wait': 'false'})}")
            else:
                edit = {"sentence_number": rng.randrange(1000), "start": 0, "stop": 1, "labels": None}
                status, _ = self.client.ask("/api/what-if", {**about, "edits": [edit]})
            self.seconds.append(time.perf_counter() - begin)
            self.statuses[status] = self.statuses.get(status, 0) + 1
            if status == 503:
                time.sleep(2)  # as the server asks


def figures(seconds: list[float]) -> dict[str, float]:
    """Milliseconds: the median, the 99th percentile and the largest."""
    found = sorted(1000 * one for one in seconds)
    values = {"p50": statistics.median(found), "p99": found[int(0.99 * len(found))], "max": found[-1]}
    return {name: round(value, 1) for name, value in values.items()}


def memory(process: int) -> float | None:
    """MB of a process that are in memory; None where the system does not say."""
    status = Path(f"/proc/{process}/status")
    found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return None if found is None else round(int(found[1]) / 1000, 1)


def num_lost(path: Path, acknowledged: dict[str, int]) -> int:
    """How many decisions that were confirmed are not in the database."""
    with closing(sqlite3.connect(path)) as connection:
        found = dict(connection.execute("select key, id from decision"))
    return sum(found.get(key) != number for key, number in acknowledged.items())


def load(address: str, process: int, arguments: argparse.Namespace) -> tuple[dict[str, Any], dict[str, int]]:
    """What was measured, and the decisions that were confirmed."""
    first = Client(address)
    findings = [
        {name: one[name] for name in ("rank", "sentence_number", "start", "stop")}
        for one in first.get("findings", limit=1000)["items"]
    ]
    errors = first.get("errors", limit=100)["items"]
    reviewers = [Reviewer(address, f"reviewer{number}", findings) for number in range(arguments.reviewers)]
    askers = [Asker(address, f"asker{number}", errors) for number in range(arguments.askers)]
    end = time.monotonic() + arguments.seconds
    threads = [threading.Thread(target=one.work, args=(end, arguments.pause)) for one in reviewers]
    threads += [threading.Thread(target=one.work, args=(end,)) for one in askers]
    for thread in threads:
        thread.start()
    sizes = list[float | None]()
    for part in (0.1, 0.5, 1.0):  # the caches of the first questions belong to the start
        time.sleep(max(end - (1 - part) * arguments.seconds - time.monotonic(), 0))
        sizes.append(memory(process))
    for thread in threads:
        thread.join()
    acknowledged = {key: number for one in reviewers for key, number in one.acknowledged.items()}
    statuses: dict[int, int] = {}
    for one in askers:
        for status, number in one.statuses.items():
            statuses[status] = statuses.get(status, 0) + number
    return {
        "decisions": {
            **figures([one for each in reviewers for one in each.seconds]),
            "acknowledged": len(acknowledged),
            "failed": sum(one.num_failed for one in reviewers),
        },
        "questions": {**figures([one for each in askers for one in each.seconds]), "statuses": statuses},
        "memory_mb": dict(zip(("start", "middle", "end"), sizes, strict=True)),
    }, acknowledged


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--reviewers", type=int, default=50)
    parser.add_argument("--askers", type=int, default=20)
    parser.add_argument("--pause", type=float, default=1.0, help="mean seconds between two decisions of a reviewer")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve is not None:
        serve(arguments.serve)
        return
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, __file__, "--serve", name]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = next((line.strip() for line in server.stdout if line.startswith("http://")), None)
            if address is None:
                raise SystemExit("the server did not start")
            try:
                found, acknowledged = load(address, server.pid, arguments)
            finally:
                server.send_signal(signal.SIGINT)
        found["decisions"]["lost"] = num_lost(Path(name) / "decisions.sqlite", acknowledged)
    settings = {name: getattr(arguments, name) for name in ("seconds", "reviewers", "askers", "pause")}
    loaded = [round(number, 2) for number in os.getloadavg()]
    record = {**settings, "cores": os.cpu_count(), "load_average": loaded, **found}
    print(json.dumps(record, indent=1))
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
