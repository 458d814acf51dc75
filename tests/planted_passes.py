"""Planted wrong passes: does comparing with the truth catch a pass that is wrong in one place?

    python tests/planted_passes.py [MODEL...]      a table of kinds by models: caught, MISSED, or - where none can be
    python tests/planted_passes.py --kinds add-subtract,lost-negate bert_block birnn

Each kind of wrong pass edits one instruction.  Places are tried evenly spread over the module until one matters, that
is, changes what the evaluator and native code give by more than roundings do; native code of the module so edited is
then compared, on default inputs, with the bounds of the module as it was.  Models are those of ``../shared/corpus`` and
``../shared/wild``.  Exit code 1 where one was missed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from models import model

from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.evaluate.bounds import is_inexact, unit
from hlotool.evaluate.truth import bounded_results
from hlotool.harness.compare import compare_with_truth, verdict_of
from hlotool.harness.inputs import random_inputs
from hlotool.ir import HloError, Instruction, Literal, Module, clone_module, element_type
from hlotool.ir.builder import Builder
from hlotool.ir.verifier import check
from hlotool.text.parser import parse

SHARED = Path(__file__).parents[2] / "shared"

_CORPUS = (
    "bert_block gpt_fwd vit_tiny_fwd resnet_bottleneck mnist_convnet_fwd mlp_bf16_fwd layernorm_grad_512x768 unet_fwd "
    "lstm_scan_fwd_50 gru_bidirectional vae_train sinkhorn black_scholes_greeks conv_grads dlrm_fwd kmeans_step "
    "mlp_train_l2_w100_b16 gp_regression"
)
_WILD = "birnn jaxopt conv3d mobile scanlm convlstm"
MODELS = [*_CORPUS.split(), *_WILD.split()]

_PLACES = 12
"""Places of one kind that are tried in a module."""

Array = np.ndarray[Any, Any]


def _renamed(old: str, new: str) -> Callable[[Instruction], bool]:
    def edit(instruction: Instruction) -> bool:
        if instruction.opcode != old:
            return False
        instruction.opcode = new
        return True

    return edit


def _skipped(*opcodes: str) -> Callable[[Instruction], bool]:
    """The instruction gives its operand."""

    def edit(instruction: Instruction) -> bool:
        if instruction.opcode not in opcodes or instruction.operands[0].shape != instruction.shape:
            return False
        instruction.replace_all_uses(instruction.operands[0])
        return True

    return edit


def _initial_value(instruction: Instruction) -> bool:
    if instruction.opcode not in ("reduce", "reduce-window") or instruction.shape.is_tuple:
        return False
    if not element_type(instruction.shape.element_type).is_float:
        return False
    assert instruction.parent is not None
    one = Builder(instruction.parent, before=instruction).scalar_constant(1.0, instruction.shape.element_type)
    instruction.replace_operand(1, one)
    return True


def _dropped_convert(instruction: Instruction) -> bool:
    """Floats that become integers and floats again keep their fraction."""
    if instruction.opcode != "convert" or instruction.operands[0].opcode != "convert":
        return False
    source, inner = instruction.operands[0].operands[0], instruction.operands[0]
    if source.shape != instruction.shape or is_inexact(inner.shape.element_type):
        return False
    instruction.replace_all_uses(source)
    return True


def _transposed(instruction: Instruction) -> bool:
    """A square operand of a product, with its rows for its columns."""
    if instruction.opcode != "dot":
        return False
    for side, operand in enumerate(instruction.operands[:2]):
        sizes = operand.shape.dimensions
        if len(sizes) >= 2 and sizes[-1] == sizes[-2] > 1:
            assert instruction.parent is not None
            order = (*range(len(sizes) - 2), len(sizes) - 1, len(sizes) - 2)
            build = Builder(instruction.parent, before=instruction)
            plain = operand.shape.without_layout()
            instruction.replace_operand(side, build.add("transpose", plain, [operand], {"dimensions": order}))
            return True
    return False


def _shifted_slice(instruction: Instruction) -> bool:
    if instruction.opcode != "slice":
        return False
    rows = list(instruction.attributes["slice"])
    for axis, (row, size) in enumerate(zip(rows, instruction.operands[0].shape.dimensions, strict=True)):
        for step in (1, -1):
            if row.start + step >= 0 and row.limit + step <= size and row.limit - row.start < size:
                rows[axis] = type(row)(row.start + step, row.limit + step, row.stride)
                instruction.attributes["slice"] = tuple(rows)
                return True
    return False


def _broadcast_dimension(instruction: Instruction) -> bool:
    if instruction.opcode != "broadcast":
        return False
    dimensions, sizes = instruction.attributes["dimensions"], instruction.shape.dimensions
    for place, dimension in enumerate(dimensions):
        for other in range(len(sizes)):
            if other not in dimensions and sizes[other] == sizes[dimension] > 1:
                instruction.attributes["dimensions"] = (*dimensions[:place], other, *dimensions[place + 1 :])
                return list(instruction.attributes["dimensions"]) == sorted(instruction.attributes["dimensions"])
    return False


def _constant(instruction: Instruction) -> bool:
    if instruction.opcode != "constant" or not instruction.shape.is_array:
        return False
    if not element_type(instruction.shape.element_type).is_float or not instruction.shape.size:
        return False
    value = instruction.literal.value()
    if not np.isfinite(value.astype(np.float64)).all():
        return False
    wrong = (value.astype(np.float64) * 1.25 + 0.125).astype(value.dtype)
    instruction.attributes = {**instruction.attributes, "literal": Literal(instruction.shape, wrong)}
    return True


def _swapped(opcode: str, first: int, second: int) -> Callable[[Instruction], bool]:
    def edit(instruction: Instruction) -> bool:
        operands = list(instruction.operands)
        if instruction.opcode != opcode or operands[first].shape != operands[second].shape:
            return False
        operands[first], operands[second] = operands[second], operands[first]
        instruction.set_operands(operands)
        return True

    return edit


def _contraction(instruction: Instruction) -> bool:
    """Contracts another dimension of the right operand that is as long, where the result keeps its shape."""
    if instruction.opcode != "dot":
        return False
    attributes, right = instruction.attributes, instruction.operands[1].shape.dimensions
    contracted, *more = attributes.get("rhs_contracting_dims") or (0, 0)
    batch = attributes.get("rhs_batch_dims") or ()
    for other in range(len(right)):
        if not more and other != contracted and other not in batch and right[other] == right[contracted] > 1:
            attributes["rhs_contracting_dims"] = (other,)
            return True
    return False


def _wrong_axis(instruction: Instruction) -> bool:
    """A reduction over another dimension of the same length."""
    if instruction.opcode != "reduce" or instruction.shape.is_tuple or len(instruction.attributes["dimensions"]) != 1:
        return False
    (axis,), sizes = instruction.attributes["dimensions"], instruction.operands[0].shape.dimensions
    for other in range(len(sizes)):
        if other != axis and sizes[other] == sizes[axis] > 1:
            instruction.attributes["dimensions"] = (other,)
            return True
    return False


def _direction(instruction: Instruction) -> bool:
    turned = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "EQ": "NE", "NE": "EQ"}
    if instruction.opcode != "compare":
        return False
    instruction.attributes["direction"] = turned[instruction.attributes["direction"]]
    return True


KINDS: dict[str, Callable[[Instruction], bool]] = {
    "add-subtract": _renamed("add", "subtract"),
    "multiply-add": _renamed("multiply", "add"),
    "reduce-init": _initial_value,
    "dropped-convert": _dropped_convert,
    "transposed-operand": _transposed,
    "shifted-slice": _shifted_slice,
    "max-min": _renamed("maximum", "minimum"),
    "lost-negate": _skipped("negate"),
    "lost-function": _skipped("tanh", "exponential", "logistic", "sqrt", "rsqrt", "log", "abs", "erf"),
    "broadcast-dimension": _broadcast_dimension,
    "wrong-constant": _constant,
    "swapped-select": _swapped("select", 1, 2),
    "swapped-divide": _swapped("divide", 0, 1),
    "contraction": _contraction,
    "reduced-axis": _wrong_axis,
    "compare-direction": _direction,
}
"""Edits of one instruction; False where it is none of their kind."""


def edited(module: Module, kind: str) -> Iterator[tuple[str, Module]]:
    """The module wrong in one place, and the name of the place, for places evenly spread over the module."""
    edit = KINDS[kind]
    total = sum(1 for _ in _instructions(module))
    places = []
    trial = clone_module(module)
    for number, instruction in enumerate(list(_instructions(trial))):
        if edit(instruction):
            places.append(number)
    assert all(place < total for place in places)
    chosen = [places[round(i * (len(places) - 1) / max(1, min(_PLACES, len(places)) - 1))]
              for i in range(min(_PLACES, len(places)))]  # fmt: skip
    for place in dict.fromkeys(chosen):
        wrong = clone_module(module)
        instruction = list(_instructions(wrong))[place]
        if not edit(instruction):
            continue
        try:
            check(wrong)
        except HloError:
            continue  # of another shape: no pass gets by the verifier with that
        yield instruction.name, wrong


def _instructions(module: Module) -> Iterator[Instruction]:
    for computation in module.computations.values():
        yield from computation


def matters(outputs: Sequence[Array], wrong: Sequence[Array]) -> bool:
    """Whether an output changes by more than roundings of its type in a program of some length."""
    for before, after in zip(outputs, wrong, strict=True):
        if before.dtype.kind in "biu" or not before.size:
            if (before != after).mean() > 0.01 if before.size else False:
                return True
            continue
        wide: Any = np.complex128 if before.dtype.kind == "c" else np.float64
        kind = {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "float16": "f16"}.get(str(before.dtype), "f32")
        a, b = before.astype(wide), after.astype(wide)
        finite = np.isfinite(a)
        if (finite != np.isfinite(b)).any():
            return True
        size = float(np.sqrt(np.mean(np.abs(a[finite]) ** 2))) if finite.any() else 0.0
        if finite.any() and float(np.abs(a[finite] - b[finite]).max()) > max(1e-3, 32 * unit(kind)) * size > 0:
            return True
    return False


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one kind on one model: ``caught``, ``MISSED``, ``undecided`` or ``-`` (no place matters)."""

    model: str
    kind: str
    word: str
    place: str = ""


