"""kronfluence's EK-FAC: an approximation of the Hessian by Kronecker factors with corrected eigenvalues."""
# pyright: reportMissingImports=false

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import Any

import torch
from kronfluence.analyzer import Analyzer, prepare_model
from kronfluence.arguments import FactorArguments, ScoreArguments
from kronfluence.task import Task
from kronfluence.utils.dataset import DataLoaderKwargs
from measure import as_it_is, linear_head, query_tokens, report, training_tokens
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from workload import Workload

BATCH = 4_096


class Labelling(Task):
    """The loss of each token; the Fisher matrix takes labels sampled from the head, as kronfluence recommends."""

    def compute_train_loss(self, batch: Any, model: nn.Module, sample: bool = False) -> Tensor:
        features, labels = batch
        logits = model(features)  # (n, C)
        if sample:
            with torch.no_grad():
                labels = torch.multinomial(logits.softmax(-1), 1).flatten()
        return cross_entropy(logits, labels, reduction="sum")

    def compute_measurement(self, batch: Any, model: nn.Module) -> Tensor:
        return self.compute_train_loss(batch, model)


def answer(work: Workload) -> Tensor:
    torch.manual_seed(0)
    tokens, task = training_tokens(work), Labelling()
    model = prepare_model(nn.Sequential(linear_head(work)), task)
    with TemporaryDirectory() as folder:
        analyzer = Analyzer("softmax", model, task, cpu=True, disable_tqdm=True, output_dir=folder)
        analyzer.set_dataloader_kwargs(DataLoaderKwargs(collate_fn=as_it_is))
        everything = FactorArguments("ekfac", covariance_max_examples=None, lambda_max_examples=None)
        analyzer.fit_all_factors("factors", tokens, per_device_batch_size=BATCH, factor_args=everything)
        analyzer.compute_pairwise_scores(
            "scores",
            "factors",
            query_tokens(work),
            tokens,
            per_device_query_batch_size=len(work.queries),
            per_device_train_batch_size=BATCH,
            score_args=ScoreArguments(damping_factor=work.l2),
        )
        found = analyzer.load_pairwise_scores("scores")
    return found["all_modules"] / len(tokens)  # (Q, N)


if __name__ == "__main__":
    report(answer, ("kronfluence", "torch"), f"EK-FAC of all tokens, damping lambda, float32, batches of {BATCH}")
