"""All compiled loops. Importing this module fails if numba (extra ``fast``) is not installed."""

from tagtrace.tagger.convex.compiled_chains import edge_sum, forward_backward, score_segments, tangent, tangent_one
from tagtrace.tagger.convex.compiled_products import gather, project, score_tokens

__all__ = [
    "edge_sum",
    "forward_backward",
    "gather",
    "project",
    "score_segments",
    "score_tokens",
    "tangent",
    "tangent_one",
]
