"""What can be wrong with a file: a catalogue, applied to files in place."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

Mutate = Callable[[Path, Random], None]
"""Changes the file at a path."""


def missing(path: Path, _: Random) -> None:
    path.unlink()


def empty(path: Path, _: Random) -> None:
    path.write_bytes(b"")


def truncated(path: Path, rng: Random) -> None:
    os.truncate(path, rng.randrange(max(path.stat().st_size, 1)))


def cut_at_the_end(path: Path, rng: Random) -> None:
    os.truncate(path, max(path.stat().st_size - rng.randint(1, 3), 0))


def flipped(path: Path, rng: Random) -> None:
    """One byte is another one."""
    data = bytearray(path.read_bytes() or b"x")
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def flipped_in_time(path: Path, rng: Random) -> None:
    """As ``flipped``, but the file says that it was not changed."""
    status = path.stat()
    flipped(path, rng)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def inserted(piece: bytes) -> Mutate:
    def mutate(path: Path, rng: Random) -> None:
        data = path.read_bytes()
        at = rng.randint(0, len(data))
        path.write_bytes(data[:at] + piece + data[at:])

    return mutate


def replaced(data: bytes) -> Mutate:
    def mutate(path: Path, _: Random) -> None:
        path.write_bytes(data)

    return mutate


def doubled(path: Path, _: Random) -> None:
    path.write_bytes(path.read_bytes() * 2)


def folder(path: Path, _: Random) -> None:
    path.unlink()
    path.mkdir()


def pipe(path: Path, _: Random) -> None:
    path.unlink()
    os.mkfifo(path)


def loop(path: Path, _: Random) -> None:
    path.unlink()
    path.symlink_to(path.name)


def dangling(path: Path, _: Random) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def unreadable(path: Path, _: Random) -> None:
    """For whom the permissions count; see ``Fault.nobody``."""
    path.chmod(0)


def swapped(path: Path, _: Random, other: Path) -> None:
    """The file of another run."""
    shutil.copyfile(other, path)


ANY: dict[str, Mutate] = {
    "missing": missing,
    "empty": empty,
    "truncated": truncated,
    "cut at the end": cut_at_the_end,
    "one bit flipped": flipped,
    "one bit flipped, its time kept": flipped_in_time,
    "invalid UTF-8": inserted(b"\xff\xfe\xc3("),
    "NUL": inserted(b"\0" * 3),
    "control characters": inserted(b"\x1b]0;x\x07\x1b[31m"),
    "newlines": inserted(b"\n\n\r\n\x85\xe2\x80\xa8"),
    "deep nesting": replaced(b"[" * 200_000),
    "deep objects": replaced(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "one long line": replaced(b"a" * 3_000_000),
    "a picture": replaced(b"\x89PNG\r\n\x1a\n" + bytes(200)),
    "compressed": replaced(gzip.compress(b"{}")),
    "a compressed bomb": replaced(gzip.compress(bytes(40_000_000), 1)),
    "a number": replaced(b"7"),
    "doubled": doubled,
    "a folder": folder,
    "a pipe": pipe,
    "a link to itself": loop,
    "a dangling link": dangling,
    "unreadable": unreadable,
}

VALUES: tuple[str, ...] = (
    "null", "true", "-1", "0", "1e400", "NaN", "-Infinity", str(10**30), str(2**63), "-" + "9" * 5000, '""', '"x"',
    '"' + "y" * 70_000 + '"', '"\\u0000"', '"\\ud800"', '"\\u001b[31m"', '"../../x"', '"caf\u00e9"', "[]", "{}",
    "[null]", "[[[[]]]]", "1.5", "[" * 3000 + "]" * 3000, '{"__class__": 1}',
)  # fmt: skip
_HOLE = "@@hole@@"


def json_value(path: Path, rng: Random) -> None:
    """One value of a JSON document, or of a line, becomes another."""
    _edit_json(path, rng, lambda parent, key: parent.__setitem__(key, _HOLE), rng.choice(VALUES))


def json_key_removed(path: Path, rng: Random) -> None:
    _edit_json(path, rng, lambda parent, key: parent.__delitem__(key))


def json_key_added(path: Path, rng: Random) -> None:
    def add(parent: Any, key: Any) -> None:
        parent.__setitem__("not a key", _HOLE) if isinstance(parent, dict) else parent.append(parent[key])

    _edit_json(path, rng, add, rng.choice(VALUES))


def json_number(path: Path, rng: Random) -> None:
    """A number becomes a little different, so that its type is right and its value is not."""

    def nudge(parent: Any, key: Any) -> None:
        number = parent[key]
        if isinstance(number, int | float) and not isinstance(number, bool):
            parent[key] = rng.choice((number + 1, number - 1, -number, number * 1000 + 1))
        else:
            parent[key] = [number]

    _edit_json(path, rng, nudge, numbers=True)


def _edit_json(
    path: Path, rng: Random, edit: Callable[[Any, Any], None], value: str = "null", *, numbers: bool = False
) -> None:
    """Apply an edit at a place of the document that is drawn; texts that are not JSON lose a byte."""
    is_lines = path.suffix == ".jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if is_lines else [path.read_text(encoding="utf-8")]
    row = rng.randrange(max(len(lines), 1))
    try:
        saved = json.loads(lines[row])
    except (ValueError, IndexError):
        truncated(path, rng)
        return
    places = list(_places([saved]))[1:] or [([saved], 0)]
    if numbers:
        places = [(parent, key) for parent, key in places if type(parent[key]) in (int, float)] or places
    edit(*rng.choice(places))
    lines[row] = json.dumps(saved, ensure_ascii=False).replace(json.dumps(_HOLE), value)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _places(value: Any) -> Any:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


JSON: dict[str, Mutate] = {
    "a value replaced": json_value, "a key removed": json_key_removed, "a key added": json_key_added,
    "a number changed": json_number,
}  # fmt: skip


def tensor_header(path: Path, rng: Random) -> None:
    """The description of a tensor (its type, shape or place) is wrong."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    one = header[rng.choice([name for name in header if name != "__metadata__"])]
    key, value = rng.choice((
        ("dtype", "F64"), ("dtype", "F99"), ("shape", [10**12, 10**12]), ("shape", [-1]), ("shape", [1]),
        ("data_offsets", [0, 2**62]), ("data_offsets", [8, 4]), ("dtype", "I64"),
    ))  # fmt: skip
    one[key] = value
    packed = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(packed)) + packed + data[8 + size :])


