"""Review: a local page that explains predictions, records decisions on findings and exports the corrected data.

Only the modules in ``http`` need the packages of the extra ``review``.
"""

from tagtrace.review.decisions.database import Decision, Store
from tagtrace.review.decisions.decide import DecisionRequest, Decisions
from tagtrace.review.decisions.export import Exported, Imported, export, import_log
from tagtrace.review.open_page import review_project
from tagtrace.review.project import ProjectFile, read_project_file, write_project_file
from tagtrace.review.review import Review, decided_sentences, open_review, read_decided, teach_by_review
from tagtrace.review.training_data import TrainingData

__all__ = [
    "Decision",
    "DecisionRequest",
    "Decisions",
    "Exported",
    "Imported",
    "ProjectFile",
    "Review",
    "Store",
    "TrainingData",
    "decided_sentences",
    "export",
    "import_log",
    "open_review",
    "read_decided",
    "read_project_file",
    "review_project",
    "teach_by_review",
    "write_project_file",
]
