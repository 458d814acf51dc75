"""Softmax, and the logarithm of a sum of exponentials, that overflow; the logarithm of a softmax."""

from __future__ import annotations

from collections.abc import Iterable

from hlotool.analysis.reducers import opcodes
from hlotool.analysis.signs import is_nonpositive
from hlotool.ir import Computation, Instruction
from hlotool.ir.builder import Builder
from hlotool.lint.match import ADD, applied, is_float, is_sum, lowest, number_of, through
from hlotool.lint.rule import Finding, Rule, module_text

__all__ = ["LOG_OF_SOFTMAX", "LOG_SUM_EXP", "SOFTMAX"]

_BOUNDED = frozenset({"tanh", "logistic", "sine", "cosine", "erf", "clamp", "sign", "minimum", "is-finite"})
_MOVES = frozenset({"broadcast", "reshape", "bitcast", "copy", "convert", "transpose", "slice"})
_REPEATS = frozenset({"broadcast", "reshape", "copy"})
_STEPS = 8


def _may_overflow(argument: Instruction) -> bool:
    """Whether the exponential of `argument` may be infinite, as far as can be seen; what comes from elsewhere is
    trusted."""
    if is_nonpositive(argument):
        return False
    source = through(argument, _MOVES)
    for _ in range(_STEPS):  # scaled and shifted by numbers, masked
        moved = _unmoved(source)
        if moved is None:
            break
        source = through(moved, _MOVES)
    if source.opcode in _BOUNDED or source.opcode == "constant" or is_nonpositive(source):
        return False
    if source.opcode == "subtract" and _is_largest(source.operands[1], _STEPS):
        return False
    if source.opcode in ("parameter", "get-tuple-element"):
        module = source.parent.module if source.parent is not None else None
        return source.opcode == "parameter" and module is not None and source.parent is module.entry
    return source.opcode not in ("while", "call", "fusion", "conditional", "custom-call", "reduce")


def _unmoved(value: Instruction) -> Instruction | None:
    """What is scaled, shifted or masked by a number in `value`."""
    operands = value.operands
    match value.opcode:
        case "multiply" | "add" if number_of(operands[0]) is not None:
            return operands[1]
        case "multiply" | "add" | "divide" if number_of(operands[1]) is not None:
            return operands[0]
        case "select" if number_of(operands[2]) is not None:
            return operands[1]
    return None


def _is_largest(value: Instruction, steps: int) -> bool:
    """Whether `value` is made from a maximum along dimensions, with guards against infinities."""
    source = through(value, _MOVES)
    if source.opcode == "reduce":
        return "maximum" in opcodes(source.attributes["to_apply"])
    if source.opcode in ("select", "maximum") and steps:
        return any(_is_largest(operand, steps - 1) for operand in source.operands)
    return source.opcode in ("parameter", "get-tuple-element", "while", "call", "fusion", "custom-call", "all-reduce")


def _exponential_of(total: Instruction) -> Instruction | None:
    """The exponential that a sum adds up, where it may overflow."""
    if not is_sum(total) or number_of(total.operands[1]) != 0:
        return None
    exponential = through(total.operands[0], frozenset({"convert", "copy"}))
    if exponential.opcode != "exponential" or not is_float(exponential):
        return None
    return exponential if _may_overflow(exponential.operands[0]) else None


def _max(build: Builder, x: Instruction, dimensions: tuple[int, ...]) -> Instruction:
    kind = x.shape.element_type
    return build.reduce(x, build.scalar_constant(lowest(kind), kind), dimensions, _computation(build, "maximum", kind))


def _computation(build: Builder, opcode: str, kind: str) -> Computation:
    module = build.computation.module
    assert module is not None
    return applied(module, opcode, kind)


def _kept(x: Instruction, dimensions: tuple[int, ...]) -> list[int]:
    return [at for at in range(x.shape.rank) if at not in dimensions]


def _find_softmax(divide: Instruction) -> Iterable[Finding]:
    top, bottom = divide.operands
    total = through(bottom, _REPEATS)
    exponential = _exponential_of(total)
    if exponential is None or top is not exponential or total.operands[0] is not exponential:
        return
    yield Finding(
        divide,
        f"softmax of {exponential.operands[0].name} without its maximum: {exponential.name} overflows, and the result "
        "is NaN",
        f"subtract the maximum from {exponential.operands[0].name} first; the values stay",
        _shifted_softmax,
    )


def _shifted_softmax(build: Builder) -> Instruction:
    divide = build.like
    assert divide is not None
    exponential, bottom = divide.operands
    total = through(bottom, _REPEATS)
    x, dimensions = exponential.operands[0], total.attributes["dimensions"]
    largest = build.broadcast(_max(build, x, dimensions), _kept(x, dimensions), x.shape)
    moved = build.unary("exponential", build.binary("subtract", x, largest))
    summed = build.reduce(moved, total.operands[1], dimensions, total.attributes["to_apply"])
    return build.add("divide", divide.shape, (moved, _repeated(build, bottom, summed)))


def _repeated(build: Builder, bottom: Instruction, new: Instruction) -> Instruction:
    """`new`, which is shaped as the sum in `bottom` is, broadcast as that is."""
    steps = []
    total = through(bottom, _REPEATS)
    while bottom is not total:
        steps.append(bottom)
        bottom = bottom.operands[0]
    for step in reversed(steps):
        new = build.add(step.opcode, step.shape, (new,), step.attributes)
    return new


