"""A stand-in for the review server: the page's API over invented data, in memory.

``python -m tests.review.fake_server [PORT] [NUM_FINDINGS]`` serves it, to work on the page by hand.
"""

from __future__ import annotations

import json
import secrets
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

STATIC = Path(__file__).parents[2] / "src" / "tagtrace" / "review" / "static"
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
MIME = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
TYPES = ("LOC", "MISC", "ORG", "PER")
HOSTILE = (
    "<script>window.__xss=1</script>",
    "<img src=x onerror=window.__xss=1>",
    "<svg/onload=window.__xss=1>",
    "javascript:window.__xss=1",
    '"><iframe src=http://evil.invalid/></iframe>',
    "'-window.__xss=1-'",
    "{{constructor.constructor('window.__xss=1')()}}",
    "</style></title><script>window.__xss=1</script>",
    "&lt;script&gt;window.__xss=1&lt;/script&gt;",
    "<a href=javascript:window.__xss=1 autofocus onfocus=window.__xss=1>x</a>",
    "\u202egnp.exe",
)
"""Tokens that are markup, to be shown as they are."""

STATUS = {"accept": "accepted", "relabel": "accepted", "reject": "rejected", "skip": "skipped", "reopen": "open"}
Record = dict[str, Any]


def spelled(labels: list[str]) -> str:
    return "+".join(dict.fromkeys(label[2:] for label in labels if label != "O")) or "O"


