#!/bin/bash
# Gates the samples in continuous integration: numbers, fusions, normal forms and exit codes, which the comments of the
# files in this directory expect.  HLOTOOL is the command to check (hlotool).
#
#   samples/regression/check.sh --junit report.xml
#   samples/regression/check.sh --update            accepts a change on purpose
exec ${HLOTOOL:-hlotool} check "$(cd "$(dirname "$0")" && pwd)" "$@"
