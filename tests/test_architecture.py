"""The design, checked by reading imports: data flows one way, the core stays light, nothing is pickled."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import tagtrace

SOURCE = Path(tagtrace.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
LAYERS = ("data", "tagger", "index", "influence", "findings", "integrations", "reproduce", "review", "cli")
"""Each may import those before it, never those after it."""
CORE = {"torch", "numpy", "safetensors", "tagtrace"}
ON_DEMAND = {"transformers", "tokenizers", "huggingface_hub", "spacy", "srsly"}
"""Imported only inside functions: most users have no need of them."""
COMPILERS = {
    "compiled": set(),
    "compiled_products": {"numba", "llvmlite"},
    "compiled_chains": set(),
    "gpu_kernel": {"triton"},
}
"""Modules that are imported only inside functions, and what they need."""
FORMATS = {"parquet": {"pyarrow"}, "docbin": {"spacy", "srsly"}}
"""Modules that are imported when a file of their format is met, and what they need."""
MAX_LINES, MEDIAN_LINES = 400, 150


SHARED_NAMES = {"mispredictions", "options"}
"""Modules that hold the same thing for two packages: the library's and the page's, or each package's options."""


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


def test_imports_point_back() -> None:
    for path in MODULES:
        own = layer_of(name_of(path))
        later = LAYERS[LAYERS.index(own) + 1 :] if own else ("cli",)
        assert not [name for name in imports(path) if layer_of(name) in later], name_of(path)


def test_the_core_is_light() -> None:
    allowed = CORE | sys.stdlib_module_names
    for path in each_module("data", "tagger", "index", "influence"):
        extra = COMPILERS.get(path.stem, set()) | FORMATS.get(path.stem, set())
        assert {name.split(".")[0] for name in imports(path)} <= allowed | ON_DEMAND | extra, name_of(path)
        assert {name.split(".")[0] for name in imports(path, inside_functions=False)} <= allowed | extra, name_of(path)
        at_once = {name.rpartition(".")[0] for name in imports(path, inside_functions=False)}
        needed = {f"tagtrace.tagger.convex.{name}" for name in COMPILERS}
        assert path.stem in COMPILERS or not at_once & needed, name_of(path)


def test_data_does_without_torch() -> None:
    found = {name.split(".")[0] for path in each_module("data") for name in imports(path)}
    assert "torch" not in found


def test_commands_leave_numbers_to_the_library() -> None:
    """A module of the command line parses, calls and prints: it has no use for tensors, classes or large functions."""
    for path in each_module("cli"):
        assert not {name.split(".")[0] for name in imports(path)} & {"torch", "numpy"}, name_of(path)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                body = node.end_lineno - node.body[0].lineno + 1 if node.end_lineno else 0
                assert body <= 45, f"{name_of(path)}.{node.name}"


def test_a_class_name_is_used_once() -> None:
    homes: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(name_of(path))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_a_module_name_is_used_once() -> None:
    """But for the names of commands, whose modules are named after them in the library and in ``cli``."""
    homes: dict[str, list[str]] = {}
    for path in MODULES:
        if path.name != "__init__.py" and layer_of(name_of(path)) not in ("cli", "reproduce"):
            homes.setdefault(path.stem, []).append(name_of(path))
    assert {name: where for name, where in homes.items() if len(where) > 1 and name not in SHARED_NAMES} == {}


def test_folders_hold_about_a_dozen_modules() -> None:
    for folder in {path.parent for path in MODULES}:
        modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        assert len(modules) <= (24 if folder.name == "cli" else 16), folder


def test_nothing_is_pickled() -> None:
    for path in MODULES:
        check_not_pickled(path)


def check_not_pickled(path: Path) -> None:
    roots = {name.split(".")[0] for name in imports(path)}
    assert not roots & {"pickle", "cPickle", "dill", "joblib", "shelve", "marshal", "cloudpickle"}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        assert ast.unparse(node.func) not in ("torch.load", "torch.save"), f"line {node.lineno}"
        if ast.unparse(node.func) in ("np.load", "numpy.load"):
            keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            assert keywords.get("allow_pickle") == "False", f"line {node.lineno}"


def test_files_are_short() -> None:
    sizes = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    del sizes["tagtrace.data.invented.words"]  # a list of words
    assert {name: size for name, size in sizes.items() if size > MAX_LINES} == {}
    assert median(sizes.values()) < MEDIAN_LINES


def test_every_module_says_what_it_is() -> None:
    for path in MODULES:
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), name_of(path)


def test_the_public_surface_is_explicit() -> None:
    assert sorted(tagtrace.__all__) == list(tagtrace.__all__)
    assert all(hasattr(tagtrace, name) for name in tagtrace.__all__)
