"""What compiling costs grows with the module and no faster, whatever the module is made of.

Work is counted, in function calls: nothing here depends on how busy the machine is.
"""

from __future__ import annotations

import cProfile
from collections import Counter
from collections.abc import Callable

import pytest
from growth import KINDS, stages

from hlotool.analysis import fusibility
from hlotool.codegen.kernel import PLUMBING
from hlotool.codegen.llvm import inline
from hlotool.codegen.machine import host
from hlotool.codegen.program import build
from hlotool.driver import optimise
from hlotool.ir import Computation
from hlotool.text.parser import parse

LEAST = 2000  # calls below which growth says nothing
SIZES = {
    "call_tree": 16, "call_tree_in_a_reducer": 16, "chain": 60, "concatenate_computed": 120,
    "conditionals_that_share_a_branch": 10, "deep_graph_of_sines": 48, "large_fusion": 60,
    "reduce_of_many_operands": 80,
}  # fmt: skip
"""Above what the compiler does to small modules alone."""

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
    _work(KINDS[kind](n))  # what the first compilation does once
    one, two, four = (_work(KINDS[kind](size)) for size in (n, 2 * n, 4 * n))
    for stage in one:
        first, second = two[stage] - one[stage], four[stage] - two[stage]
        assert second < 2.3 * first + LEAST, (stage, one[stage], two[stage], four[stage])


@pytest.mark.parametrize("kind", ["concatenate_parameters", "concatenate_columns"])
def test_kernels_of_many_arrays_are_loops_over_tables(kind: str) -> None:
    """LLVM's time for code in line grows faster than the code."""

    def lines(n: int) -> int:
        texts = build(optimise(parse(KINDS[kind](n)), "default,lowering"), host()).texts
        functions = "\n".join(texts).split("\ndefine ")[1:]
        return sum(text.count("\n") for text in functions if PLUMBING not in text)

    assert 0 < lines(200) == lines(400)


def test_loops_carry_only_so_much() -> None:
    """LLVM's time for a loop grows with the square of what it carries."""

    def carried(n: int) -> int:
        texts = build(optimise(parse(KINDS["reduce_of_many_operands"](n)), "default,lowering"), host()).texts
        return max(text.count(" = phi ") for text in "\n".join(texts).split("\ndefine "))

    assert 0 < carried(200) == carried(400)


@pytest.mark.parametrize("pipeline", ["none", "default"])
@pytest.mark.parametrize("fused", [False, True])
def test_a_loop_chooses_among_few_operands_of_concatenates(pipeline: str, fused: bool) -> None:
    """However many there are in all, nested or side by side, and whoever fused them."""
    given = [f"p{i} = f32[5] parameter({i})" for i in range(180)]
    body = list(given)
    for k in range(15):
        body.append(f"c{k} = f32[60] concatenate({_named(range(12 * k, 12 * k + 12))}), dimensions={{0}}")
        body.append(f"n{k} = f32[60] negate(c{k})")
    joined = ", ".join(f"n{k}" for k in range(15))
    body.append(f"all = f32[900] concatenate({joined}), dimensions={{0}}\nROOT r = f32[900] tanh(all)")
    text, lines = "HloModule m\n", body
    if fused:
        text += "f {\n" + "\n".join(body) + "\n}\n"
        lines = [*given, f"ROOT r = f32[900] fusion({_named(range(180))}), kind=kLoop, calls=f"]
    module = optimise(parse(text + "ENTRY e {\n" + "\n".join(lines) + "\n}\n"), f"{pipeline},lowering")
    bodies = [i.attributes["calls"] for i in module.entry if i.opcode == "fusion"]
    choices = [sum(len(i.operands) for i in body if i.opcode == "concatenate") for body in bodies]
    assert sum(i.opcode == "concatenate" for c in module.computations.values() for i in c) == 16
    assert max(choices, default=0) <= fusibility._MOST_SOURCES


def _named(numbers: range) -> str:
    return ", ".join(f"p{i}" for i in numbers)


def test_calls_do_not_keep_the_addresses_of_everything() -> None:
    """The time that LLVM takes for each call grows with what is kept over it."""
    module = optimise(parse(KINDS["results_that_are_one_parameter"](200)), "default,lowering")
    text = "".join(build(module, host()).texts).partition(PLUMBING)[2]
    assert "  call " in text
    assert text.partition("  call ")[0].count(" load ptr,") < 20


def test_called_computations_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many calls there are of them, and of what calls them."""
    counted = Counter[str]()
    usual = inline._written_out

    def written_out(computation: Computation, known: dict[Computation, int]) -> int:
        counted[computation.name] += computation not in known
        return usual(computation, known)

    monkeypatch.setattr(inline, "_written_out", written_out)
    _work(KINDS["call_tree_in_a_reducer"](12))
    assert counted
    assert max(counted.values()) <= 2  # the reduction's vectors, and what is left