def findings(name: str, module: Module, kinds: Sequence[str] = tuple(KINDS)) -> Iterator[Finding]:
    """Each kind planted in the first place where it matters."""
    arrays = random_inputs(module, 0)
    bounds_of = partial(bounded_results, module, arrays, None, False)
    outputs, bounds = evaluate(module, arrays), bounds_of()
    for kind in kinds:
        for place, wrong in edited(module, kind):
            try:
                changed = matters(outputs, evaluate(wrong, arrays, loop_limit=2000))
            except HloError:
                continue  # a loop that never ends, say
            if changed:
                got = compile_module(wrong)(*arrays)
                if not matters(outputs, got):
                    continue  # where decisions hang on roundings, native code may take the right ones
                verdict = verdict_of(compare_with_truth(got, bounds, again=bounds_of))
                word = {"MISMATCH": "caught", "UNDECIDED": "undecided", "ok": "MISSED"}[verdict]
                yield Finding(name, kind, word, place)
                break
        else:
            yield Finding(name, kind, "-")


def load(name: str) -> Module:
    """A model of the corpus or of the wild."""
    shared = [SHARED / folder / f"{name}.hlo" for folder in ("corpus/models", "wild")]
    for path in (model(name), *shared, Path(name)):
        if path.exists():
            return parse(path.read_text("utf-8"))
    raise SystemExit(f"no model {name}")


def main(arguments: list[str]) -> int:
    kinds: Sequence[str] = tuple(KINDS)
    if arguments[:1] == ["--kinds"]:
        kinds, arguments = arguments[1].split(","), arguments[2:]
    missed = total = 0
    for name in arguments or MODELS:
        rows = list(findings(name, load(name), kinds))
        total += sum(row.word == "caught" for row in rows)
        missed += sum(row.word in ("MISSED", "undecided") for row in rows)
        print(f"{name:26}", " ".join(f"{row.kind}:{row.word}" for row in rows if row.word != "-"), flush=True)
        for row in rows:
            if row.word in ("MISSED", "undecided"):
                print(f"    {row.kind} at {row.place}: {row.word}", flush=True)
    print(f"{total} caught, {missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
