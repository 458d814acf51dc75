"""Every opcode on every class of element types: native code and the evaluator agree, within what error bounds allow.

`python -m semantics` runs more of the same.
"""

from __future__ import annotations

from random import Random

import pytest
import semantics.families  # noqa: F401
from semantics.check import Setting, run_class
from semantics.sample import CLASSES, FAMILIES, TYPES, Sample

from hlotool.ir import HloError
from hlotool.ir.opcodes import SPELLED
from hlotool.ir.verifier import check
from hlotool.text.parser import parse

CELLS = [
    (opcode, name)
    for opcode in SPELLED
    for name, kinds in CLASSES.items()
    if any(set(family.types) & set(kinds) for family in FAMILIES.get(opcode, ()))
]
ILLEGAL = {
    o: [t for t in TYPES if not any(t in f.types for f in FAMILIES.get(o, ()))]
    for o in SPELLED
}
WRITTEN = {"partition-id", "replica-id"}
"""Without operands, and with a result of one type: tried as text."""


def test_every_opcode_has_a_family() -> None:
    assert set(FAMILIES) == set(SPELLED)


@pytest.mark.parametrize(("opcode", "name"), CELLS)
def test_native_code_and_evaluator_agree(opcode: str, name: str) -> None:
    failure = run_class(opcode, name, seed=CELLS.index((opcode, name)), examples=200)
    assert failure is None, str(failure)


@pytest.mark.parametrize(
    ("opcode", "name"),
    [("abs", "complex"), ("clamp", "complex"), ("convert", "float"), ("divide", "float"), ("reduce", "float")],
)
def test_they_flush_the_same_numbers(opcode: str, name: str) -> None:
    failure = run_class(opcode, name, seed=7, examples=20, setting=Setting(flush_denormals=True))
    assert failure is None, str(failure)


@pytest.mark.parametrize("opcode", ["clamp", "dot", "gather", "reduce-window", "scatter"])
def test_parameters_and_results_lie_in_any_order(opcode: str) -> None:
    failure = run_class(opcode, "float", seed=3, examples=20, setting=Setting(laid_out=True))
    assert failure is None, str(failure)


@pytest.mark.parametrize("opcode", [o for o, kinds in ILLEGAL.items() if kinds and o not in WRITTEN])
def test_illegal_types_are_refused(opcode: str) -> None:
    accepted = []
    for kind in ILLEGAL[opcode]:
        for family in FAMILIES[opcode]:
            sample = Sample(Random(1))
            sample.rng = Random(f"{opcode} {kind}")
            try:
                sample.results.append(family.draw(sample, opcode, kind))
                check(sample.finish())
            except HloError:
                continue
            except KeyError as error:  # the family wants a type that goes with it, and there is none
                if str(error.args[0]) in TYPES:
                    raise
                continue
            accepted.append(kind)
    assert not accepted


@pytest.mark.parametrize("opcode", sorted(WRITTEN))
def test_device_numbers_are_of_one_type(opcode: str) -> None:
    for kind in ILLEGAL[opcode]:
        with pytest.raises(HloError):
            check(parse(f"ENTRY main {{ ROOT number = {kind}[] {opcode}() }}"))