@dataclass
class Fake:
    """The data and what was decided. ``hostile`` puts markup in every text."""

    num_findings: int = 300
    hostile: bool = False
    csrf: str = field(default_factory=lambda: secrets.token_hex(8))
    rows: list[Record] = field(default_factory=list[Record])
    """Decisions: id, batch, body, undone."""
    refuse: str = ""
    """A line with which every decision is refused."""
    broken: int = 0
    """So many coming POSTs fail after the work is done."""
    is_gone: bool = False
    """Connections that are still open get no answer."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    seen_keys: dict[str, Record] = field(default_factory=dict[str, Record])
    undone: list[int] = field(default_factory=list[int])
    version: int = 0
    changed: list[tuple[int, int | None]] = field(default_factory=list[tuple[int, "int | None"]])
    polls: int = 0
    job: str = ""
    """The kind of the last job."""
    is_ready: bool = True
    """Whether curvatures are worked out: by a job, where not."""
    num_occurrences: int = 3
    num_alike: int = 0
    """So many of them, the first, are findings of the same change."""
    asked: list[str] = field(default_factory=list[str])
    """The addresses of all GETs to the API."""

    def tokens(self, number: int) -> list[str]:
        if self.hostile:
            return [HOSTILE[(number + t) % len(HOSTILE)] for t in range(6)]
        club = ("Northbridge", "Eastmoor", "Calder", "Winnow")[number % 4]
        return [
            "After",
            "a",
            "quiet",
            "spell",
            ",",
            club,
            "United",
            f"beat{number}",
            "Harrow",
            "by",
            "two",
            "goals",
            ".",
        ]

    def name(self, kind: str, number: int) -> str:
        return f"{kind}-{number}" + (HOSTILE[number % len(HOSTILE)] if self.hostile else "")

    def place(self) -> tuple[int, int]:
        return (1, 3) if self.hostile else (5, 7)

    def segment(self, number: int) -> Record:
        tokens, (start, stop) = self.tokens(number), self.place()
        return {
            "sentence_number": number,
            "sentence": self.name("train", number),
            "document": self.name("doc", number // 10),
            "start": start,
            "stop": stop,
            "before": tokens[:start],
            "tokens": tokens[start:stop],
            "after": tokens[stop:],
        }

    def labels(self, number: int) -> list[str]:
        tokens, (start, _) = self.tokens(number), self.place()
        labels = ["O"] * len(tokens)
        labels[start : start + 2] = ["B-LOC", "I-LOC"]
        if len(tokens) > 8:
            labels[8] = "B-PER"
        return labels

    def current(self, rank: int) -> list[Record]:
        return [row for row in self.rows if row["rank"] == rank and not row["undone"]]

    def finding(self, rank: int) -> Record:
        rows = self.current(rank)
        decided = next((row for row in reversed(rows) if row["action"] != "note"), None)
        note = next((row["note"] for row in reversed(rows) if row["note"]), "")
        status = STATUS[decided["action"]] if decided else "open"
        if decided and decided["labels"] == decided["given"]:
            status = "rejected"
        by = {row["reviewer"]: row for row in rows if row["action"] != "note"}
        conflict = len(by) > 1 and len({row["base"] for row in by.values()}) == 1 and len(
            {json.dumps(row["labels"]) for row in by.values()}
        ) > 1  # fmt: skip
        return {
            **self.segment(rank),
            "rank": rank,
            "line": 14 * rank,
            "given": ["B-LOC", "I-LOC"],
            "proposed": ["B-ORG", "I-ORG"] if rank % 5 else ["O", "O"],
            "score": 9.0 / rank,
            "confidence": max(0.05, 0.99 - rank / 1000),
            "scores": {"token loss": 4.5, "fold probability": 0.91},
            "pattern": 1 if rank % 3 == 1 else 2 if rank % 3 == 2 else None,
            "change": "LOC -> ORG" if rank % 5 else "LOC -> O",
            "status": status,
            "decided": None if status == "open" else decided,
            "base": rows[-1]["id"] if rows else None,
            "note": note,
            "conflict": conflict,
        }

    def findings(self, query: Record) -> Record:
        ranks = range(1, self.num_findings + 1)
        status, text = query.get("status", "all"), query.get("text", "").lower()
        found = [self.finding(rank) for rank in ranks]
        found = [
            one
            for one in found
            if (status == "all" or (one["conflict"] if status == "conflict" else one["status"] == status))
            and (not query.get("pattern") or str(one["pattern"]) == query["pattern"])
            and (not query.get("change") or one["change"] == query["change"])
            and text in " ".join([*one["before"], *one["tokens"], *one["after"]]).lower()
            and query.get("document", "") in one["document"]
        ]
        return page(found, query)

    def errors(self, query: Record) -> Record:
        found = []
        for number in range(120):
            segment = self.segment(number) | {"sentence": self.name("dev", number)}
            wrong = "MISC" if number % 4 == 0 else "LOC"
            found.append(
                {
                    **segment,
                    "gold": ["B-ORG", "I-ORG"],
                    "predicted": [f"B-{wrong}", f"I-{wrong}"],
                    "loss": 6.0 - number / 25,
                    "pair": f"ORG:{wrong}",
                }
            )
        pairs = [["ORG:LOC", 90], ["ORG:MISC", 30]]
        least = float(query.get("min_loss") or 0)
        text = query.get("text", "").lower()
        found = [
            one
            for one in found
            if query.get("pair") in (None, one["pair"])
            and one["loss"] >= least
            and text in " ".join([*one["before"], *one["tokens"], *one["after"]]).lower()
        ]
        return {**page(found, query), "pairs": pairs}

    def why(self, query: Record) -> Record:
        if not query.get("sentence", "").startswith(("dev-", "train-")):
            raise ValueError(f"no sentence {query.get('sentence')!r}")
        tokens, start, stop = self.tokens(0), int(query["start"]), int(query["stop"])
        predicted = self.labels(0)
        gold = [label.replace("LOC", "ORG") for label in predicted]
        sides: dict[str, list[Record]] = {"supporters": [], "opposers": []}
        for number in range(int(query.get("top", 20))):
            for side, sign in (("supporters", 1), ("opposers", -1)):
                one = self.segment(2 * number + (sign < 0))
                labels = ["B-LOC", "I-LOC"] if sign > 0 else ["B-ORG", "I-ORG"]
                sides[side].append(
                    {
                        **one,
                        "labels": labels,
                        "score": sign * 0.9 / (number + 1),
                        "decision": None,
                        "rank": None,
                        "base": None,
                    }
                )
        likely = [{"token": t, "label": label, "p": p} for t in range(start, stop)
                  for label, p in (("B-LOC", 0.81), ("B-ORG", 0.17), ("O", 0.0004))]  # fmt: skip
        asked = {
            "sentence": query["sentence"],
            "document": self.name("doc", 0),
            "start": start,
            "stop": stop,
            "tokens": tokens,
            "gold": gold,
            "predicted": predicted,
            "explained": predicted[start:stop],
            "probabilities": likely,
        }
        curvature = query.get("curvature", "identity") if self.is_ready else "identity"
        ready = {"curvature": curvature, "is_ready": self.is_ready, "is_what_if_ready": self.is_ready}
        return {"query": asked, **sides, **ready, "seconds": 0.1234}

    def what_if(self, body: Record, rung: str = "refine") -> Record:
        def at(p: float) -> Record:
            likely = {"B-LOC": p, "B-ORG": 1 - p}
            return {"p": [{"token": body["start"], "label": label, "p": p} for label, p in likely.items()]}

        edits = len(body["edits"]) or 40
        after = 0.35 if rung == "refine" else 0.31
        losses = {"loss_before": 0.21, "loss_after": 1.05}
        return {"edits": edits, "before": at(0.81), "after": at(after), **losses, "rung": rung}

    def decide(self, body: Record, batch: int, reviewer: str = "ada") -> Record:
        with self.lock:
            if body["key"] in self.seen_keys:
                return self.seen_keys[body["key"]]
            self.version += 1
            sentence = self.name("train", body["sentence_number"])
            row = {**body, "id": len(self.rows) + 1, "time": time.time(), "reviewer": reviewer, "batch": batch,
                   "undone": False, "given": ["B-LOC", "I-LOC"], "sentence": sentence}  # fmt: skip
            self.rows.append(row)
            self.undone.clear()
            self.changed.append((self.version, body["rank"]))
            conflict = bool(body["rank"]) and self.finding(body["rank"])["conflict"]
            answer = {"id": row["id"], "version": self.version, "conflict": conflict}
            self.seen_keys[body["key"]] = answer
            return answer

    def step(self, key: str, *, back: bool) -> Record:
        with self.lock:
            if key in self.seen_keys:
                return self.seen_keys[key]
            if back:
                batches = [row["batch"] for row in self.rows if not row["undone"] and row["reviewer"] == "ada"]
            else:
                batches = self.undone[-1:]
            number, ranks = 0, list[int]()
            for row in self.rows:
                if batches and row["batch"] == batches[-1]:
                    row["undone"] = back
                    number += 1
                    self.version += 1
                    self.changed.append((self.version, row["rank"]))
                    ranks += [row["rank"]] if row["rank"] else []
            if batches:
                self.undone.append(batches[-1]) if back else self.undone.pop()
            self.seen_keys[key] = {"undone" if back else "redone": number, "ranks": ranks, "version": self.version}
            return self.seen_keys[key]

    def progress(self, ranks: list[int]) -> Record:
        found = [self.finding(rank)["status"] for rank in ranks]
        return {status: found.count(status) for status in ("open", "accepted", "rejected", "skipped")}

    def get(self, path: str, query: Record) -> Record | list[Record]:
        if path.startswith("findings/"):
            rank = int(path.split("/")[1])
            if not 1 <= rank <= self.num_findings:
                raise ValueError(f"no finding {rank}")
            more = {"sentence_tokens": self.tokens(rank), "sentence_labels": self.labels(rank)}
            return self.finding(rank) | more
        if path.startswith("jobs/"):
            self.polls += 1
            if self.polls < 3:
                return {"state": "running", "progress": [self.polls, 3]}
            if self.job == "prepare":
                self.is_ready = True
                return {"state": "done", "progress": [3, 3], "result": {"curvature": "auto"}}
            return {"state": "done", "progress": [3, 3], "result": self.what_if({"start": 5, "edits": [1]}, "verify")}
        ranks = list(range(1, self.num_findings + 1))
        answers = {
            "project": lambda: {
                "name": self.name("invented newswire", 1) if self.hostile else "invented newswire",
                "reviewer": "ada", "labels": ["O", *(f"{p}-{t}" for t in TYPES for p in "BI")], "types": list(TYPES),
                "scheme": "iob2", "undo": 0, "redo": 0, "conflicts": 0, "note": None,
                "version": self.version, "has": {"errors": True, "findings": True},
                "counts": {"sentences": 900, "tokens": 12_000, "findings": self.num_findings, "patterns": 2,
                           "errors": 120},
                "progress": self.progress(ranks),
                "others": sum(not row["rank"] and not row["undone"] for row in self.rows),
            },
            "errors": lambda: self.errors(query),
            "why": lambda: self.why(query),
            "findings": lambda: self.findings(query),
            "patterns": lambda: {"items": [self.pattern(number, ranks) for number in (1, 2)]},
            "occurrences": lambda: page([
                {**self.segment(number), "labels": ["B-LOC", "I-LOC"], "decision": None, "rank": None, "base": None,
                 "start": int(query["start"]), "stop": int(query["stop"]), "is_alike": number < 900 + self.num_alike}
                for number in range(900, 900 + self.num_occurrences)
            ], query) | {"alike": self.num_alike},
            "history": lambda: {"items": page(self.rows[::-1], query)["items"], "total": len(self.rows)},
            "changes": lambda: {"version": self.version, "ranks": [
                rank for version, rank in self.changed if version > int(query["since"])
            ]},
        }  # fmt: skip
        if path not in answers:
            raise ValueError(f"nothing at {path}")
        with self.lock:
            return answers[path]()

    def pattern(self, number: int, ranks: list[int]) -> Record:
        own = [rank for rank in ranks if rank % 3 == number]
        what = HOSTILE[0] if self.hostile else ("reports that begin with SOCCER", "the text is United")[number - 1]
        effect = {"num_edits": 9, "num_sentences": 200, "num_tokens": 2500, "before": {"loss": 1.31, "num_wrong": 61},
                  "predicted": {"loss": 1.02, "num_wrong": 44}, "verified": None}  # fmt: skip
        return {"number": number, "description": f"{len(own)} segments labelled LOC in {what}; 93 % probably ORG",
                "change": "LOC -> ORG", "segments": len(own), "documents": 12, "confidence": 0.93,
                "effect": effect if number == 1 else None, "progress": self.progress(own)}  # fmt: skip

    def post(self, path: str, body: Record) -> Record:
        if path.startswith("decisions") and self.refuse:
            raise ValueError(self.refuse)
        batch = len(self.rows) + 1
        if path == "decisions":
            return self.decide(body, batch)
        if path == "decisions/bulk":
            return [self.decide(one, batch) for one in body["decisions"]][-1]
        if path in ("undo", "redo"):
            return self.step(body.get("key", secrets.token_hex(4)), back=path == "undo")
        if path == "what-if":
            return self.what_if(body)
        self.polls, self.job = 0, body.get("kind", "")
        return {
            "jobs": {"job": "1"},
            "export": {"files": ["export/train.conll", "export/changes.jsonl"], "changed": 2 * len(self.rows)},
            "import": {"imported": len(body.get("log", "").splitlines()), "skipped": 0},
        }[path]


def page(found: list[Record], query: Record) -> Record:
    offset, limit = int(query.get("offset", 0)), min(int(query.get("limit", 50)), 500)
    return {"total": len(found), "items": found[offset : offset + limit]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: Fake

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path.startswith("/api/"):
            self.fake.asked.append(self.path)
            self.answer(lambda: self.fake.get(url.path[5:], dict(parse_qsl(url.query))))
        elif url.path.startswith("/static/") and (STATIC / url.path.removeprefix("/static/")).is_file():
            self.file(STATIC / url.path.removeprefix("/static/"))
        elif url.path in ("/", "/errors", "/why", "/findings"):
            self.file(STATIC / "index.html")
        else:
            self.reply(404, b"{}", "application/json")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["X-Tagtrace"] != self.fake.csrf:
            self.reply(403, b'{"error": "stale token"}', "application/json")
            return
        self.answer(lambda: self.fake.post(urlsplit(self.path).path[5:], body))

    def file(self, path: Path) -> None:
        content = path.read_bytes()
        if path.suffix == ".html":
            content = content.replace(b"__CSRF__", self.fake.csrf.encode()).replace(b"__TWIN__", b"/api/project")
        self.reply(200, content, f"{MIME[path.suffix]}; charset=utf-8")

    def answer(self, work: Any) -> None:
        if self.fake.is_gone:
            self.close_connection = True
            return
        try:
            status, found = 200, work()
        except ValueError as error:
            status, found = 400, {"error": str(error)}
        if self.fake.broken and self.command == "POST":
            self.fake.broken -= 1
            status, found = 503, {"error": "broke down"}
        self.reply(status, json.dumps(found).encode(), "application/json")

    def reply(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", CSP)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Silence."""


def serve(fake: Fake, port: int = 0) -> ThreadingHTTPServer:
    """A server in a thread of its own; ``shutdown`` and ``server_close`` end it."""
    server = ThreadingHTTPServer(("127.0.0.1", port), type("FakeHandler", (Handler,), {"fake": fake}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return server


if __name__ == "__main__":
    running = serve(
        Fake(int(sys.argv[2]) if len(sys.argv) > 2 else 300), int(sys.argv[1]) if len(sys.argv) > 1 else 8322
    )
    print(f"http://127.0.0.1:{running.server_address[1]}/")
    threading.Event().wait()
