"""Try every reader with random files: python -m tests.fuzz --files 1000000 --out fuzz.json

The summary, a row for each reader, is written after every 10,000 files; the same command goes on where it was stopped.
The first file that a reader fails on is kept beside the summary and printed, and the exit status is then 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.readers import READERS, Reader, check

AT_ONCE = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000, help="for each reader")
    parser.add_argument("--readers", nargs="*", help="only these")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("fuzz.json"))
    given = parser.parse_args()
    summary = json.loads(given.out.read_text()) if given.out.exists() else {"seed": given.seed, "readers": {}}
    if summary["seed"] != given.seed:
        sys.exit(f"{given.out}: was made with seed {summary['seed']}; choose another --out, or the same seed")
    for reader in READERS:
        if not given.readers or reader.name in given.readers:
            _run(reader, given.files, given.seed, summary["readers"], given.out, summary)
    sys.exit(any(row["failed"] for row in summary["readers"].values()))


def _run(reader: Reader, wanted: int, seed: int, rows: dict[str, Any], out: Path, summary: dict[str, Any]) -> None:
    row = rows.setdefault(reader.name, {"files": 0, "read": 0, "failed": 0, "seconds": 0.0})
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        path = Path(folder) / f"file{reader.suffix}"
        while row["files"] < wanted:
            start, first = time.monotonic(), row["files"]
            for number in range(first, min(first + AT_ONCE, wanted)):
                row["read"] += _try(reader, path, f"{reader.name}-{seed}-{number}", row, out)
                row["files"] += 1
            row["seconds"] = round(row["seconds"] + time.monotonic() - start, 1)
            out.write_text(json.dumps(summary, indent=1) + "\n")
            print(f"{reader.name}: {row}", file=sys.stderr, flush=True)


def _try(reader: Reader, path: Path, seed: str, row: dict[str, Any], out: Path) -> bool:
    data = reader.make(Random(seed))
    try:
        return check(reader, data, path)
    except Exception:
        row["failed"] += 1
        if row["failed"] == 1:
            kept = out.with_name(f"{out.stem}-{reader.name.replace(' ', '-')}.bin")
            kept.write_bytes(data)
            print(f"{reader.name}, seed {seed}, kept as {kept}:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
        return False


if __name__ == "__main__":
    main()
