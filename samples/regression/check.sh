#!/bin/bash
# Gates the samples in continuous integration: numbers, fusions, normal forms, dumps and exit codes.
#
#   samples/regression/check.sh [DIRECTORY OF THE SAMPLES]
#
# HLOTOOL is the command to check (hlotool), PASSES the pipeline that must do the job (default).
# Prints a line per check; exits 1 if one failed.  To accept a change on purpose, write the files in expected/ anew.

set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
samples=$(cd "${1:-$here/..}" && pwd)
hlotool=${HLOTOOL:-hlotool}
passes=${PASSES:-default}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

check() { # check WHAT COMMAND...: the command must succeed
    local what=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        echo "ok    $what"
    else
        echo "FAIL  $what"
        sed 's/^/      /' "$work/log" | head -20
        failures=$((failures + 1))
    fi
}

ends_with() { # ends_with CODE COMMAND...: the command must end with this exit code
    local wanted=$1 code=0
    shift
    "$@" || code=$?
    [ "$code" -eq "$wanted" ] || { echo "exit code $code instead of $wanted"; return 1; }
}

count_is() { # count_is NUMBER PATTERN FILE: so many lines match
    local found
    found=$(grep -c -- "$2" "$3")
    [ "$found" -eq "$1" ] || { echo "$found lines with '$2' instead of $1:"; grep -- "$2" "$3"; return 1; }
}

# Every module is valid, and comes out of the compiler with the numbers that the reference evaluator gives.
check "all samples are valid" $hlotool verify "$samples"/*.hlo
for sample in mlp_step lstm_cell attention; do
    check "$sample: right numbers" $hlotool run "$samples/$sample.hlo" -p "$passes" --compare evaluate -o "$work/out.npz"
done

# Known inputs give the outputs that were saved.
check "mean: saved outputs" $hlotool run "$samples/mean.hlo" -p "$passes" \
    --input x=2 --input y=1 --compare "$here/expected/mean.npz"
check "while_loop: saved outputs" $hlotool run "$samples/while_loop.hlo" -p "$passes" \
    --input matrix=iota --compare "$here/expected/while_loop.npz"

# What must be fused is fused, and what must vanish has vanished.
optimised() { $hlotool opt "$samples/$1.hlo" -p "$passes" -o "$work/$1.hlo"; }
check "mean: passes run" optimised mean
check "mean: one fusion" count_is 1 ' fusion(' "$work/mean.hlo"
check "mlp_step: passes run" optimised mlp_step
check "mlp_step: no transposes" count_is 0 ' transpose(' "$work/mlp_step.hlo"
check "mlp_step: five dots" count_is 5 ' dot(' "$work/mlp_step.hlo"

# A single pass does what it did before, to the letter, also in a pipe.
duplicates() { $hlotool opt - -p cse,dce <"$here/duplicates.hlo" | diff "$here/expected/duplicates.hlo" -; }
check "duplicates: cse and dce" duplicates
check "normal form" $hlotool fmt --check "$here/expected/duplicates.hlo"

# Dumps are written, and the same every time.
dumped() { $hlotool opt "$samples/mean.hlo" -p "$passes" --dump-to "$work/$1" -o "$work/dumped.hlo"; }
check "dumps: first time" dumped first
check "dumps: second time" dumped second
check "dumps: the same bytes" diff -r "$work/first" "$work/second"
check "dumps: index" grep -q '"pass": "input"' "$work/first/manifest.json"

# Exit codes.
printf 'HloModule broken\nENTRY main {\n  ROOT x = f32[2] parametre(0)\n}\n' >"$work/broken.hlo"
check "exit 1: outputs differ" ends_with 1 $hlotool run "$samples/mean.hlo" --input x=1 --input y=1 \
    --compare "$here/expected/mean.npz"
check "exit 2: no such pass" ends_with 2 $hlotool opt "$samples/mean.hlo" -p no-such-pass
check "exit 3: broken module" ends_with 3 $hlotool verify "$work/broken.hlo"
check "exit 4: unknown custom call" ends_with 4 $hlotool compile "$here/unknown_call.hlo"

[ "$failures" -eq 0 ] && echo "all checks passed" && exit 0
echo "$failures checks failed"
exit 1
