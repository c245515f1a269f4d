"""The files of an audit change together, whenever a run is killed; what else is in its folder stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tagtrace._checks import OptionError
from tagtrace._run_folder import RunFolder
from tagtrace.findings import Audit
from tagtrace.findings.audit_folder import check_audit_folder
from tagtrace.findings.judges.folds import MARKER as FOLDS_MARKER
from tests.every_step import every_kill, killed_in_a_fork
from tests.findings.test_finding import ONE, TWO

OLD = Audit([ONE], [], {"training tokens": 9}, notes=["old"], documents=[("doc", 1.0)])
NEW = Audit([replace(ONE, score=0.5), TWO], [], {"training tokens": 9}, notes=["new"])


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(autouse=True)
def fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An audit with folds, and with files of the user."""
    audit = tmp_path / "audit"
    RunFolder(audit / "folds", FOLDS_MARKER, {}, "folds").open()
    OLD.save(audit)
    (audit / "mine" / "empty").mkdir(parents=True)
    (audit / "mine" / "notes.txt").write_text("precious")
    (audit / "mine" / "notes.txt").chmod(0o600)
    (audit / "link").symlink_to("mine/notes.txt")
    return audit


def check_others(audit: Path) -> None:
    assert (audit / "mine" / "notes.txt").read_text() == "precious"
    assert (audit / "mine" / "notes.txt").stat().st_mode & 0o777 == 0o600
    assert (audit / "mine" / "empty").is_dir()
    assert (audit / "link").is_symlink()
    assert (audit / "folds" / FOLDS_MARKER).is_file()


@pytest.mark.parametrize("can_exchange", [True, False])
@pytest.mark.parametrize("stays_dead", [True, False])
def test_a_kill_at_any_step_leaves_the_old_or_the_new_audit(folder: Path, stays_dead: bool, can_exchange: bool) -> None:
    NEW.save(folder)
    after = contents(folder)
    OLD.save(folder)
    before = contents(folder)
    names, seen = {path.name for path in folder.parent.iterdir()}, set[bool]()
    for _ in every_kill(
        lambda: OLD.save(folder), lambda: NEW.save(folder), stays_dead=stays_dead, can_exchange=can_exchange
    ):
        found = Audit.load(folder)
        assert found in (OLD, NEW)
        assert contents(folder) == (after if found == NEW else before)
        seen.add(found == NEW)
        check_others(folder)
        NEW.save(folder)
        assert contents(folder) == after
        check_others(folder)
        assert {path.name for path in folder.parent.iterdir()} == names
    assert seen == {False, True}


def test_a_process_that_ends_at_any_step_leaves_the_old_or_the_new_audit(folder: Path) -> None:
    for step in range(1, 400, 9):
        OLD.save(folder)
        if not killed_in_a_fork(step, lambda: NEW.save(folder), can_exchange=bool(step % 2)):
            return
        assert Audit.load(folder) in (OLD, NEW)
        check_others(folder)
        NEW.save(folder)
        assert Audit.load(folder) == NEW
        check_others(folder)
    pytest.fail("the run has too many steps")


def test_without_hard_links_all_else_is_copied(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    NEW.save(folder)
    assert Audit.load(folder) == NEW
    check_others(folder)


def test_an_audit_replaced_while_it_is_read_is_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, calls = Path.read_bytes, list[Path]()

    def replaced_meanwhile(path: Path) -> bytes:
        if path.name == "findings.jsonl" and not calls:
            calls.append(path)
            found = read(path)
            NEW.save(folder)
            return found
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", replaced_meanwhile)
    assert Audit.load(folder) == NEW
    assert calls


@pytest.mark.parametrize("left", [(), (f".{FOLDS_MARKER}.x1y2z3",), (f".{FOLDS_MARKER}.01234567.tagtrace-new",)])
def test_an_audit_that_was_killed_while_it_began_its_folds_begins_again(tmp_path: Path, left: tuple[str, ...]) -> None:
    (tmp_path / "audit" / "folds").mkdir(parents=True)
    for name in left:
        (tmp_path / "audit" / "folds" / name).write_text("{")
    check_audit_folder(tmp_path / "audit")
    RunFolder(tmp_path / "audit" / "folds", FOLDS_MARKER, {}, "folds").open()
    OLD.save(tmp_path / "audit")
    assert Audit.load(tmp_path / "audit") == OLD


def test_the_working_folder_is_not_replaced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder / "mine")
    for target in (folder, Path("..")):
        with pytest.raises(OptionError, match="is the working folder, so it is not replaced"):
            check_audit_folder(target)
