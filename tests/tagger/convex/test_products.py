"""Products with stored features against float64, with and without compiled loops."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tagtrace._checks import OptionError
from tagtrace.tagger.convex import products
from tagtrace.tagger.convex.products import compiled_loops, gather, project


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("num_vectors", [1, 8, 13, 40])
@pytest.mark.parametrize("is_some", [True, False])
def test_products_are_those_of_the_stored_features(
    compiled: bool, stored: torch.dtype, num_vectors: int, is_some: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "USE_LOOPS", compiled)
    monkeypatch.setattr(products, "BLOCK", 100)
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(303, 45, generator=generator).to(stored)
    rows = torch.randperm(303, generator=generator)[:150] if is_some else None
    seen = (features if rows is None else features[rows]).double()
    for dtype, precision in ((torch.float32, 1e-4), (torch.float64, 1e-11)):
        weights = torch.randn(num_vectors, 45, generator=generator, dtype=dtype)
        values = torch.randn(len(seen), num_vectors, generator=generator, dtype=dtype)
        found, sums = project(features, weights, rows), gather(features, values, rows)
        assert found.dtype == sums.dtype == dtype
        torch.testing.assert_close(found.double(), seen @ weights.double().T, rtol=0, atol=precision)
        torch.testing.assert_close(sums.double(), values.double().T @ seen, rtol=0, atol=precision)


def test_the_loops_are_tested_here() -> None:
    assert compiled_loops() is not None, "numba is one of the development tools"
    assert not products.uses_loops(torch.zeros(4, 6).T), "loops read rows"


def test_numba_takes_no_settings_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder may be that of somebody else's project, and such a file can make numba unpickle."""
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: ./c\n")
    monkeypatch.chdir(tmp_path)
    products._import_loops.cache_clear()
    try:
        with pytest.raises(OptionError, match=r"\.numba_config\.yaml: numba would take settings, and code"):
            compiled_loops()
    finally:
        monkeypatch.undo()
        products._import_loops.cache_clear()


def test_the_fallback_takes_over_if_numba_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tagtrace.tagger.convex.compiled", None)
    monkeypatch.delattr(__import__("tagtrace.tagger.convex", fromlist=["x"]), "compiled", raising=False)
    products._import_loops.cache_clear()
    try:
        assert compiled_loops() is None
    finally:
        monkeypatch.undo()
        products._import_loops.cache_clear()
    assert compiled_loops() is not None


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("size", [1, 2, 7, 300])
@pytest.mark.parametrize("count", [1, 2])
def test_symmetric_products(compiled: bool, size: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "USE_LOOPS", compiled)
    generator = torch.Generator().manual_seed(0)
    half = torch.randn(size, size, generator=generator, dtype=torch.float64)
    vectors = torch.randn(count, size, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(products.symmetric_product(half + half.T, vectors), vectors @ (half + half.T))
