"""Let coverage guide the choice of files, with atheris: python -m tests.fuzz.guided READER --runs 1000000 --corpus DIR

DIR is filled with files made at random, and afterwards holds those that reached new code. A file that a reader fails
on is kept as DIR/crash-*. Install atheris first: pip install -c constraints.txt atheris
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from pathlib import Path
from random import Random

NUM_FIRST = 300


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reader")
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--corpus", type=Path, required=True)
    given = parser.parse_args()
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["tagtrace"]):
        from tests.fuzz.readers import READERS, check  # noqa: PLC0415
    reader = {reader.name: reader for reader in READERS}[given.reader]
    given.corpus.mkdir(parents=True, exist_ok=True)
    for number in range(NUM_FIRST):
        (given.corpus / f"random-{number}").write_bytes(reader.make(Random(number)))
    path = Path(tempfile.mkdtemp()) / "file"
    names = [f"-runs={given.runs}", "-max_len=4096", f"-artifact_prefix={given.corpus}/", str(given.corpus)]
    atheris.Setup([sys.argv[0], *names], lambda data: bool(check(reader, data, path)) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