def _find_log_sum_exp(log: Instruction) -> Iterable[Finding]:
    total = log.operands[0]
    exponential = _exponential_of(total)
    if exponential is None or total.operands[0] is not exponential:
        return
    yield Finding(
        log,
        f"logarithm of a sum of exponentials of {exponential.operands[0].name} without their maximum: it overflows to "
        "inf, or underflows to -inf",
        "subtract the maximum first and add it to the logarithm; the values stay",
        _shifted_log_sum_exp,
    )


def _shifted_log_sum_exp(build: Builder) -> Instruction:
    log = build.like
    assert log is not None
    total = log.operands[0]
    x, dimensions = total.operands[0].operands[0], total.attributes["dimensions"]
    largest = _max(build, x, dimensions)
    zero = build.splat(0.0, largest.shape)
    finite = build.select(build.unary("is-finite", largest), largest, zero)
    moved = build.binary("subtract", x, build.broadcast(finite, _kept(x, dimensions), x.shape))
    powers = build.unary("exponential", moved)
    summed = build.reduce(powers, total.operands[1], dimensions, total.attributes["to_apply"])
    return build.add("add", log.shape, (build.unary("log", summed), finite))


def _find_log_of_softmax(log: Instruction) -> Iterable[Finding]:
    divide = log.operands[0]
    if divide.opcode != "divide" or not is_float(divide):
        return
    top, bottom = divide.operands
    total = through(bottom, _REPEATS)
    if top.opcode != "exponential" or not is_sum(total) or total.operands[0] is not top:
        return
    yield Finding(
        log,
        f"logarithm of a softmax: where {divide.name} underflows to 0 it is -inf",
        "subtract the logarithm of the sum from the exponents; the values stay, but for those that were lost",
        _log_softmax,
    )


def _log_softmax(build: Builder) -> Instruction:
    log = build.like
    assert log is not None
    top, bottom = log.operands[0].operands
    below = _repeated(build, bottom, build.unary("log", through(bottom, _REPEATS)))
    return build.add("subtract", log.shape, (top.operands[0], below))


_X = "x = f32[8,64] parameter(0)\n"
_MAX = ADD + (
    "max {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT m = f32[] maximum(a, b)\n}\n\n"
)
_MOVED = (
    f"{_X}low = f32[] constant(-inf)\nm = f32[8] reduce(x, low), dimensions={{1}}, to_apply=max\n"
    "mb = f32[8,64] broadcast(m), dimensions={0}\nd = f32[8,64] subtract(x, mb)\ne = f32[8,64] exponential(d)\n"
)
_SUM = "z = f32[] constant(0)\ns = f32[8] reduce(e, z), dimensions={1}, to_apply=add\n"
_DIVIDED = "b = f32[8,64] broadcast(s), dimensions={0}\n"

SOFTMAX = Rule(
    code="HLO6002",
    name="softmax-overflow",
    title="a softmax that does not subtract the maximum",
    meaning="The exponential of 89 is too large for f32, of 12 for f16: inf divided by inf is NaN.  The softmax of "
    "x - max(x) is the same, and never overflows.",
    opcodes=frozenset({"divide"}),
    find=_find_softmax,
    wrong=module_text(f"{_X}e = f32[8,64] exponential(x)\n{_SUM}{_DIVIDED}ROOT y = f32[8,64] divide(e, b)", ADD),
    right=module_text(f"{_MOVED}{_SUM}{_DIVIDED}ROOT y = f32[8,64] divide(e, b)", _MAX),
)
LOG_SUM_EXP = Rule(
    code="HLO6003",
    name="log-sum-exp-overflow",
    title="a logarithm of a sum of exponentials that does not subtract the maximum",
    meaning="log(sum(exp(x))) is inf once an exponential overflows, and -inf where all underflow, though the value is "
    "close to max(x).  max(x) + log(sum(exp(x - max(x)))) is neither.",
    opcodes=frozenset({"log"}),
    find=_find_log_sum_exp,
    wrong=module_text(f"{_X}e = f32[8,64] exponential(x)\n{_SUM}ROOT y = f32[8] log(s)", ADD),
    right=module_text(f"{_MOVED}{_SUM}l = f32[8] log(s)\nROOT y = f32[8] add(l, m)", _MAX),
)
LOG_OF_SOFTMAX = Rule(
    code="HLO6004",
    name="log-of-softmax",
    title="a logarithm of a softmax",
    meaning="Small probabilities round to 0, and their logarithm is -inf.  log(exp(x) / s) = x - log(s) loses nothing, "
    "and needs no division.",
    opcodes=frozenset({"log"}),
    find=_find_log_of_softmax,
    wrong=module_text(
        f"{_MOVED}{_SUM}{_DIVIDED}p = f32[8,64] divide(e, b)\nROOT y = f32[8,64] log(p)", _MAX
    ),
    right=module_text(
        f"{_MOVED}{_SUM}l = f32[8] log(s)\nb = f32[8,64] broadcast(l), dimensions={{0}}\n"
        "ROOT y = f32[8,64] subtract(d, b)", _MAX
    ),
)
