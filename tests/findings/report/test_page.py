"""The report is one whole, escaped, self-contained page, and its charts show the numbers they were given."""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise
from math import log10
from pathlib import Path

import numpy as np
import pytest
import torch

from tagtrace._checks import DataError
from tagtrace.data.invented import generate
from tagtrace.findings.finding import Finding
from tagtrace.findings.ranking.truth import measure
from tagtrace.findings.report.charts import HEIGHT, LEFT, RIGHT, WIDTH, Bins, even_ticks, histogram, recall_curves
from tagtrace.findings.report.page import MAX_FINDINGS, Report, render_report, write_report

MINUS = "\N{MINUS SIGN}"
VOID = {"meta", "input", "br", "hr", "img", "link"}

NASTY = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "</style><img src=x onerror=alert(3)>",
    '"><svg onload=alert(4)>',
    "' onmouseover='alert(5)",
    "<!--",
    "]]>",
    "&lt;b&gt;",
    "&#60;script&#62;",
    "javascript:alert(6)",
    "</title><h1>x",
    "\x00\x1b[31m\ud800",
    "\u202egnp.exe",
    "{{7*7}}${7*7}",
)


@dataclass
class Node:
    tag: str
    attributes: dict[str, str | None]
    children: list[Node | str] = field(default_factory=list)

    def all(self, tag: str | None = None, kind: str | None = None) -> list[Node]:
        found: list[Node] = []
        for child in self.children:
            if isinstance(child, Node):
                if tag in (None, child.tag) and (kind is None or kind in (child.attributes.get("class") or "").split()):
                    found.append(child)
                found += child.all(tag, kind)
        return found

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def one(self, tag: str | None = None, kind: str | None = None) -> Node:
        (found,) = self.all(tag, kind)
        return found

    def by_id(self, name: str) -> Node:
        (found,) = [node for node in self.all() if node.attributes.get("id") == name]
        return found


class Parser(HTMLParser):
    """A tree; fails where an end tag does not close the last start tag."""

    def __init__(self) -> None:
        super().__init__()
        self.open = [Node("page", {})]
        self.num_comments = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"{tag}: {attrs}"
        node = Node(tag, dict(attrs))
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag, f"</{tag}> after {self.open[-1].tag}"

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:  # noqa: ARG002
        self.num_comments += 1


def parse(page: str) -> Node:
    assert page.startswith("<!DOCTYPE html>\n<html lang=")
    parser = Parser()
    parser.feed(page)
    parser.close()
    assert [node.tag for node in parser.open] == ["page"], "everything is closed"
    assert parser.num_comments == 0
    check(parser.open[0], page)
    return parser.open[0]


def check(root: Node, page: str) -> None:
    """What is true of every report."""
    nodes = root.all()
    ids = [node.attributes["id"] for node in nodes if "id" in node.attributes]
    assert not [name for name, count in Counter(ids).items() if count > 1]
    for node in nodes:
        for name in ("aria-labelledby", "aria-describedby", "for"):
            assert node.attributes.get(name) is None or node.attributes[name] in ids
        assert not [name for name in node.attributes if name.startswith("on") or name in ("style", "src", "action")]
        href = node.attributes.get("href")
        assert href is None or (href[:1] == "#" and href[1:] in ids), href
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert not {"link", "img", "iframe", "object", "embed", "base"} & {node.tag for node in nodes}
    assert len(root.all("script")) <= 1
    assert len(root.all("h1")) == len(root.all("main")) == len(root.all("style")) == len(root.all("header")) == 1
    for table in root.all("table"):
        assert table.one("caption").text.strip()
        assert all(head.attributes.get("scope") in ("row", "col") for head in table.all("th"))
        width = len(table.one("thead").all("th"))
        assert all(len(row.all("th")) + len(row.all("td")) == width for row in table.one("tbody").all("tr"))
    for svg in root.all("svg"):
        assert svg.attributes["role"] == "img"
        assert [child.tag for child in svg.children[:2] if isinstance(child, Node)] == ["title", "desc"]
    headings = [int(node.tag[1]) for node in nodes if re.fullmatch("h[1-6]", node.tag)]
    assert all(b <= a + 1 for a, b in pairwise(headings)), "no level is left out"


