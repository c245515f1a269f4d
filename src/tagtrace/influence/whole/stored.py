"""Scores through the whole tagger, stored in the folder of an index so that they are prepared once.

whole/
  seed-0.safetensors    one early tagger: its weights, its kernel (M, M), and S (bfloat16) for each layer
  whole.json            what they belong to (recipe, data, tagger) and the files' checksums

It may be deleted at any time. An interrupted build resumes; more seeds can be added later.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor

from tagtrace._checks import OptionError, check_num_seeds
from tagtrace._documents import read_document
from tagtrace._progress import Progress
from tagtrace._run_folder import RunDocument, RunFolder
from tagtrace.data.sentence import Sentence
from tagtrace.index import Index
from tagtrace.influence.whole.gradient_kernel import MOST, SKETCH, GradientKernel
from tagtrace.influence.whole.gradients import batch_gradients
from tagtrace.influence.whole.weights import weights_of
from tagtrace.influence.whole.whole import EARLY, EarlyTagger, WholeInfluence, train_early
from tagtrace.tagger.recipe import Recipe
from tagtrace.tagger.tagger import Example, Tagger, pick_device
from tagtrace.tagger.training import Step

FORMAT = 2
FOLDER, MARKER = "whole", "whole.json"
_REMEDY = f"delete the folder {FOLDER} of the index and build it again"


def build_whole(
    index: Index,
    num_seeds: int = 3,
    *,
    tagger: Tagger | None = None,
    device: str | torch.device = "cpu",
    training: Callable[[int, Step], None] | None = None,
    progress: Progress | None = None,
) -> WholeInfluence:
    """Prepare the scores through the whole tagger for an index and store them in its folder.

    ``num_seeds`` taggers are trained for a quarter of their epochs by the recipe of ``tagger`` (default: the index's).
    ``training`` is called with a seed and a step, ``progress`` with the number of sentences read for a kernel.
    """
    check_num_seeds(num_seeds)
    tagger = tagger or index.trained_tagger()
    index.check_tagger(tagger)
    recipe = Recipe.of(tagger)
    sentences, examples = _training_data(index, tagger)
    batch_gradients(tagger, examples[:1])  # raises for encoders that it cannot go through, before anything is trained
    run = _run_folder(index, recipe).open()
    members = list[EarlyTagger]()
    for number in range(num_seeds):
        tensors, seed = run.read(_name(number)), recipe.options.seed + number
        if tensors is not None:
            members.append(_restored(tagger, examples, tensors, device))
            continue
        members.append(train_early(recipe, sentences, examples, seed, device, training, progress))
        run.add({_name(number): _tensors(members[-1])})
    return WholeInfluence(tuple(members))


def _training_data(index: Index, tagger: Tagger) -> tuple[list[Sentence], list[Example]]:
    """The sentences of an index, and the same prepared; that does not depend on the weights."""
    sentences = [index.sentence(number) for number in range(index.num_sentences)]
    return sentences, [tagger.prepare(sentence) for sentence in tagger.labelled(sentences, "training")]


def has_whole(index: Index, num_seeds: int = 1) -> bool:
    """Whether ``build_whole`` of this version has stored so many taggers for the index.

    Raises if its record is damaged: another score in its place would be another answer.
    """
    path = index.added_folder(FOLDER) / MARKER
    if not os.path.lexists(path):
        return False
    saved = read_document(path, RunDocument, remedy=_REMEDY)
    return saved.owner.get("format") == FORMAT and len(saved.files) >= num_seeds


def open_whole(index: Index, device: str | torch.device = "cpu") -> WholeInfluence:
    """What ``build_whole`` stored."""
    if not has_whole(index):
        raise OptionError(
            f"{index.folder}: has no scores through the whole tagger; build the index with them, or use another score"
        )
    tagger = index.trained_tagger()
    run = _run_folder(index, Recipe.of(tagger))
    run.resume()
    if run.lost:
        raise OptionError(f"{run.folder / run.lost[0]}: damaged or missing; {_REMEDY}")
    _, examples = _training_data(index, tagger)
    members = list[EarlyTagger]()
    while run.has(name := _name(len(members))):
        tensors = run.read(name)
        if tensors is None:
            raise OptionError(f"{run.folder / name}: damaged; delete it and build it again")
        try:
            members.append(_restored(tagger, examples, tensors, device))
        except (RuntimeError, KeyError, ValueError, IndexError) as error:
            reason = " ".join(str(error).split())
            raise OptionError(f"{run.folder / name}: does not fit the tagger ({reason}); {_REMEDY}") from None
    return WholeInfluence(tuple(members))


def whole_size(tagger: Tagger, num_sentences: int, num_seeds: int) -> int:
    """Bytes that ``build_whole`` writes, about."""
    weights = sum(value.numel() * value.element_size() for value in tagger.state_dict().values())
    num_members = -(-num_sentences // -(-num_sentences // MOST))
    return num_seeds * (
        weights + 2 * sum(part.numel() for part in weights_of(tagger).values()) + 4 * num_members**2 + 8 * num_sentences
    )


def _name(seed: int) -> str:
    return f"seed-{seed}.safetensors"


def _run_folder(index: Index, recipe: Recipe) -> RunFolder:
    owner = {
        "format": FORMAT,
        **recipe.to_json(),
        "seed": recipe.options.seed,
        "data": index.manifest.data.content,
        "tagger": index.manifest.tagger.fingerprint,
        "early": EARLY,
        "sketch": [SKETCH, MOST],
    }
    return RunFolder(index.added_folder(FOLDER), MARKER, owner, "scores through the whole tagger", remedy=_REMEDY)


def _tensors(made: EarlyTagger) -> dict[str, Tensor]:
    weights = {f"tagger.{name}": value.detach().cpu().contiguous() for name, value in made.tagger.state_dict().items()}
    scales = {f"scale.{name}": value.cpu() for name, value in made.kernel.scales.items()}
    return {
        **weights,
        **scales,
        "kernel": made.kernel.matrix,
        "members": made.kernel.members,
        "shares": made.kernel.shares,
    }


def _restored(
    tagger: Tagger, examples: list[Example], tensors: dict[str, Tensor], device: str | torch.device
) -> EarlyTagger:
    """The early tagger with these tensors, of the kind of ``tagger``."""
    early = deepcopy(tagger)
    early.head.float()
    early.load_state_dict(_named(tensors, "tagger."))
    early = early.eval().to(pick_device(device))
    scales = {name: scale.to(early.device) for name, scale in _named(tensors, "scale.").items()}
    return EarlyTagger(
        early, examples, GradientKernel(tensors["kernel"], scales, tensors["members"], tensors["shares"])
    )


def _named(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
