#!/usr/bin/env bash
# Audit the training data TRAIN, given the checked data TRUSTED (or nothing), with a tagger trained for EPOCHS epochs. The audit
# goes to the folder OUT, what it says to the file GITHUB_STEP_SUMMARY. Fails if the proposed labels are likelier than the
# given ones in more than MOST_LIKELY_WRONG findings (empty: never).
set -euo pipefail

: "${TRAIN:?}" "${OUT:?}" "${GITHUB_STEP_SUMMARY:?}"
limit=${MOST_LIKELY_WRONG:-}
if [[ ! $limit =~ ^[0-9]*$ ]]; then
    echo "most-likely-wrong '$limit': must be a whole number, or empty" >&2
    exit 2
fi
for path in "$TRAIN" ${TRUSTED:+"$TRUSTED"}; do # a link could show a file of the machine in the summary
    case $(realpath -- "$path") in
        "$(realpath .)"/.git/*) ;;
        "$(realpath .)"/*) continue ;;
    esac
    echo "$path: is not in the checkout" >&2
    exit 2
done
export COLUMNS=120
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tagtrace train --epochs "${EPOCHS:-10}" --schedule linear --keep last -- "$TRAIN" "$work/tagger"
tagtrace index --seeds 0 -- "$work/tagger" "$TRAIN" "$work/index"
tagtrace audit --effects 0 --out "$OUT" ${TRUSTED:+--trusted "$TRUSTED"} -- "$work/index" | tee "$work/said"

likely=$(python -I -c 'import sys, tagtrace; print(len(tagtrace.Audit.load(sys.argv[1]).likely))' "$OUT")
{
    echo "## Audit of training labels"
    echo
    echo "In $likely findings the proposed labels are likelier than the given ones."
    echo
    sed 's/^/    /' "$work/said" # an indented block is code to its end, whatever the data says
} >> "$GITHUB_STEP_SUMMARY"
if [[ -n $limit ]] && ((likely > 10#$limit)); then
    echo "$likely findings whose proposed labels are likelier than the given ones, at most $limit are allowed: see the summary" >&2
    exit 1
fi