@dataclass(frozen=True)
class Fit:
    loss: float
    num_wrong: int


@dataclass(frozen=True)
class Effect:
    before: Fit
    predicted: Fit
    verified: Fit | None
    loss_interval: tuple[float, float] | None
    wrong_interval: tuple[float, float] | None
    verdict: str


@dataclass(frozen=True)
class Pattern:
    number: int
    description: str
    change: str
    forms: Sequence[tuple[str, int]]
    documents: Sequence[str]
    findings: Sequence[int]
    confidence: float
    effect: Effect | None


def invented_findings() -> list[Finding]:
    made = generate(seed=1, num_documents=40)
    sentences = {sentence.id: (number, sentence) for number, sentence in enumerate(made.train)}
    found: list[Finding] = []
    for rank, error in enumerate(made.errors, start=1):
        sentence_number, one = sentences[error.sentence]
        before, after = one.tokens[max(0, error.start - 5) : error.start], one.tokens[error.stop : error.stop + 5]
        finding = Finding(
            rank, error.sentence, error.document, sentence_number, error.start, error.stop, error.row + 1, error.tokens,
            before, after, error.planted_labels, error.true_labels, 10 / rank, 0.9, {"loss": 1.25},
            1 if error.kind == "systematic" else None,
        )  # fmt: skip
        found.append(finding)
    return found


def make_report(**changes: object) -> Report:
    findings = invented_findings()
    ranks = [one.rank for one in findings if one.pattern == 1]
    texts = Counter(findings[rank - 1].text for rank in ranks)
    effect = Effect(Fit(0.5, 30), Fit(0.25, 12), None, (-0.5, 0.125), None, "no clear difference")
    generator = torch.Generator().manual_seed(0)
    scores, wrong = torch.rand(3000, generator=generator), torch.rand(3000, generator=generator) < 0.02
    report = Report(
        "Audit of train.conll",
        "my-index",
        {"findings": len(findings), "ranking": "combined", "share": 0.125},
        10 * scores,
        findings,
        [Pattern(1, "LOC that is ORG", "LOC -> ORG", texts.most_common(), ["train-1", "train-2"], ranks, 0.8, effect)],
        [measure("combined", scores + wrong, wrong), measure("loss", scores, wrong)],
        {1: ["dev-1:3 token 4: gold ORG, predicted LOC"]},
    )
    return replace(report, **changes)  # type: ignore[arg-type]


def test_a_whole_report(tmp_path: Path) -> None:
    report = make_report()
    write_report(tmp_path / "report.html", report)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page == render_report(report) == render_report(make_report()), "the same each time"
    root = parse(page)
    sections = [node.attributes["id"] for node in root.all("section")]
    assert sections == ["summary", "patterns", "pairs", "scores", "recall", "findings"]
    assert [link.attributes["href"] for link in root.one("nav").all("a")] == [f"#{name}" for name in sections]
    summary = root.by_id("summary")
    assert [node.text for node in summary.all("dd")] == [f"{len(report.findings)}", "combined", "0.125"]
    assert len(root.all("li", "finding")) == len(report.findings)


def test_a_finding_shows_its_text_its_place_and_both_labels() -> None:
    report = make_report()
    root = parse(render_report(report))
    for one in report.findings:
        shown = root.by_id(f"finding-{one.rank}")
        assert shown.one("mark").text == one.text
        context = " ".join((*one.before, one.text, *one.after))
        assert shown.one("p", "context").text.removeprefix("… ") == context
        rows = [[cell.text for cell in row.all()] for row in shown.one("table", "diff").one("tbody").all("tr")]
        assert rows == [
            [token, f"= {given}", f"= {proposed}"]
            if given == proposed
            else [token, f"{MINUS} {given}", f"+ {proposed}"]
            for token, given, proposed in zip(one.tokens, one.given, one.proposed, strict=True)
        ]
        facts = shown.one("p", "facts").text
        assert f"score {one.score:.4g}" in facts
        assert "confidence 90 %" in facts
        assert f"line {one.line} " in facts
        assert ("pattern 1" in facts) == (one.pattern == 1)
        assert shown.attributes["data-change"] == one.change
    details = root.by_id("finding-1").one("details").text
    assert "dev-1:3 token 4: gold ORG, predicted LOC" in details
    assert "loss1.25" in details


