"""Review: a local page to see why, decide, and export corrected data.

``app`` and ``serving`` need the extra ``review``; the rest does without it.
"""

from tagtrace.review.decisions.database import Decision, Store
from tagtrace.review.decisions.decide import Decisions, Wish
from tagtrace.review.decisions.export import Exported, Imported, export, import_log
from tagtrace.review.open_page import review_project
from tagtrace.review.project import ProjectFile, read_project_file, write_project_file
from tagtrace.review.review import Review, open_review
from tagtrace.review.training_data import TrainingData

__all__ = [
    "Decision",
    "Decisions",
    "Exported",
    "Imported",
    "ProjectFile",
    "Review",
    "Store",
    "TrainingData",
    "Wish",
    "export",
    "import_log",
    "open_review",
    "read_project_file",
    "review_project",
    "write_project_file",
]
