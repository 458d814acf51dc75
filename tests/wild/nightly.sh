#!/bin/sh
# Record what the programs of tests/wild compile to, judge it, and judge mutants of it.
#
#   tests/wild/nightly.sh JAX_PYTHON STORE [MUTANTS]
#
# JAX_PYTHON has jax and as many of the libraries of requirements.txt as install; the python in the path has hlotool.
# STORE is kept from night to night: modules that are known are not recorded or judged again.  Ends with 1 when a
# module or a mutant is a mismatch, a crash, a timeout or undecided.
set -u
jax=$1 store=$2 mutants=${3:-20000}
here=$(dirname "$0")
export HLOTOOL_XLA_PYTHON="$jax" HLOTOOL_CACHE=off HLOTOOL_STRICT=1
for file in "$here"/programs/[a-z]*.py; do
    name=$(basename "$file" .py)
    # A process for each file: libraries may crash, and do not give memory back.
    case $name in devices*) count=8 ;; *) count=1 ;; esac
    "$jax" "$here/recorder.py" "$store" "$count" "$name"
done
cd "$here/../.." || exit 2
python -m tests.wild.sweep "$store"
modules=$?
python -m tests.fuzz.model_sweep "$store" --count "$mutants" --seed "$(date +%Y%m%d)" --xla 20 --forms 300 --log "$store/mutants.jsonl"
exit $((modules || $?))
