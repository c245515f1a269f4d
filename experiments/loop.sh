#!/bin/sh
# The loop of decisions that teach, all tasks and three seeds, on a GPU with 16 cores: sh experiments/loop.sh DATA ENCODER OUT
# Finished tasks are kept in OUT/SEED/work, so that the same command resumes.
set -u
data=$1 encoder=$2 out=$3
export PYTHONPATH=src OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false PYTHONUNBUFFERED=1
mkdir -p "$out"
if command -v nvidia-cuda-mps-control >/dev/null; then nvidia-cuda-mps-control -d || true; fi
for seed in ${SEEDS:-0 1 2}; do
    (
        python experiments/reproduce.py loop --data "$data" --encoder "$encoder" --out "$out/$seed" --seeds "$seed" --jobs "${JOBS:-5}" \
            >"$out/loop-$seed.log" 2>&1
        echo "loop $seed: exit $?" | tee -a "$out/loop-$seed.log"
        cp "$out/$seed"/loop-*.json "$out" 2>/dev/null
        tar czf "$out/tasks-$seed.tar.gz" -C "$out/$seed/work" $(cd "$out/$seed/work" 2>/dev/null && ls -d */result.json 2>/dev/null)
    ) &
done
wait
