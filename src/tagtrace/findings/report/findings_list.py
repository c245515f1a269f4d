"""The list of findings in an audit's report, and the filter above it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tagtrace._markup import Child, Html, arrow, counted, definitions, element, exact, percent, table
from tagtrace.findings.finding import Finding
from tagtrace.findings.report.sections import MAX_FINDINGS, ReportedPattern

_KEYS = {
    "j and k": "next and previous finding (on a finding also ↓ and ↑)",
    "o": "open or close the details (on a finding also Enter)",
    "/": "go to the filter",
    "Escape": "show all findings again",
    "?": "show this help",
}


def findings_list(
    all_findings: Sequence[Finding], found: Sequence[ReportedPattern], evidence: Mapping[int, Sequence[str]]
) -> Child:
    """The list, and the filter above it."""
    if not all_findings:
        return element("p", "No label is suspicious enough to be a finding.")
    shown = all_findings[:MAX_FINDINGS]
    num_more = len(all_findings) - len(shown)
    more = f" The other {num_more:,} are in the JSON lines and CSV files of this audit." if num_more else ""
    known = {one.number for one in found}
    return [
        element("p", f"{counted(len(shown), 'finding')}, the most suspicious first.{more}"),
        _filter(shown, found),
        element("ol", [_finding(one, known, evidence.get(one.rank, ())) for one in shown], class_="findings"),
        _help(),
    ]


def _finding(one: Finding, known: set[int], evidence: Sequence[str]) -> Html:
    pattern = f"#pattern-{one.pattern}" if one.pattern in known else None
    place = f"line {one.line}" if one.line else f"token {one.start}"
    facts = [
        f"score {exact(one.score)} · confidence {percent(one.confidence)} · {place}",
        [" · document ", element("bdi", one.document)] if one.document else None,
        [" · ", element("a", f"pattern {one.pattern}", href=pattern)] if pattern else None,
    ]
    before = ("…", *one.before) if one.start > len(one.before) else one.before
    context = [
        element("span", " ".join(before)),
        " " if before else None,
        element("mark", one.text),
        " " if one.after else None,
        element("span", " ".join(one.after)),
    ]
    text = element(
        "div",
        element("h3", element("a", f"#{one.rank}", href=f"#finding-{one.rank}"), " ", arrow(one.change)),
        element("p", context, class_="context", dir="auto"),
        element("p", facts, class_="facts soft"),
        _details(one, evidence),
    )
    return element(
        "li",
        text,
        _diff(one),
        class_="finding",
        id=f"finding-{one.rank}",
        tabindex="-1",
        data_change=one.change,
        data_pattern=one.pattern if pattern else None,
    )


def _diff(one: Finding) -> Html:
    """The given and the proposed label of each token: − and + if they differ, = if not."""
    rows = [
        [
            element("th", token, scope="row", dir="auto"),
            _label(given, "\N{MINUS SIGN}", "minus", is_same=given == proposed),
            _label(proposed, "+", "plus", is_same=given == proposed),
        ]
        for token, given, proposed in zip(one.tokens, one.given, one.proposed, strict=True)
    ]
    caption = element("span", f"Labels of finding {one.rank}", class_="unseen")
    return table(caption, ("token", "given", "proposed"), rows, "diff")


def _label(label: str, sign: str, kind: str, *, is_same: bool) -> Html:
    return element("td", f"{'=' if is_same else sign} {label}", class_="same" if is_same else kind)


def _details(one: Finding, evidence: Sequence[str]) -> Html:
    pairs: dict[str, Child] = {"sentence": element("bdi", one.sentence), "tokens": f"{one.start}:{one.stop}"}
    pairs |= {name: exact(value) for name, value in one.scores.items()}
    lines = [
        element("p", "Trusted labels that these labels hurt:"),
        element("ul", [element("li", line) for line in evidence]),
    ]
    return element("details", element("summary", "Details"), definitions(pairs, "pairs"), lines if evidence else None)


def _filter(shown: Sequence[Finding], found: Sequence[ReportedPattern]) -> Html:
    """The filter; hidden until the script, which it needs, shows it."""
    changes = Counter(one.change for one in shown)
    by_count = sorted(sorted(changes), key=lambda change: -changes[change])
    in_list = {one.pattern for one in shown}
    numbers = [one.number for one in found if one.number in in_list]
    return element(
        "div",
        element("label", "Text", element("input", type="search", id="filter-text", autocomplete="off")),
        element(
            "label", "Change", _choice("filter-change", {name: f"{name} ({changes[name]:,})" for name in by_count})
        ),
        element(
            "label", "Pattern", _choice("filter-pattern", {str(number): f"pattern {number}" for number in numbers})
        ),
        element("button", "Clear", type="button", id="clear-filter"),
        element("button", "Keys (?)", type="button", id="show-help"),
        element("p", id="num-shown", role="status", class_="soft"),
        class_="filter",
        id="filter",
        role="search",
        aria_label="Findings",
        hidden=True,
    )


def _choice(name: str, options: Mapping[str, str]) -> Html:
    listed = [element("option", text, value=value) for value, text in {"": "all", **options}.items()]
    return element("select", listed, id=name)


def _help() -> Html:
    keys = [element("div", element("dt", element("kbd", key)), element("dd", text)) for key, text in _KEYS.items()]
    turned_on = element("label", element("input", type="checkbox", id="use-keys", checked=True), " use single keys")
    close = element("form", element("button", "Close"), method="dialog")
    title = element("h2", "Keys", id="help-title")
    return element(
        "dialog", title, element("dl", keys, class_="pairs"), turned_on, close, id="help", aria_labelledby="help-title"
    )
