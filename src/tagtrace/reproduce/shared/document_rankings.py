"""Rankings of training documents by how likely they have wrong labels: the 13 methods of the paper, and some more.

The tagger sees sentences, and a document is the sum of its sentences: its loss is the sum of their joint losses, its
gradient the sum of their gradients. Tokens have conditional losses, entropies of their marginals, and gradients of the
conditional loss; a document has the mean or the largest value of its tokens. Trusted documents have gold labels:

| method | score of a document |
|---|---|
| instance influence | mean over trusted documents d of -g_d . g, both of whole documents |
| segment influence | for a token, the mean of the 10 largest -g_q . g_t over trusted tokens q |
| segment NN | for a token, the mean of the 10 largest products of features with trusted tokens of another class |

"(cosine)" divides each product by the norms of both gradients. The paper's curvature is the identity. Its released
notebooks treat whole documents as sentences, use the gradients of W alone, and for segment NN use tokens of another
label, distinguishing B- and I-. The notebook of section 6.1 uses marginal losses and the 10 nearest, as the text says;
that of section 6.2 uses losses and entropies given the labels around a token, and the 5 nearest. Here both sections
follow the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from tagtrace.data import Sentence
from tagtrace.findings import Trusted, at_level, in_sample, neighbour_scores, token_scores, trusted_scores
from tagtrace.index import Index
from tagtrace.influence import Candidates, Explainer, Screen, find_candidates, gradient_norms
from tagtrace.influence.scoring.norms import dense_gradients

MEAN, MAX = ", mean", ", max"
TOKEN_SCORES = {"token loss": "conditional-loss", "token entropy": "entropy", "token gradient": "gradient-norm"}

PAPER = (
    "instance loss", "instance gradient",
    "token loss, max", "token loss, mean", "token entropy, max", "token entropy, mean",
    "token gradient, max", "token gradient, mean",
    "instance influence", "segment influence, max", "segment influence, mean", "segment NN, max", "segment NN, mean",
)  # fmt: skip
"""The curves of the paper's appendix."""

FIGURE = ("instance loss", "token loss, mean", "instance influence", "segment influence, max", "segment NN, max")
"""The curves of its figure 3."""


def rank_documents(
    index: Index,
    trusted: Trusted,
    documents: Tensor,
    asked: Mapping[str, Trusted],
    top_k: int = 10,
    device: torch.device | None = None,
    opposing: Tensor | None = None,
) -> dict[str, Tensor]:
    """The scores (K,) of all K training documents by each method, in the order of ``find_candidates``.

    ``trusted`` has all tokens of the trusted documents, and ``documents`` (b,) the document of each of its sentences.
    ``asked`` has smaller sets of tokens, for segment influence only, by the name that is added in brackets.
    ``opposing`` (N,) says how much each training token opposes the trusted documents through the whole tagger.
    """
    found, explainer = simple_scores(index), Explainer(index, "identity", device=device or "cpu")
    for name, scores in instance_influences(index, trusted, documents).items():
        found["instance influence" + _suffix(name)] = scores
    for what, tokens in {"": trusted, **asked}.items():
        for name in ("identity", "cosine"):
            scores = trusted_scores(explainer, tokens, name, "top", top_k)
            _add_tokens(found, index, "segment influence", scores, _suffix(name, what))
    _add_tokens(found, index, "segment NN", neighbour_scores(index, trusted, "dot", top_k))
    if opposing is not None:
        _add_tokens(found, index, "whole tagger", opposing)
    return {name: found[name] for name in (*PAPER, *(other for other in found if other not in PAPER))}


def simple_scores(index: Index) -> dict[str, Tensor]:
    """The scores that need no trusted documents."""
    candidates, believed = find_candidates(index, "document"), in_sample(index)
    found = {
        "instance loss": candidates.total(believed.joint_losses),
        "instance gradient": gradient_norms(index.head, index.rows, candidates),
    }
    for name, scorer in TOKEN_SCORES.items():
        _add_tokens(found, index, name, token_scores(scorer, index, believed))
    return found


@torch.no_grad()
def instance_influences(index: Index, trusted: Trusted, documents: Tensor) -> dict[str, Tensor]:
    """The influence of K training documents, (K,), with N the number of training sentences.

    ``identity`` is the mean over d of -g_d . g / N, ``cosine`` the mean over d of -cos(g_d, g).
    """
    candidates = find_candidates(index, "document")
    gradients = document_gradients(index, trusted, documents)  # (d, P)
    units = gradients / gradients.norm(dim=1, keepdim=True).clamp(min=1e-300)
    directions = -torch.stack([gradients.mean(0) / index.num_sentences, units.mean(0)])  # (2, P)
    products = Screen(index.head, index.rows, candidates.segments).products(directions)  # (2, sentences)
    raw, turned = candidates.total(products.T).T
    norms = gradient_norms(index.head, index.rows, candidates)
    return {"identity": raw, "cosine": torch.where(norms > 0, turned / norms.clamp(min=1e-300), 0.0)}


def document_gradients(index: Index, trusted: Trusted, documents: Tensor) -> Tensor:
    """The gradients of the joint losses of the trusted documents, (d, P)."""
    lengths = trusted.rows.lengths
    sentences = torch.arange(len(lengths))
    whole = torch.stack([sentences, torch.zeros_like(sentences), lengths], 1)
    names = tuple(str(number) for number in range(int(documents.max()) + 1))
    candidates = Candidates(whole, "document", documents, names)
    return torch.cat([part for _, part in dense_gradients(index.head, trusted.rows, candidates)])


def document_numbers(sentences: Sequence[Sentence]) -> Tensor:
    """The document of each sentence, numbered from 0, (b,)."""
    numbers: dict[str, int] = {}
    return torch.tensor([numbers.setdefault(one.document, len(numbers)) for one in sentences if len(one)])


def _add_tokens(found: dict[str, Tensor], index: Index, name: str, scores: Tensor, suffix: str = "") -> None:
    found[name + MAX + suffix] = at_level(index, scores, "document", "max").scores
    found[name + MEAN + suffix] = at_level(index, scores, "document", "mean").scores


def _suffix(method: str, what: str = "") -> str:
    """The part of a method's name in brackets; empty for the identity with all trusted tokens."""
    parts = [*([what] if what else []), *([method] if method != "identity" else [])]
    return f" ({', '.join(parts)})" if parts else ""