def test_a_pattern_shows_its_forms_documents_findings_and_effect() -> None:
    report = make_report()
    shown = parse(render_report(report)).by_id("pattern-1")
    assert shown.tag == "details"
    assert "open" in shown.attributes
    cells = [[cell.text for cell in row.all("td")] for row in shown.one("tbody").all("tr")]
    assert cells == [["0.5", "0.25", "not known", "-0.5 to +0.125"], ["30", "12", "not known", "not known"]]
    assert shown.one("caption").text == "Effect of fixing pattern 1: no clear difference"
    forms, documents, findings = shown.all("ul")
    form, count = report.patterns[0].forms[0]
    assert forms.all("li")[0].text == f"{form} ({count})"
    assert [node.text for node in documents.all("li")] == ["train-1", "train-2"]
    ranks = report.patterns[0].findings
    assert findings.all("a")[0].attributes["href"] == f"#finding-{ranks[0]}"
    assert len(ranks) > 24
    assert findings.all("li")[-1].text == f"and {len(ranks) - 24} more"


def test_label_pairs_are_counted() -> None:
    report = make_report()
    table = parse(render_report(report)).one("table", "matrix")
    columns = [head.text for head in table.one("thead").all("th")][1:-1]
    counts = Counter(one.change for one in report.findings)
    assert columns == sorted(columns, key=lambda name: (name == "O", name))
    total = 0
    for row in table.one("tbody").all("tr"):
        given, cells = row.one("th").text, [int(cell.text) for cell in row.all("td")]
        assert cells == [*(counts[f"{given} -> {column}"] for column in columns), sum(cells[:-1])]
        total += cells[-1]
    assert total == len(report.findings)
    inner = [cell for row in table.one("tbody").all("tr") for cell in row.all("td")[:-1]]
    shades = {int(cell.text): cell.attributes.get("class") for cell in inner}
    assert shades[max(counts.values())] == "shade-4"
    assert shades[1] == "shade-1"


def test_rare_types_share_a_row_and_a_column() -> None:
    (first, *_) = invented_findings()
    types = [f"T{number:02}" for number in range(30)]
    found = [
        replace(
            first,
            rank=rank,
            start=0,
            stop=1,
            tokens=("x",),
            given=(f"B-{types[rank % 30]}",),
            proposed=(f"B-{types[rank % 7]}",),
        )
        for rank in range(1, 200)
    ]
    root = parse(render_report(make_report(findings=found, patterns=())))
    rows = root.one("table", "matrix").one("tbody").all("tr")
    names = [row.one("th").text for row in rows]
    assert names == [*sorted(names[:-1]), "others"]
    assert len(rows) == 13
    assert sum(int(row.all("td")[-1].text) for row in rows) == 199


@pytest.mark.parametrize(
    "changes",
    [
        {"findings": (), "patterns": (), "truth": (), "evidence": {}},
        {"patterns": ()},
        {"truth": ()},
        {"findings": ()},
        {"scores": torch.zeros(0)},
        {"scores": np.full(7, 2.5, dtype=np.float32)},
        {"scores": torch.tensor([0.0, torch.inf, 1.0, -torch.inf])},
        {"truth": [measure("none", torch.rand(9), torch.zeros(9, dtype=torch.bool))]},
        {"summary": {}},
        {"threshold": -5.0},
        {"threshold": 1e9},
    ],
    ids=["bare", "no-patterns", "no-truth", "no-findings", "no-scores", "one-score", "infinite", "none-wrong",
         "no-summary", "low-threshold", "high-threshold"],
)  # fmt: skip
def test_parts_may_be_missing(changes: dict[str, object]) -> None:
    report = make_report(**changes)
    root = parse(render_report(report))
    text = root.text
    assert ("No label is suspicious enough" in text) == (not report.findings)
    assert ("No systematic pattern was found" in text) == (not report.patterns)
    assert any(node.attributes.get("id") == "recall" for node in root.all()) == bool(report.truth)
    assert len(root.all("script")) == bool(report.findings)


