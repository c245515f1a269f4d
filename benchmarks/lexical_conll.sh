#!/usr/bin/env bash
# Time, memory and dev F1 of the offline tagger on all of CoNLL-2003 train.
#   bash benchmarks/lexical_conll.sh ../shared/data > benchmarks/results/lexical_conll.log 2>&1
set -euo pipefail
data=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
python - "$data" "$out" <<'PYTHON' 2>&1 | sed "s#$out#OUT#g; s#$data#DATA#g"
import resource, subprocess, sys, time

data, out = sys.argv[1:]
command = ["tagtrace", "train", f"{data}/conll2003/train.txt.gz", f"{out}/tagger", "--dev", f"{data}/conll2003/dev.txt.gz",
           "--epochs", "6", "--batch-size", "32", "--schedule", "linear", "--keep", "last", "--device", "cpu"]
print("$", *command, flush=True)
start = time.monotonic()
subprocess.run(command, check=True)
seconds = time.monotonic() - start
print(f"{seconds:.0f} s, {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6:.2f} GB at most", flush=True)
PYTHON
