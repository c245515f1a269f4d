"""The design, checked by reading imports: data flows one way, the core stays light, nothing is pickled."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tagtrace

SOURCE = Path(tagtrace.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
LAYERS = ("data", "tagger", "index", "influence", "findings", "reproduce", "review", "cli")
"""Each may import those before it, never those after it."""
CORE = {"torch", "numpy", "safetensors", "tagtrace"}
ON_DEMAND = {"transformers", "tokenizers", "huggingface_hub"}
"""Imported only inside functions: most users have no need of them."""
MAX_LINES = 450


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, *, inside_functions: bool = True) -> Iterator[str]:
    """The full names of what a module imports."""
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        if inside_functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            pending.extend(ast.iter_child_nodes(node))


def layer_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "tagtrace" and len(parts) > 1 and parts[1] in LAYERS else None


def each_module(*layers: str) -> list[Path]:
    return [path for path in MODULES if layer_of(name_of(path)) in layers]


def test_the_modules_are_found() -> None:
    names = {name_of(path) for path in MODULES}
    assert {"tagtrace", "tagtrace.data.conll", "tagtrace.tagger.crf", "tagtrace.cli.main"} <= names
    assert "tagtrace.data.LabelSet" in set(imports(SOURCE / "__init__.py"))
    assert "transformers" in {name.split(".")[0] for path in MODULES for name in imports(path)}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_back(path: Path) -> None:
    own = layer_of(name_of(path))
    later = LAYERS[LAYERS.index(own) + 1 :] if own else ("cli",)
    assert not [name for name in imports(path) if layer_of(name) in later]


@pytest.mark.parametrize("path", each_module("data", "tagger"), ids=name_of)
def test_the_core_is_light(path: Path) -> None:
    allowed = CORE | sys.stdlib_module_names
    assert {name.split(".")[0] for name in imports(path)} <= allowed | ON_DEMAND
    assert {name.split(".")[0] for name in imports(path, inside_functions=False)} <= allowed


def test_data_does_without_torch() -> None:
    found = {name.split(".")[0] for path in each_module("data") for name in imports(path)}
    assert "torch" not in found


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_is_pickled(path: Path) -> None:
    roots = {name.split(".")[0] for name in imports(path)}
    assert not roots & {"pickle", "cPickle", "dill", "joblib", "shelve", "marshal", "cloudpickle"}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        assert ast.unparse(node.func) not in ("torch.load", "torch.save"), f"line {node.lineno}"
        if ast.unparse(node.func) in ("np.load", "numpy.load"):
            keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            assert keywords.get("allow_pickle") == "False", f"line {node.lineno}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_files_are_short(path: Path) -> None:
    if name_of(path).startswith("tagtrace.data.invented"):
        pytest.skip("mostly lists of words and sentences")
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_module_says_what_it_is(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree) or path.name == "_version.py"


def test_the_public_surface_is_explicit() -> None:
    assert sorted(tagtrace.__all__) == list(tagtrace.__all__)
    assert all(hasattr(tagtrace, name) for name in tagtrace.__all__)