def tensor_header_size(path: Path, rng: Random) -> None:
    data = path.read_bytes()
    path.write_bytes(struct.pack("<Q", rng.choice((0, 1, 2**40, 2**64 - 1))) + data[8:])


def tensor_renamed(path: Path, rng: Random) -> None:
    """A tensor has another name, so that one is missing and one is unknown."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    name = rng.choice([name for name in header if name != "__metadata__"])
    header["\u001b[31mother"] = header.pop(name)
    packed = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(packed)) + packed + data[8 + size :])


def tensor_not_numbers(path: Path, rng: Random) -> None:
    """Some bytes of the numbers are such that they are NaN in every floating format."""
    data = bytearray(path.read_bytes())
    (size,) = struct.unpack("<Q", bytes(data[:8]))
    at = rng.randrange(8 + size, len(data)) // 8 * 8
    data[at : at + 8] = b"\xff" * len(data[at : at + 8])
    path.write_bytes(data)


TENSORS: dict[str, Mutate] = {
    "a wrong header": tensor_header, "a wrong size of the header": tensor_header_size,
    "a tensor renamed": tensor_renamed, "not a number": tensor_not_numbers,
}  # fmt: skip


def sql(*statements: str) -> Mutate:
    def mutate(path: Path, _: Random) -> None:
        connection = sqlite3.connect(path)
        for statement in ("drop trigger decision_is_kept", "drop trigger decision_is_final", *statements):
            with suppress(sqlite3.Error):
                connection.execute(statement)
        connection.commit()
        connection.close()

    return mutate


TABLES: dict[str, Mutate] = {
    "no table": sql("drop table decision"),
    "no settings": sql("delete from setting"),
    "another data set": sql("update setting set value = 'other' where name = 'data'"),
    "labels of another type": sql("update decision set labels = '{\"a\": 1}' where id = 1"),
    "labels that are not JSON": sql("update decision set given = '[[[' where id = 2"),
    "deep labels": sql(f"update decision set given = '{'[' * 100_000}' where id = 2"),
    "a text for a number": sql("update decision set sentence_number = 'x' where id = 2"),
    "a huge number": sql(f"update decision set stop = {2**62} where id = 2"),
    "a negative number": sql("update decision set start = -5 where id = 2"),
    "an unknown action": sql("update decision set action = 'burn' where id = 1"),
    "control characters in a name": sql("update decision set reviewer = char(27) || '[31m' || char(10) where id = 1"),
    "undoes what is not there": sql("update decision set undoes = 999, action = 'undo' where id = 2"),
    "a wrong time": sql("update decision set time = 'yesterday' where id = 1"),
    "a column missing": sql("alter table decision drop column note"),
    "not UTF-8": sql("update decision set note = cast(x'fffe' as text) where id = 1"),
}  # fmt: skip


def number_in_text(path: Path, rng: Random) -> None:
    """A number of a table of text becomes one that cannot be used."""
    lines = path.read_text(encoding="utf-8").splitlines()
    row = rng.randrange(len(lines))
    parts = lines[row].split(" ")
    parts[-1] = rng.choice(("nan", "inf", "1e999", "x", "", "9" * 400, "0x10"))
    lines[row] = " ".join(parts)
    path.write_text("\n".join(lines), encoding="utf-8")


TEXT: dict[str, Mutate] = {"a number that is none": number_in_text}


def mutations_of(path: Path) -> dict[str, Mutate]:
    """What can be done to a file of its kind."""
    data = path.read_bytes()[:16]
    if path.suffix in (".json", ".jsonl"):
        return {**ANY, **JSON}
    if path.suffix == ".safetensors":
        return {**ANY, **TENSORS}
    if data.startswith(b"SQLite"):
        return {**ANY, **TABLES}
    return {**ANY, **TEXT} if path.suffix == ".txt" else ANY
