"""The index: features and conditional errors of every training token, in factored form, and their head."""

from tagtrace.index.build import build_index
from tagtrace.index.conditional_errors import token_errors
from tagtrace.index.files import IndexFolderError
from tagtrace.index.index import Index, open_index, open_index_or_tagger
from tagtrace.index.manifest import FitRecord, Manifest
from tagtrace.index.options import IndexOptions, estimate_size
from tagtrace.index.shards import Shard

__all__ = [
    "FitRecord",
    "Index",
    "IndexFolderError",
    "IndexOptions",
    "Manifest",
    "Shard",
    "build_index",
    "estimate_size",
    "open_index",
    "open_index_or_tagger",
    "token_errors",
]
