"""What compiling costs grows with the module and no faster, whatever the module is made of.

Work is counted, in function calls: nothing here depends on how busy the machine is.
"""

from __future__ import annotations

import cProfile
from collections.abc import Callable

import pytest
from growth import KINDS, stages

from hlotool.text.parser import parse

LEAST = 2000  # calls below which growth says nothing
SIZES = {
    "call_tree": 16, "call_tree_in_a_reducer": 16, "chain": 60, "concatenate_computed": 120,
    "conditionals_that_share_a_branch": 10, "deep_graph_of_sines": 48, "large_fusion": 60,
}  # fmt: skip
"""Above what the compiler does to small modules alone."""

QUADRATIC = {("scatter_of_many_operands", "build")}  # buffer assignment compares every operand with all others


def _calls(work: Callable[[], object]) -> int:
    profile = cProfile.Profile()
    profile.runcall(work)
    return sum(row.callcount for row in profile.getstats())


def _work(text: str) -> dict[str, int]:
    module = parse(text)
    found = {"parse": _calls(lambda: parse(text))}
    for name, work in stages(module).items():
        found[name] = _calls(work)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_work_is_linear(kind: str) -> None:
    n = SIZES.get(kind, 24)
    _work(KINDS[kind](2))  # what the first compilation does once
    one, two, four = (_work(KINDS[kind](size)) for size in (n, 2 * n, 4 * n))
    for stage in one:
        first, second = two[stage] - one[stage], four[stage] - two[stage]
        most = 4.6 if (kind, stage) in QUADRATIC else 2.3
        assert second < most * first + LEAST, (stage, one[stage], two[stage], four[stage])
