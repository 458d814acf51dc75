"""Which table knows which opcode: nobody adds a row to `ir/opcodes.py` and forgets what else there is to write.

Each `Table` says which opcodes must be in it; those that are not, for a reason, are in `HOLES`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import accuracy
import pytest
import semantics.families  # noqa: F401
from conftest import ROOT, environment
from semantics.sample import FAMILIES, TYPES, Sample

from hlotool.analysis import cost_rules
from hlotool.codegen.cpu.target import CPU
from hlotool.codegen.llvm.math import elementwise, integer
from hlotool.codegen.llvm.math.elements import constant
from hlotool.codegen.llvm.math.elementwise import emit_elementwise
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.loops.rules import FUSIBLE
from hlotool.codegen.machine import named
from hlotool.codegen.plan.steps import HOST, NO_KERNEL
from hlotool.evaluate import stochastic, truth_elementwise, truth_rules
from hlotool.evaluate.rules import RULES, SCALAR_RULES
from hlotool.ir import ELEMENT_TYPES, Module, Opcode, scalar, shape_elementwise, shape_inference, shape_written
from hlotool.ir.elementwise import ELEMENTWISE_OPCODES
from hlotool.ir.opcodes import COMMON_ATTRIBUTES, ELEMENTWISE, SPELLED
from hlotool.passes.framework.manager import run_pipeline
from hlotool.passes.framework.pipeline import parse_pipeline
from hlotool.passes.framework.registry import PIPELINES
from hlotool.text.proto import attributes as proto
from hlotool.text.values import READERS
from hlotool.text.writers import WRITERS


def _anything(row: Opcode) -> bool:
    return True


def _is_elementwise(row: Opcode) -> bool:
    return row.name in ELEMENTWISE


def _has_own_attributes(row: Opcode) -> bool:
    """Attributes that the reader of protocol buffers does not read for all opcodes alike."""
    return any(not a.kind.startswith("computation") and a.name != "result_accuracy" for a in row.attributes)


def _computes(row: Opcode) -> bool:
    applies = any(a.name in ("to_apply", "select") for a in row.attributes)
    return applies or row.group in ("elementwise", "reduction", "dot", "linalg", "rng", "sort")


def _takes_floats(row: Opcode) -> bool:
    return row.name not in ELEMENTWISE or "float" in ELEMENTWISE_OPCODES[row.name].kinds


def _is_function(row: Opcode) -> bool:
    """Of one operand: what can be measured in units of the last place."""
    return row.name in ELEMENTWISE and row.arity == 1 and _takes_floats(row)


def _bounded() -> set[str]:
    """Opcodes with bounds of their own, not those of any function of bits."""
    general = (truth_rules._declared, truth_elementwise.plain)
    own = {name for name, rule in truth_elementwise._RULES.items() if rule not in general} | {"compare"}
    return {n for n, rule in truth_rules.TRUTH.items() if (n in own if n in ELEMENTWISE else rule not in general)}


def _native() -> set[str]:
    return {*CPU.emitters, *FUSIBLE, *HOST, *NO_KERNEL, *_mathematics()}


def _mathematics() -> set[str]:
    special = elementwise._SPECIAL
    return {*special, *elementwise.FLOATS, *integer.INTEGERS}


def _measured() -> set[str]:
    rows = json.loads((ROOT / "man" / "accuracy.json").read_text(encoding="utf-8"))["native"]["rows"]
    kinds: dict[str, set[str]] = {}
    for row in rows:
        kinds.setdefault(row["function"], set()).add(row["kind"])
    return {function for function, measured in kinds.items() if measured == set(accuracy.KINDS)}


def _on_page(page: str) -> set[str]:
    """Opcodes with a line in the table of a manual page."""
    text = (ROOT / "man" / page).read_text(encoding="utf-8")
    (table,) = re.findall(r"^\.nf$(.*?)^\.fi$", text, re.DOTALL | re.MULTILINE)
    return {line.split()[0].replace("\\-", "-") for line in table.splitlines() if line[:1].strip()}


@dataclass(frozen=True, slots=True)
class Table:
    """A table by opcode: what `holds` gives must be all opcodes that it `wants`, but for those in `HOLES`."""

    holds: Callable[[], Iterable[str]]
    wants: Callable[[Opcode], bool] = _anything


def _inferred() -> set[str]:
    return {*shape_elementwise.ELEMENTWISE, *shape_inference._rules()}


TABLES = {
    "shapes": Table(lambda: {*_inferred(), *shape_written.WRITTEN, *shape_inference._checks()}),
    "inferred shapes": Table(_inferred, lambda row: "inferable" in row.traits),
    "protocol buffers": Table(lambda: proto._READERS, _has_own_attributes),
    "evaluator": Table(lambda: RULES),
    "evaluator, on arrays of scalars": Table(lambda: SCALAR_RULES, _is_elementwise),
    "error bounds": Table(_bounded, _takes_floats),
    "error bounds, on arrays of scalars": Table(lambda: truth_rules.SCALAR_TRUTH, lambda row: row.name in SCALAR_RULES),
    "stochastic bounds": Table(lambda: stochastic._RUNS),
    "cost": Table(lambda: cost_rules.RULES, _computes),
    "native code": Table(_native),
    "mathematics": Table(_mathematics, _is_elementwise),
    "semantics tests": Table(lambda: FAMILIES),
    "accuracy tests": Table(lambda: accuracy.FUNCTIONS, _is_function),
    "measured accuracy": Table(_measured, lambda row: row.name in accuracy.FUNCTIONS),
    "accuracy page": Table(lambda: _on_page("hlotool-accuracy.7"), lambda row: row.name in accuracy.FUNCTIONS),
    "opcodes page": Table(lambda: _on_page("hlotool-opcodes.7")),
}

LOWERED = {
    "async-to-sync": "async-start async-update async-done copy-start copy-done",
    "batch-norm-expander": "batch-norm-training batch-norm-inference batch-norm-grad",
    "dynamic-padder": "dynamic-reshape get-dimension-size set-dimension-size",
    "ragged-dot-decomposer": "ragged-dot",
    "scaled-dot-decomposer": "scaled-dot",
    "scan-expander": "scan",
}
"""Passes, and the opcodes that are gone after them: no native code is needed."""

HOLES: dict[str, dict[str, str]] = {
    "shapes": {"it has the shape that is written": "parameter"},
    "protocol buffers": {"read with the computations that are called": "call"},
    "evaluator": {"the interpreter has the argument": "parameter"},
    "evaluator, on arrays of scalars": {"has another number of dimensions than its operand": "bitcast-convert"},
    "error bounds": {
        "the interpreter has the argument": "parameter",
        "of bits: exact, or nothing is known": "bitcast-convert",
        "random bits say which of two numbers it is": "stochastic-convert",
        "random numbers are exact": "rng rng-bit-generator rng-get-and-update-state",
        "exact: what comes from outside": "infeed recv recv-done",
        "gives nothing that could be wrong": "outfeed send send-done",
    },
    "stochastic bounds": {"the interpreter has the argument": "parameter"},
    "cost": {
        "bodies are counted where they run": "call",
        "one addition for the device": "rng-get-and-update-state",
    },
    "native code": {f"lowered: {name}": opcodes for name, opcodes in LOWERED.items()},
    "accuracy tests": {
        "chooses, tests or converts: exact or rounded once": "real imag is-finite convert bitcast-convert "
        "reduce-precision",
    },
}
"""Of a table, by reason, the opcodes that it has no use for."""


TO_WRITE = (
    "evaluator", "evaluator, on arrays of scalars", "error bounds", "stochastic bounds", "native code", "mathematics",
    "semantics tests", "accuracy tests", "opcodes page",
)  # fmt: skip
"""The tables that do not follow from a row of a new function of one operand."""


def problems() -> dict[str, list[str]]:
    """Of each table what is wrong with it."""
    found: dict[str, list[str]] = {}
    for name, table in TABLES.items():
        held, wanted = set(table.holds()) & set(SPELLED), {row.name for row in SPELLED.values() if table.wants(row)}
        holes = [opcode for opcodes in HOLES.get(name, {}).values() for opcode in opcodes.split()]
        found[name] = [
            *(f"{opcode} is missing" for opcode in sorted(wanted - held - set(holes))),
            *(f"{opcode} is no hole any more" for opcode in holes if opcode not in wanted - held),
            *(f"{opcode} is a hole twice" for opcode in sorted(set(holes)) if holes.count(opcode) > 1),
        ]
    return {name: wrong for name, wrong in found.items() if wrong}


def test_every_table_knows_every_opcode() -> None:
    assert set(HOLES) <= set(TABLES)
    assert problems() == {}


def test_a_hole_that_is_none_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HOLES["shapes"], "no reason", "tanh")
    assert problems() == {"shapes": ["tanh is no hole any more"]}


def _legal(opcode: str) -> set[str]:
    """Element types of operands, as the row says; complex numbers have parts of two types alone."""
    own = {"f32", "f64"} if opcode == "complex" else set(TYPES)
    return {t for t in own if ELEMENT_TYPES[t].kind in ELEMENTWISE_OPCODES[opcode].kinds}


@pytest.mark.parametrize("opcode", ELEMENTWISE_OPCODES)
def test_every_legal_type_is_tried(opcode: str) -> None:
    assert {kind for family in FAMILIES[opcode] for kind in family.types} == _legal(opcode)


@pytest.mark.parametrize("opcode", [name for name, row in ELEMENTWISE_OPCODES.items() if row.result != "written"])
def test_every_legal_type_has_code(opcode: str) -> None:
    attributes = {"direction": "EQ"}
    for kind in sorted(_legal(opcode)):
        types = ["pred" if opcode == "select" else kind, kind, kind][: ELEMENTWISE_OPCODES[opcode].arity]
        result = shape_inference.infer(opcode, [scalar(t) for t in types], attributes).element_type
        f = Function(Unit(named("x86-64")), "void @f() nounwind")
        emit_elementwise(opcode, attributes, types, result, [constant(f, t, 4, 1) for t in types])


def test_every_kind_of_attribute_is_read_and_written() -> None:
    kinds = {a.kind for row in SPELLED.values() for a in (*row.attributes, *COMMON_ATTRIBUTES.values())}
    of_modules = {"computation", "computations", "names"}  # the parser and the printer have these themselves
    assert kinds - set(READERS) == of_modules
    assert kinds - set(WRITERS) == {*of_modules, "literal"}
    assert (set(READERS) | set(WRITERS)) <= kinds | {"entry_layout", "flags"}


def _drawn(opcode: str) -> Module:
    """A module that has the opcode: not every example has it."""
    family = FAMILIES[opcode][0]
    kind = "f32" if "f32" in family.types else family.types[0]
    for seed in range(100):
        sample = Sample(Random(seed))
        sample.results.append(family.draw(sample, opcode, kind))
        module = sample.finish()
        if _has(module, opcode):
            return module
    raise AssertionError(f"no example of {opcode} in 100 draws")


def _has(module: Module, opcode: str) -> bool:
    return any(i.opcode == opcode for computation in module.computations.values() for i in computation)


@pytest.mark.parametrize(("name", "opcode"), [(name, o) for name, opcodes in LOWERED.items() for o in opcodes.split()])
def test_lowered_opcodes_are_gone(name: str, opcode: str) -> None:
    """The pass takes them away, and what every module goes through has the pass."""
    assert name in [word for key in ("lowering", "expand") for word in PIPELINES[key].split(",")]
    module = _drawn(opcode)
    run_pipeline(module, parse_pipeline(name))
    assert not _has(module, opcode)


def test_functions_have_bounds_for_the_kinds_of_their_rows() -> None:
    rows = {name: row for name, row in ELEMENTWISE_OPCODES.items() if row.arity == 1 and row.result == "same"}
    real = {name for name, row in rows.items() if "float" in row.kinds}
    assert set(truth_elementwise._REAL) == real | {"abs"}
    assert set(truth_elementwise._COMPLEX) == {name for name, row in rows.items() if "complex" in row.kinds}


ROW = ("ir/elementwise.py", '    "cbrt": _function("floats"),\n', '    "softplus": _function("floats"),\n')
CODE = (
    ("evaluate/elementwise.py", '    "cbrt": np.cbrt,\n', '    "softplus": lambda x: np.log1p(np.exp(x)),\n'),
    (
        "evaluate/truth_elementwise.py",
        '    "cbrt": _Function(np.cbrt, _cube_root),\n',
        '    "softplus": _monotone(lambda x: np.log1p(np.exp(x))),\n',
    ),
    (
        "codegen/llvm/math/elementwise.py",
        '    "cbrt": _in("power", "cbrt"),\n',
        '    "softplus": lambda x: _in("log", "logarithm_plus_one")(_in("exp", "exponential")(x)),\n',
    ),
)
"""What a new function takes, as in ``hlotool/README.md``: in a file, after a line, another one."""

TESTS = {"semantics tests", "accuracy tests", "opcodes page"}
"""What is outside the product: tests, and what is written by tests or scripts."""

ASKED = """
import json
import hlotool, test_opcodes
print(json.dumps(test_opcodes.problems()))
"""

RUN = """
import numpy as np
module = hlotool.parse("HloModule m\\nENTRY e {\\n  x = f32[5] parameter(0)\\n  ROOT y = f32[5] softplus(x)\\n}\\n")
x = np.asarray([-30, -1, 0, 0.5, 40], np.float32)
(native,), (meant,) = (hlotool.compile(module, backend=backend)(x) for backend in ("cpu", "evaluate"))
np.testing.assert_array_max_ulp(native, meant, 4)
"""


@pytest.mark.parametrize(
    ("added", "missing", "script"), [((ROW,), TO_WRITE, ASKED), ((ROW, *CODE), TESTS, ASKED + RUN)], ids=["row", "all"]
)
def test_a_new_function(
    added: tuple[tuple[str, str, str], ...], missing: Iterable[str], script: str, tmp_path: Path
) -> None:
    """In a copy of the sources: after the row alone the tables that are to be written complain; with them it runs."""
    shutil.copytree(ROOT / "hlotool", tmp_path / "hlotool", ignore=shutil.ignore_patterns("__pycache__"))
    recipe = (ROOT / "hlotool" / "README.md").read_text(encoding="utf-8")
    for name, line, another in added:
        assert f"`{name}`" in recipe
        file = tmp_path / "hlotool" / name
        text = file.read_text(encoding="utf-8")
        assert text.count(line) == 1
        file.write_text(text.replace(line, line + another), encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), str(ROOT / "tests")])
    answer = subprocess.run(
        [sys.executable, "-c", script], env=environment(PYTHONPATH=path), cwd=tmp_path, capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout) == {table: ["softplus is missing"] for table in missing}
