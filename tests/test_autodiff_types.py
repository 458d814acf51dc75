"""Derivatives of every opcode that has some, in every float type that it takes.

Those in c128 are compared with differences; those in f32, bf16, f16 and c64 with those in f64 and c128, which are
compared with differences here or in ``test_autodiff_rules.py``, at the same numbers.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from derivative_cases import CASES, REDUCERS
from derivatives import check, inputs, module_of, noise, run

import hlotool
from hlotool.ir import ELEMENT_TYPES, HloError, Module, UnsupportedError, dtype_of
from hlotool.ir.elementwise import ELEMENTWISE_OPCODES
from hlotool.ir.opcodes import SPELLED
from hlotool.passes.autodiff import jvp_module, vjp_module
from hlotool.passes.autodiff.collectives import RULES as COLLECTIVES
from hlotool.passes.autodiff.elementwise import BINARY, UNARY
from hlotool.passes.autodiff.table import REFUSED, REWRITTEN, RULES, ZERO

COMPUTATIONS = {text.split(" ", 1)[0]: text for text in re.split(r"\n(?=\w+ \{)", "\n" + REDUCERS.strip()) if text}
BOUNDS = {"f32": 2e-4, "bf16": 0.1, "f16": 0.03, "c64": 2e-4}
ONLY_REAL = re.compile(
    r"c128\[\S* (maximum|minimum|complex|reduce-precision|topk|batch-norm-\w+|ceil|floor|round-nearest-\w+)\("
    r"|compare\((a, b|a, one)\)|R?FFT|c128\[\S* convert\(x\)|s32\[\S* convert\(x\)|(max|min)imum"
)
"""What there is of real numbers alone, in a text in which they are complex."""


def used(body: str) -> str:
    """The computations that a body calls, in the order in which they are written."""
    found: set[str] = set()
    waiting = [body]
    while waiting:
        text = waiting.pop()
        for name in set(re.findall(r"\w+", text)) & COMPUTATIONS.keys() - found:
            if re.search(rf"(=|\{{|, ){name}\b(?! =)", text):
                found.add(name)
                waiting.append(COMPUTATIONS[name].split("{", 1)[1])
    return "\n\n".join(text for name, text in COMPUTATIONS.items() if name in found)


def in_type(name: str, element_type: str) -> Module:
    """A case in another type; complex numbers become those of this type's size.  HloError where there is none."""
    body = CASES[name][0]
    before = used(body)
    pair = {"f32": "c64", "c64": "c64", "c128": "c128", "f64": "c128"}.get(element_type, "no_type")
    body, before = (text.replace("c128", pair).replace("f64", element_type) for text in (body, before))
    return verified(module_of(body, before))


def verified(module: Module) -> Module:
    hlotool.verify(module)
    return module


def narrowed(module: Module, wide: Module, bound: float) -> None:
    """Both modes of `module` against those of `wide`, at the same numbers."""
    arrays = inputs(module)
    wrt = [n for n, p in enumerate(module.entry.parameters) if ELEMENT_TYPES[p.shape.element_type].kind != "signed"]
    rng = np.random.default_rng(5)
    results = [one for one in map(np.asarray, run(module, arrays)) if one.dtype.kind in "fcV"]
    moved = [noise(rng, arrays[n]) for n in wrt]
    back = [noise(rng, one) for one in results]
    for derivative, more in ((jvp_module, moved), (vjp_module, back)):
        given = [*arrays, *more]
        own = derivative(module, wrt)
        other = derivative(wide, wrt)
        widened = [
            one.astype(dtype_of(p.shape.element_type)) for one, p in zip(given, other.entry.parameters, strict=True)
        ]
        for got, wanted in zip(run(own, given), run(other, widened), strict=True):
            got, wanted = np.asarray(got), np.asarray(wanted)
            if wanted.size and wanted.dtype.kind in "fc":
                assert np.abs(got.astype(wanted.dtype) - wanted).max() <= bound * max(1.0, np.abs(wanted).max())


