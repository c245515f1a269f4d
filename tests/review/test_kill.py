"""Killing the server at any moment loses no acknowledged decision: SIGKILL 100 times while decisions are sent."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tagtrace.review import Store
from tests.review.made import light_review

NUM_KILLS = 100
MAX_BETWEEN = 60
"""Maximum number of decisions between two kills, not a time, so that the load of the machine does not matter."""
BULK = 7
ACTIONS = ("accept", "reject", "skip", "reopen")


class Reviewer:
    """Decides as fast as it can. A decision without an answer is sent again, with the same key, to the next server."""

    def __init__(self, name: str, findings: list[dict[str, Any]]) -> None:
        self.name, self.findings = name, findings
        self.headers = {"X-Reviewer": name, "Content-Type": "application/json"}
        self.acknowledged: dict[str, int] = {}
        """Ids by key."""
        self.problems: list[Any] = []
        self.num_retried = 0
        self._numbers = count()
        self._random = random.Random(name)
        self._unsure: tuple[str, dict[str, Any]] | None = None

    def work(self, port: int) -> None:
        """Make decisions until the server is gone."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.request("GET", "/")
            page = re.search(r'name="csrf" content="([^"]+)"', connection.getresponse().read().decode())
            headers = {**self.headers, "X-Tagtrace": page[1] if page else ""}
            while True:
                self.num_retried += self._unsure is not None
                self._unsure = path, body = self._unsure or self._next()
                connection.request("POST", path, json.dumps(body), headers)
                response = connection.getresponse()
                answer = json.loads(response.read())
                if response.status != 201:
                    self.problems.append(answer)
                    return
                self._unsure = None
                bodies = body.get("decisions", [body])
                ids = answer.get("ids") or [answer["id"]]
                self.acknowledged.update(zip([each["key"] for each in bodies], ids, strict=True))
        except (OSError, http.client.HTTPException, ValueError):
            connection.close()

    def _next(self) -> tuple[str, dict[str, Any]]:
        if next(self._numbers) % 5:
            return "/api/decisions", self._decision()
        return "/api/decisions/bulk", {"decisions": [self._decision() for _ in range(BULK)]}

    def _decision(self) -> dict[str, Any]:
        finding = self._random.choice(self.findings)
        return {**finding, "action": self._random.choice(ACTIONS), "key": f"{self.name}-{next(self._numbers)}"}


def num_acknowledged(reviewers: list[Reviewer]) -> int:
    return sum(len(reviewer.acknowledged) for reviewer in reviewers)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="servers are forked")
def test_no_acknowledged_decision_is_lost(tmp_path: Path) -> None:
    review = light_review(tmp_path)
    places = [
        {"rank": one.rank, "sentence_number": one.sentence_number, "start": one.start, "stop": one.stop}
        for one in review.data.findings
    ]
    review.close()
    reviewers = [Reviewer("ada", places), Reviewer("bob", places)]
    rng = random.Random(0)
    command = [sys.executable, "-m", "tests.review.killed_server", str(tmp_path)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as servers:
        assert servers.stdin is not None
        assert servers.stdout is not None
        for _ in range(NUM_KILLS):
            servers.stdin.write("\n")
            servers.stdin.flush()
            process, port = map(int, servers.stdout.readline().split())
            threads = [threading.Thread(target=reviewer.work, args=(port,)) for reviewer in reviewers]
            wanted = num_acknowledged(reviewers) + rng.randrange(MAX_BETWEEN)
            for thread in threads:
                thread.start()
            while num_acknowledged(reviewers) < wanted and any(thread.is_alive() for thread in threads):
                time.sleep(0.001)
            time.sleep(rng.uniform(0.0, 0.01))
            os.kill(process, signal.SIGKILL)
            for thread in threads:
                thread.join()
        servers.stdin.close()
    assert not [reviewer.problems for reviewer in reviewers if reviewer.problems]
    _check(tmp_path, reviewers)


def _check(folder: Path, reviewers: list[Reviewer]) -> None:
    connection = sqlite3.connect(folder / "decisions.sqlite")
    assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    connection.close()
    rows = Store(folder / "decisions.sqlite").after(0)
    found = {row.key: row.id for row in rows}
    assert len(found) == len(rows)
    acknowledged = {key: number for reviewer in reviewers for key, number in reviewer.acknowledged.items()}
    lost = {key for key, number in acknowledged.items() if found.get(key) != number}
    print(f"acknowledged {len(acknowledged)}, found {len(found)}, lost {len(lost)}")
    assert not lost
    unsure = len(reviewers) * BULK  # not answered before the last kill
    assert len(acknowledged) <= len(found) <= len(acknowledged) + unsure
    assert set(Counter(row.batch for row in rows).values()) == {1, BULK}  # all of a bulk, or none
    assert len(acknowledged) > 10 * NUM_KILLS
    assert sum(reviewer.num_retried for reviewer in reviewers) > NUM_KILLS / 2  # kills interrupted requests