def test_only_the_first_findings_are_listed() -> None:
    (first, *_) = invented_findings()
    found = [replace(first, rank=rank, pattern=1) for rank in range(1, MAX_FINDINGS + 251)]
    pattern = Pattern(1, "all", "A -> B", (), (), [3, MAX_FINDINGS + 7], 1.0, None)
    root = parse(render_report(make_report(findings=found, patterns=[pattern])))
    assert len(root.all("li", "finding")) == MAX_FINDINGS
    assert "The other 250 are in the JSON lines and CSV files of this audit." in root.by_id("findings").text
    assert root.one("table", "matrix").all("td")[-1].text == f"{MAX_FINDINGS + 250}"
    (links,) = root.by_id("pattern-1").all("ul")
    assert [node.text for node in links.all("li")] == [f"#3 {first.text}", "and 1 more"]


@pytest.mark.parametrize("nasty", NASTY, ids=[f"nasty-{number}" for number in range(len(NASTY))])
def test_text_stays_text(nasty: str) -> None:
    (first, *_) = invented_findings()
    one = replace(
        first, start=0, stop=1, tokens=(nasty,), before=(nasty,), after=(nasty,), document=nasty, sentence=nasty,
        given=("O",), proposed=(f"B-{nasty}",), scores={nasty: 1.0}, pattern=1,
    )  # fmt: skip
    pattern = Pattern(1, nasty, f"O -> {nasty}", [(nasty, 3)], [nasty], [1], 0.5, None)
    truth = [measure(nasty, torch.rand(50), torch.arange(50) < 5)]
    page = render_report(Report(nasty, nasty, {nasty: nasty}, torch.rand(50), [one], [pattern], truth, {1: [nasty]}))
    root, plain = parse(page), parse(render_report(make_report(findings=[replace(one, **_harmless())])))
    assert {node.tag for node in root.all()} <= {node.tag for node in plain.all()}
    seen = re.sub("[\x00-\x1f\ud800]", "\ufffd", nasty)
    finding = root.by_id("finding-1")
    assert finding.one("mark").text == seen
    assert finding.one("p", "context").text.endswith(f"{seen} {seen} {seen}")
    assert root.one("header").one("h1").text == seen
    assert root.by_id("pattern-1").one("h3").text == f"1. {seen}"
    assert finding.attributes["data-change"] == f"O -> {seen}"
    (script,) = root.all("script")
    assert script.text == _file("report.js")
    page.encode("utf-8")


def _harmless() -> dict[str, object]:
    word = "word"
    return {"tokens": (word,), "before": (word,), "after": (word,), "document": word, "sentence": word,
            "proposed": ("B-X",), "scores": {word: 1.0}}  # fmt: skip


def _file(name: str) -> str:
    import tagtrace.findings.report.page as module  # noqa: PLC0415

    return (Path(module.__file__).parent / name).read_text(encoding="utf-8")


