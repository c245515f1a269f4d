"""The report of an audit: one HTML file that needs nothing else, to read offline, by keyboard, or on paper.

All text of the data goes through ``_markup.element``, which escapes it. The page's content security policy allows only
its own style and script (by their hashes) and no address at all, so that unescaped text could not run or load anything
either.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tagtrace._checks import DataError
from tagtrace._files import file_moved_when_whole
from tagtrace._markup import Child, Html, element
from tagtrace._version import __version__
from tagtrace.findings.finding import Finding
from tagtrace.findings.ranking.truth import Measured
from tagtrace.findings.report import sections
from tagtrace.findings.report.findings_list import findings_list
from tagtrace.findings.report.sections import MAX_FINDINGS, Fit, PatternEffect, ReportedPattern

__all__ = ["MAX_FINDINGS", "Fit", "PatternEffect", "Report", "ReportedPattern", "render_report", "write_report"]


@dataclass(frozen=True)
class Report:
    """The contents of the page."""

    title: str
    index: str
    """The name of the index."""
    summary: Mapping[str, str | int | float]
    scores: Tensor | np.ndarray
    """The suspicion of all tokens, (N,)."""
    findings: Sequence[Finding]
    """All findings, by rank."""
    patterns: Sequence[ReportedPattern] = ()
    truth: Sequence[Measured] = ()
    """How well each scorer finds the wrong labels, if these are known."""
    evidence: Mapping[int, Sequence[str]] = field(default_factory=dict[int, Sequence[str]])
    """By rank of a finding, the trusted labels that it hurts, one line for each."""
    threshold: float | None = None
    """The lowest suspicion of a finding, marked in the chart; by default, that of ``findings``."""

    def __post_init__(self) -> None:
        scores = np.asarray(self.scores.detach().cpu() if isinstance(self.scores, Tensor) else self.scores)
        if scores.ndim != 1 or bool(np.isnan(scores).any()):
            raise DataError(f"scores {scores.shape}: expected one number for each token")
        object.__setattr__(self, "scores", torch.from_numpy(scores.astype(np.float64)))


def write_report(path: str | Path, report: Report) -> None:
    """Write the page."""
    page = render_report(report)
    with file_moved_when_whole(path) as stream:
        stream.write(page.encode("utf-8"))


def render_report(report: Report) -> str:
    """The page as text; the same report always gives the same text."""
    threshold = report.threshold
    if threshold is None and report.findings:
        threshold = min(one.score for one in report.findings)
    parts: list[tuple[str, str, Child]] = [
        ("summary", "Summary", sections.summary(report.summary)),
        ("patterns", "Patterns", sections.patterns(report.patterns, report.findings)),
        ("pairs", "Errors by label pair", sections.pairs(report.findings)),
        ("scores", "Scores of all tokens", sections.scores(np.asarray(report.scores), threshold)),
    ]
    if report.truth:
        parts.append(("recall", "Wrong labels found", sections.recall(report.truth)))
    parts.append(("findings", "Findings", findings_list(report.findings, report.patterns, report.evidence)))
    return f"<!DOCTYPE html>\n{element('html', _head(report.title), _body(report, parts), lang='en')}\n"


def _head(title: str) -> Html:
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy()),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", _asset("report.css")),
    )


def _body(report: Report, parts: Sequence[tuple[str, str, Child]]) -> Html:
    links = [element("li", element("a", heading, href=f"#{name}")) for name, heading, _ in parts]
    header = element(
        "header",
        element("h1", report.title),
        element("p", "Index: ", report.index, class_="soft"),
        element("nav", element("ul", links), aria_label="Sections"),
    )
    footer = element(
        "footer", f"Written by tagtrace {__version__}. Findings are estimates; a person should check them."
    )
    return element(
        "body",
        element("a", "Skip to the findings", href="#findings", class_="skip"),
        header,
        element("main", [_section(*part) for part in parts]),
        footer,
        element("script", _asset("report.js")) if report.findings else None,
    )


def _section(name: str, heading: str, body: Child) -> Html:
    title = f"{name}-heading"
    return element("section", element("h2", heading, id=title), body, id=name, aria_labelledby=title)


def _policy() -> str:
    """The content security policy: the page may only use its own style and script."""
    style, script = (
        b64encode(sha256(_asset(name).encode("utf-8")).digest()).decode() for name in ("report.css", "report.js")
    )
    own = f"style-src 'sha256-{style}'; script-src 'sha256-{script}'"
    return f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'"


@cache
def _asset(name: str) -> Html:
    """The style or the script, which are files of this package."""
    return Html(files("tagtrace.findings.report").joinpath(name).read_text(encoding="utf-8"))