def test_every_rule_is_tried() -> None:
    """Each opcode with a derivative is in a case, or is tried by itself; so is each that is rewritten."""
    tried = {*UNARY, *BINARY, "sign", "stochastic-convert", "domain", "add-dependency", "custom-call", *COLLECTIVES}
    for name in CASES:
        tried |= {one.opcode for one in in_type(name, "f64").instructions()}
    assert set(RULES) <= tried
    asynchronous = {name for name in REWRITTEN if name.endswith(("-start", "-done", "-update"))}
    sizes = {"dynamic-reshape", "set-dimension-size"}
    assert set(REWRITTEN) - asynchronous - sizes - {"scaled-dot"} <= tried


def test_what_has_no_derivative() -> None:
    """Integers and truth values have none, nor have steps; the rest leaves the program or is not known."""
    steps = {name for name, row in ELEMENTWISE_OPCODES.items() if row.steps} - {"sign"}
    discrete = {name for name, row in ELEMENTWISE_OPCODES.items() if not row.kinds & {"float", "complex"}}
    decisions = {name for name, row in ELEMENTWISE_OPCODES.items() if row.result == "pred"}
    assert steps | discrete | decisions <= ZERO
    sources = {"constant", "iota", "parameter", "partition-id", "replica-id", "after-all", "infeed", "outfeed"}
    random = {"rng", "rng-bit-generator", "rng-get-and-update-state"}
    others = ZERO - steps - discrete - decisions - sources - random
    assert others == {"bitcast-convert", "get-dimension-size"}  # the bits of numbers, and sizes
    values = {"send", "send-done", "recv", "recv-done"}
    assert values <= set(REFUSED)
    assert {name for name in REFUSED if name in SPELLED} - values - set(REWRITTEN) <= set()


@pytest.mark.parametrize("name", CASES)
def test_complex_numbers(name: str) -> None:
    """What takes complex numbers in the place of real ones, against differences; in c64 against c128."""
    body = CASES[name][0]
    text = (body + used(body)).replace("f64", "c128")
    try:
        module = in_type(name, "c128")
    except HloError:
        assert ONLY_REAL.search(text), name
        return
    if "clamp(" in text:
        with pytest.raises(UnsupportedError, match=r"no derivative of clamp z: complex numbers have no order"):
            vjp_module(module, (0,))
        return
    check(module, inputs(module))
    narrowed(in_type(name, "c64"), module, BOUNDS["c64"])


@pytest.mark.parametrize("element_type", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("name", CASES)
def test_narrower_types(name: str, element_type: str) -> None:
    try:
        module = in_type(name, element_type)
    except HloError:
        assert element_type != "f32"
        assert "c128" in CASES[name][0]
        return
    narrowed(module, in_type(name, "f64"), BOUNDS[element_type])


@pytest.mark.parametrize("opcode", [*UNARY, *BINARY, "sign"])
def test_complex_numbers_of_single_precision(opcode: str) -> None:
    row = ELEMENTWISE_OPCODES[opcode]
    if "complex" not in row.kinds:
        with pytest.raises(HloError):
            elementwise(opcode, "c64")
        return
    module = elementwise(opcode, "c64")
    assert {p.shape.element_type for p in module.entry.parameters} == {"c64"}
    narrowed(module, elementwise(opcode, "c128"), BOUNDS["c64"])


def elementwise(opcode: str, element_type: str) -> Module:
    row = ELEMENTWISE_OPCODES[opcode]
    made = {"c64": "f32", "c128": "f64"}[element_type] if row.result == "part" else element_type
    lines = [f"{name} = {element_type}[5] parameter({n})" for n, name in enumerate(("x", "y")[: row.arity])]
    half = [f"{name}2 = {element_type}[5] add({name}, {name})" for name in ("x", "y")[: row.arity]]
    names = ", ".join(f"{name}2" for name in ("x", "y")[: row.arity])
    return verified(module_of("\n".join([*lines, *half, f"ROOT z = {made}[5] {opcode}({names})"])))