def test_the_policy_allows_only_what_the_page_holds() -> None:
    root = parse(render_report(make_report()))
    (policy,) = [node.attributes["content"] for node in root.all("meta") if "http-equiv" in node.attributes]
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for kind, tag in (("style-src", "style"), ("script-src", "script")):
        digest = b64encode(sha256(root.one(tag).text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy


def test_the_script_finds_every_part_that_it_asks_for() -> None:
    root = parse(render_report(make_report()))
    script = root.one("script").text
    ids = set(re.findall(r'byId\("([\w-]+)"\)', script)) | {"filter-text", "filter-change", "filter-pattern"}
    assert {"help", "filter", "num-shown", "use-keys", "clear-filter", "show-help", "findings"} <= ids
    for name in ids:
        root.by_id(name)
    assert "hidden" in root.by_id("filter").attributes, "of no use without the script"
    changes = {node.attributes["data-only-change"] for node in root.all("a") if "data-only-change" in node.attributes}
    assert changes == {node.attributes["data-change"] for node in root.all("li", "finding")}
    assert changes < {node.attributes["value"] for node in root.by_id("filter-change").all("option")}


def bars(chart: str) -> list[Node]:
    parser = Parser()
    parser.feed(chart)
    return parser.open[0].all("rect")


def test_bars_are_as_high_as_their_counts() -> None:
    generator = np.random.default_rng(0)
    values = np.concatenate([generator.exponential(1.0, 4000), [9.0, 9.5, 12.0]])
    drawn = bars(histogram(Bins.of(values, 24), 5.0, "title", "text", "name"))
    width, most = values.max() - values.min(), 0
    counts: list[int] = []
    for number in range(24):
        low = values.min() + width * number / 24
        high = values.min() + width * (number + 1) / 24
        counts.append(int(((values >= low) & ((values < high) | (number == 23))).sum()))
        most = max(most, counts[-1])
    assert len(drawn) == sum(count > 0 for count in counts) < 24
    tallest = max(float(bar.attributes["height"] or 0) for bar in drawn)
    kept = [(number, count) for number, count in enumerate(counts) if count]
    for bar, (number, count) in zip(drawn, kept, strict=True):
        height, x = float(bar.attributes["height"] or 0), float(bar.attributes["x"] or 0)
        assert height == pytest.approx(tallest * log10(1 + count) / log10(1 + most), abs=0.011)
        assert height + float(bar.attributes["y"] or 0) == pytest.approx(HEIGHT - 44, abs=0.011)
        assert x == pytest.approx(LEFT + (WIDTH - LEFT - RIGHT) * number / 24, abs=0.011)
        assert f": {count:,} token" in bar.one("title").text
        is_found = values.min() + width * (number + 1) / 24 > 5.0
        assert bar.attributes["class"] == ("bar found" if is_found else "bar")
    line = re.search(r'<line class="threshold" x1="([\d.]+)"', histogram(Bins.of(values, 24), 5.0, "t", "d", "n"))
    assert line is not None
    place = LEFT + (WIDTH - LEFT - RIGHT) * (5.0 - values.min()) / width
    assert float(line[1]) == pytest.approx(place, abs=0.011)


def test_curves_go_through_their_points() -> None:
    points = [(1, 0.0), (10, 0.25), (1000, 1.0)]
    chart = recall_curves([("one", points), ("two", [(1, 0.5), (1000, 1.0)])], 1000, "t", "d", "n")
    found = re.findall(r'<polyline class="curve curve-\d" points="([^"]+)"', chart)
    drawn = [[tuple(map(float, point.split(","))) for point in line.split()] for line in found]
    plot, bottom = WIDTH - LEFT - RIGHT, HEIGHT - 44
    top = drawn[1][1][1]
    for (x, y), (count, recall) in zip(drawn[0], points, strict=True):
        assert x == pytest.approx(LEFT + plot * log10(count) / 3, abs=0.011)
        assert y == pytest.approx(bottom + (top - bottom) * recall, abs=0.011)
    assert chart.count('stroke-dasharray="7 3"') == 2, "the second line and its legend differ without colour"


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.2, 17.9), (1e-7, 3e-7), (5.0, 5.0), (-1e9, 2e9)])
def test_ticks_are_few_and_inside(low: float, high: float) -> None:
    ticks = even_ticks(low, high)
    slack = 1e-6 * (high - low)
    assert 1 <= len(ticks) <= 9
    assert all(low - slack <= tick <= high + slack for tick in ticks)


def test_scores_that_are_no_numbers_are_refused() -> None:
    for scores in (torch.tensor([1.0, torch.nan]), torch.zeros(2, 2)):
        with pytest.raises(DataError, match="expected one number for each token"):
            make_report(scores=scores)
