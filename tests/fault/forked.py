"""Runs of commands as forks of one process that has imported everything, so that a run starts in milliseconds.

The process imports and does nothing else: threads of torch would not survive a fork. A fork has a folder, a process
group and a time limit of its own, and perhaps a ``Fault``: what befalls it.
"""

from __future__ import annotations

import codecs
import gc
import os
import resource
import select
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.fault import small

MEMORY = 8 * 2**30
"""Address space of a run in bytes: a number that is taken for a size must not take all memory."""
LIMIT = 40.0
"""Seconds after which a run hangs, if it had the processor for most of them."""
BUSY = 6
"""So many times as long may a run take that did not get the processor, because the machine does other things too."""
MOST_TEXT = 2_000_000
"""Bytes that are kept of what a run prints."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
EVENTS = {
    "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.link", "os.symlink",
    "shutil.rmtree", "shutil.move", "sqlite3.connect",
}  # fmt: skip
"""Audit events before which a run can be killed, beside opening to write, syncing and writing tensors."""


@dataclass(frozen=True)
class Fault:
    """What befalls a run."""

    signal: int = 0
    """Sent at one of the moments below."""
    at_event: int = 0
    """Before the n-th change of the disk."""
    at_bytes: int = 0
    """When a file grows beyond so many bytes: the run is killed in the middle of writing."""
    after: float = 0.0
    """After so many seconds."""
    full_at: int = 0
    """No file can grow beyond so many bytes, as on a full disk."""
    nobody: bool = False
    """Runs as a user who may read what everybody may."""
    no_output: bool = False
    """Standard output is a full disk."""
    encoding: str = ""
    """The encoding of the terminal, if it is not UTF-8."""


@dataclass(frozen=True)
class Outcome:
    """What became of a run."""

    status: int
    """The exit status; negative: the signal that ended it."""
    stdout: bytes
    stderr: bytes
    seconds: float
    timed_out: bool
    num_events: int
    """How many changes of the disk it began."""


def import_all() -> None:
    """Import what any command may need, and make what is large by default small."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in small.MODULES:
        import_module(name)
    main = import_module("tagtrace.cli.main")
    for name in main.COMMANDS:
        import_module(f"tagtrace.cli.{name.replace('-', '_')}")
    for name in ("utf-8-sig", "latin-1", "ascii", "utf-16", "idna"):
        codecs.lookup(name)
    small.make_small()
    gc.freeze()


def run(
    argv: Sequence[str], folder: Path, fault: Fault | None = None, *, limit: float = LIMIT,
    during: Callable[[Path, int], Any] | None = None,
) -> Outcome:  # fmt: skip
    """Run ``tagtrace`` with arguments in a folder.

    ``during`` is called with its standard output, a file that grows, and its number while it runs.
    """
    aside = folder.parent / "streams"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    fault, start = fault or Fault(), time.monotonic()
    sys.stdout.flush()
    sys.stderr.flush()
    streams = {name: os.pipe() for name in ("stdout", "stderr", "events")}
    child = os.fork()
    if child == 0:
        _become(list(argv), folder, {name: pipe[1] for name, pipe in streams.items()}, fault)
    for pipe in streams.values():
        os.close(pipe[1])
    texts = dict.fromkeys(streams, b"")
    reader = threading.Thread(target=_read, args=({pipe[0]: name for name, pipe in streams.items()}, texts, aside))
    killer = threading.Timer(fault.after, _send, (child, fault.signal)) if fault.after else None
    for thread in (reader, killer):
        if thread is not None:
            thread.start()
    try:
        timed_out, status = _waited(child, aside, limit, during)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # processes that it has left behind
        if killer is not None:
            killer.cancel()
            killer.join()
        reader.join()  # no fork beside another thread
    return Outcome(status, texts["stdout"], texts["stderr"], time.monotonic() - start, timed_out, len(texts["events"]))


def _waited(
    child: int, aside: Path, limit: float, during: Callable[[Path, int], Any] | None
) -> tuple[bool, int]:  # fmt: skip
    """Whether the limit was reached, and the exit status."""
    end = os.pidfd_open(child)
    try:
        if during is not None:
            during(aside / "stdout", child)
        is_done = _has_ended(child, end, limit)
        if not is_done:
            os.killpg(child, signal.SIGKILL)
    finally:
        os.close(end)
    return not is_done, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _has_ended(child: int, end: int, limit: float) -> bool:
    """Whether a run ends before it has used so many seconds of the processor, or has taken several times as many."""
    start, is_done = time.monotonic(), bool(select.select([end], [], [], limit)[0])
    while not is_done and _seconds_used(child) < limit / 2 and time.monotonic() - start < BUSY * limit:
        is_done = bool(select.select([end], [], [], limit / 4)[0])
    return is_done


def _seconds_used(child: int) -> float:
    """Seconds of the processor that a process and its children that have ended have used."""
    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _send(child: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(child, number)


def _read(pipes: dict[int, str], texts: dict[str, bytes], aside: Path) -> None:
    """Read the streams of a run until all are closed; standard output is also kept as a file."""
    with (aside / "stdout").open("wb", buffering=0) as copy:
        while pipes:
            for pipe in select.select(list(pipes), [], [])[0]:
                piece = os.read(pipe, 65_536)
                name = pipes[pipe]
                if len(texts[name]) < MOST_TEXT:
                    texts[name] += piece
                if name == "stdout":
                    copy.write(piece)
                if not piece:
                    os.close(pipe)
                    del pipes[pipe]


def _become(arguments: list[str], folder: Path, streams: dict[str, int], fault: Fault) -> None:
    """What the fork does; it does not return."""
    status = 1
    try:
        os.setsid()
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(os.open("/dev/full", os.O_WRONLY) if fault.no_output else streams["stdout"], 1)
        os.dup2(streams["stderr"], 2)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        os.chdir(folder)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _befall(fault, streams["events"])
        status = _main(arguments)
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        status = 1
    with suppress(BaseException):
        sys.stderr.flush()
    os._exit(status)


def _main(arguments: list[str]) -> int:
    """The exit status of the command, as Python itself would give it."""
    sys.argv = ["tagtrace", *arguments]
    try:
        import_module("tagtrace.cli").main(args=arguments, prog_name="tagtrace")
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    return 0


def _befall(fault: Fault, events: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _count_events(fault, events)
    if fault.encoding:
        sys.stdout.reconfigure(encoding=fault.encoding, errors="strict")  # pyright: ignore
        sys.stderr.reconfigure(encoding=fault.encoding, errors="backslashreplace")  # pyright: ignore
    if fault.at_bytes or fault.full_at:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if fault.at_bytes else signal.SIG_IGN)
        size = fault.at_bytes or fault.full_at
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    if fault.nobody and os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)


def _count_events(fault: Fault, file: int) -> None:
    """Write one byte for each change of the disk, and send the signal before the one it is meant for."""
    count = 0

    def happened() -> None:
        nonlocal count
        count += 1
        if count == fault.at_event:
            os.kill(os.getpid(), fault.signal)
        os.write(file, b".")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in EVENTS or (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES):
            happened()

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def around(*arguments: Any, **named: Any) -> Any:
            happened()
            found = function(*arguments, **named)
            happened()
            return found

        return around

    sys.addaudithook(hook)
    os.fsync = counted(os.fsync)
    for name in ("tagtrace._tensor_files", "tagtrace.tagger.folder", "tagtrace.tagger.encoders.lexical"):
        module = import_module(name)
        if hasattr(module, "save_file"):
            module.save_file = counted(module.save_file)  # pyright: ignore
