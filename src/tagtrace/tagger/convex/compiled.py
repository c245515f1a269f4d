"""All compiled loops. Importing this module fails if numba (extra ``fast``) is not installed."""

from tagtrace.tagger.convex.compiled_chains import (
    edge_sum,
    forward_backward,
    nearby_marginals,
    score_segments,
    tangent,
    tangent_one,
)
from tagtrace.tagger.convex.compiled_products import gather, project, row_norms, score_tokens, symmetric_product, take

__all__ = [
    "edge_sum",
    "forward_backward",
    "gather",
    "nearby_marginals",
    "project",
    "row_norms",
    "score_segments",
    "score_tokens",
    "symmetric_product",
    "take",
    "tangent",
    "tangent_one",
]
