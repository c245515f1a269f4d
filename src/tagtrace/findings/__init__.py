"""Findings: which training labels are probably wrong, the mistakes behind them, and what fixing them gains."""

from tagtrace.findings.assess import Assessment, assess
from tagtrace.findings.audit import Audit, run_audit
from tagtrace.findings.finding import Finding, read_findings, write_findings, write_findings_table
from tagtrace.findings.fix import Change, Fixed, choose_findings, fix, read_changes, replay, write_changes
from tagtrace.findings.gains.bootstrap import Difference, paired_bootstrap
from tagtrace.findings.gains.compare import Gain, compare
from tagtrace.findings.gains.gain import gain
from tagtrace.findings.gains.retrained import full_gain, head_gain
from tagtrace.findings.judges.dynamics import encoder_dynamics
from tagtrace.findings.judges.folds import assign_folds, encoder_folds, out_of_sample, taught_head
from tagtrace.findings.judges.opinions import averaged, encoder_opinions, head_opinions
from tagtrace.findings.judges.probabilities import Probabilities, in_sample
from tagtrace.findings.options import SCORES, AuditOptions
from tagtrace.findings.patterns.conditions import Condition, NumberedText
from tagtrace.findings.patterns.group_effect import GroupEffect, TrustedFit, group_effect, pattern_edits
from tagtrace.findings.patterns.pattern import Pattern, find_patterns
from tagtrace.findings.ranking.evidence import Hurt, hurt_queries
from tagtrace.findings.ranking.levels import LevelScores, at_level
from tagtrace.findings.ranking.proposals import propose
from tagtrace.findings.ranking.suspicion import mistaken_for, suspicion
from tagtrace.findings.ranking.token_scores import SCORERS, TokenScorer, token_scores
from tagtrace.findings.ranking.trusted import (
    Queries,
    Trusted,
    instance_scores,
    neighbour_scores,
    read_trusted,
    trusted_scores,
)
from tagtrace.findings.ranking.truth import (
    Judged,
    Measured,
    Truth,
    average_precision,
    finding_is_wrong,
    measure,
    precision_at,
    read_truth,
    recall_at,
    recall_curve,
    wrong_tokens,
)
from tagtrace.findings.report.page import Report, render_report, write_report
from tagtrace.findings.teaching.asking import Question, next_questions
from tagtrace.findings.teaching.auto import RISK, Auto, choose_auto
from tagtrace.findings.teaching.decided import Decided
from tagtrace.findings.teaching.errors_left import Draws, ErrorsLeft, errors_left, expected_wrong
from tagtrace.findings.teaching.teach import Taught, finding_features, teach

__all__ = [
    "RISK",
    "SCORERS",
    "SCORES",
    "Assessment",
    "Audit",
    "AuditOptions",
    "Auto",
    "Change",
    "Condition",
    "Decided",
    "Difference",
    "Draws",
    "ErrorsLeft",
    "Finding",
    "Fixed",
    "Gain",
    "GroupEffect",
    "Hurt",
    "Judged",
    "LevelScores",
    "Measured",
    "NumberedText",
    "Pattern",
    "Probabilities",
    "Queries",
    "Question",
    "Report",
    "Taught",
    "TokenScorer",
    "Trusted",
    "TrustedFit",
    "Truth",
    "assess",
    "assign_folds",
    "at_level",
    "average_precision",
    "averaged",
    "choose_auto",
    "choose_findings",
    "compare",
    "encoder_dynamics",
    "encoder_folds",
    "encoder_opinions",
    "errors_left",
    "expected_wrong",
    "find_patterns",
    "finding_features",
    "finding_is_wrong",
    "fix",
    "full_gain",
    "gain",
    "group_effect",
    "head_gain",
    "head_opinions",
    "hurt_queries",
    "in_sample",
    "instance_scores",
    "measure",
    "mistaken_for",
    "neighbour_scores",
    "next_questions",
    "out_of_sample",
    "paired_bootstrap",
    "pattern_edits",
    "precision_at",
    "propose",
    "read_changes",
    "read_findings",
    "read_trusted",
    "read_truth",
    "recall_at",
    "recall_curve",
    "render_report",
    "replay",
    "run_audit",
    "suspicion",
    "taught_head",
    "teach",
    "token_scores",
    "trusted_scores",
    "write_changes",
    "write_findings",
    "write_findings_table",
    "write_report",
    "wrong_tokens",
]
