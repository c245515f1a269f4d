"""The group of commands: overview, help, version, and what each command costs to start."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tagtrace import __version__
from tagtrace.cli import main
from tagtrace.cli.main import COMMANDS, Commands
from tagtrace.cli.options import READING_NAMES
from tests.cli.command import refused, succeed, tagtrace


def commands(group: click.Group = main, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command and group by what the user types."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        yield f"{before}{name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")


ALL = dict(commands())


@pytest.mark.parametrize("name", ["", *ALL])
def test_every_command_has_help(name: str) -> None:
    shown = [succeed(*name.split(), flag).stdout for flag in ("--help", "-h")]
    assert shown[0] == shown[1]
    assert shown[0].startswith("Usage:")
    assert "Options:" in shown[0]
    assert len(shown[0].splitlines()) > 4


@pytest.mark.parametrize("name", ALL)
def test_every_option_has_a_help_text_that_is_a_sentence(name: str) -> None:
    command = ALL[name]
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.opts
            text = re.sub(r" \[default: [^]]+\]$", "", parameter.help)
            assert re.fullmatch(r"[A-Z].*\.|[a-z-]+: .*\.", text), f"{parameter.opts}: {text}"


@pytest.mark.parametrize("name", [name for name, command in ALL.items() if not isinstance(command, click.Group)])
def test_options_for_reading_have_their_own_section(name: str) -> None:
    text = succeed(*name.split(), "--help").stdout
    own, _, reading = text.partition("How data files are read:")
    for parameter in ALL[name].params:
        if isinstance(parameter, click.Option):
            section = reading if parameter.name in READING_NAMES else own
            assert re.search(rf"^  {parameter.opts[0]}\b", section, re.MULTILINE), parameter.opts
    listed = own.partition("Options:\n")[2] + reading
    assert all(line.startswith(("  -", "      ")) for line in listed.splitlines() if line), "options only"
    assert "--help" in own


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["data", "check", "train.conll"]])
def test_what_does_not_need_torch_does_not_import_it(data: Path, arguments: list[str]) -> None:
    code = (
        "import sys; from tagtrace.cli import main; main(sys.argv[1:], standalone_mode=False); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, *arguments], cwd=data, check=False).returncode == 0


@pytest.mark.parametrize(
    ("name", "own", "used"),
    [
        ("OMP_WAIT_POLICY", None, "PASSIVE"),
        ("OMP_WAIT_POLICY", "ACTIVE", "ACTIVE"),
        ("GOMP_SPINCOUNT", None, "1000"),
        ("GOMP_SPINCOUNT", "5", "5"),
    ],
)
def test_threads_wait_nearly_without_spinning_unless_the_user_says_otherwise(
    name: str, own: str | None, used: str
) -> None:
    """OpenMP reads the variables once, when torch is imported."""
    code = (
        "import builtins, os, sys; from tagtrace.cli import main; load = builtins.__import__\n"
        "def watch(name, *rest):\n"
        f"    if name == 'torch': sys.exit(os.environ[{name!r}])\n"
        "    return load(name, *rest)\n"
        "builtins.__import__ = watch; main(['predict', 'nothing', 'nothing'])"
    )
    environment = {other: value for other, value in os.environ.items() if other != name}
    if own is not None:
        environment[name] = own
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert found.stderr.strip() == used


def test_the_overview_has_one_line_for_each_command() -> None:
    lines = succeed("--help").stdout.partition("Commands:\n")[2].splitlines()
    assert [line.split(maxsplit=1) for line in lines] == [[name, text] for name, text in COMMANDS.items()]
    assert all(len(line) <= 80 for line in lines)


def test_a_misspelled_command_is_corrected() -> None:
    assert "No such command 'explian'. Did you mean 'explain'?" in tagtrace("explian").output
    assert "No such command 'nonsense'." in tagtrace("nonsense").output


def test_version() -> None:
    assert succeed("--version").stdout == f"tagtrace, version {__version__}\n"


def test_the_wrong_way_to_call_a_command_shows_its_usage() -> None:
    for command in ("train", "predict only", "data check", "train a b --head mlp", "fly", "evaluate a b --epochs 3"):
        result = CliRunner().invoke(main, command.split())
        assert result.exit_code == 2
        assert result.stderr.startswith("Usage:")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_output_is_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        code = "from tagtrace.cli import main; main(prog_name='tagtrace')"
        run = subprocess.run([sys.executable, "-c", code, "--help"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (run.returncode, run.stderr) == (1, b"tagtrace: No space left on device; free some space and run again\n")


@pytest.fixture
def listening() -> Iterator[None]:
    """Ctrl-C does what it does in a terminal; what a shell starts in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_where_nothing_can_be_raised_is_not_lost() -> None:
    code = (
        "import signal, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from tagtrace.cli.main import main\n"
        "class Interrupted:\n"
        "    def __del__(self): signal.raise_signal(signal.SIGINT)\n"
        "@main.command\n"
        "def strike():\n"
        "    one = Interrupted()\n"
        "    del one\n"
        "    time.sleep(10)\n"
        "main.get_command = lambda *_: strike\n"
        "main(['data'])\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (130, "tagtrace: interrupted; run the same command again to resume\n")


@pytest.mark.usefixtures("listening")
@pytest.mark.parametrize("moment", ["make_context", "invoke"])
def test_ctrl_c_before_and_after_a_command_is_ctrl_c(monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    monkeypatch.setattr(Commands, moment, lambda *_, **__: signal.raise_signal(signal.SIGINT))
    refused(tagtrace("data", "check", __file__), "interrupted", status=130)


@pytest.mark.usefixtures("listening")
def test_ctrl_c_that_a_library_turns_into_another_error_is_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    def strike(*_: object, **__: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ValueError("what happened?") from None

    monkeypatch.setattr("tagtrace.cli.data.read_corpus", strike)
    refused(tagtrace("data", "check", __file__), "interrupted", status=130)
