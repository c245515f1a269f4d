#!/bin/sh
# What needs a GPU about the whole tagger, within half an hour on an H200 with 16 cores:
#     sh experiments/whole_tagger.sh DATA ENCODER OUT [PEERS]
# ENCODER is the folder of a transformer; PEERS holds kronfluence and trak, with what they import, as source.
# What earlier trainings answered (experiments/results/paper/h200/*.safetensors) is used again. Results, and what new
# trainings answered, are copied to OUT as they are finished; WORK (default: OUT/work) keeps the rest. QUICK=--quick
# tries the script on a small slice.
set -u
data=$1 encoder=$2 out=$3 peers=${4:-} work=${WORK:-$3/work} quick=${QUICK:-}
export PYTHONPATH="src${peers:+:$peers}" OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false PYTHONUNBUFFERED=1
mkdir -p "$out" "$work"
if [ -z "$quick" ] && command -v nvidia-cuda-mps-control >/dev/null; then nvidia-cuda-mps-control -d || true; fi

# reproduce NAME SEED JOBS: one experiment with one seed, in a folder of its own
reproduce() {
    folder=$work/$1-$2
    mkdir -p "$folder"
    [ -n "$quick" ] || cp -n experiments/results/paper/h200/"$1-$2"-*.safetensors "$folder" 2>/dev/null
    python experiments/reproduce.py "$1" --data "$data" --encoder "$encoder" --out "$folder" --seeds "$2" --jobs "$3" $quick \
        >"$out/$1-$2.log" 2>&1
    echo "$1 $2: exit $?" | tee -a "$out/$1-$2.log"
    find "$folder" -maxdepth 1 -name '*.json' -exec cp {} "$out" \;
    tar czf "$out/answers-$1-$2.tar.gz" -C "$folder" $(cd "$folder" && ls | grep -E 'safetensors$|-removed.json$|-flipped.json$') 2>/dev/null
}

[ -n "$quick" ] || python benchmarks/whole.py "$encoder" --out "$out/whole.json" >"$out/whole.log" 2>&1 # alone: it is timed
reproduce directed 0 "${JOBS:-14}" &
for seed in 0 1 2; do
    reproduce noise $seed 1 &
    reproduce artifact $seed 1 &
done
(
    # beside the others' trainings; one at a time, because predictions need up to 60 GB
    reproduce lds 1 1
    reproduce lds 2 1
) &
wait
