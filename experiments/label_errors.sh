#!/bin/sh
# All of experiments/label_errors.py, many at a time: sh experiments/label_errors.sh DATA ENCODER OUT [SEEDS] [TASKS]
set -eu
data=$1 encoder=$2 out=$3 seeds=${4:-0 1 2} tasks=${5:-reiss noise} work=${WORK:-$3/work} together=${TOGETHER:-12}
export PYTHONPATH=src OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
mkdir -p "$out" "$work"
each() { xargs -P "$together" -L 1 python experiments/label_errors.py; }
options="--data $data --encoder $encoder --work $work --out $out"
for seed in $seeds; do for task in $tasks; do for part in all 0 1 2 3 4; do echo "train $task $seed $part $options"; done; done; done | each
export OMP_NUM_THREADS=4
for step in audit judge; do
    for seed in $seeds; do for task in $tasks; do echo "$step $task $seed $options"; done; done | each
done
case $tasks in *reiss*) ;; *) exit 0 ;; esac
export OMP_NUM_THREADS=1
for again in 0 1 2 3; do
    for seed in $seeds; do
        for by in none random cleanlab cleanlab-taught combined all; do echo "fix reiss $seed $by --again $again $options"; done
    done
done | each
