"""Modules that compute derivatives of modules."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import ELEMENT_TYPES, HloError, Instruction, Module, Shape, UnsupportedError, array, clone_module
from hlotool.ir.builder import Builder
from hlotool.ir.collector import collector_paused
from hlotool.ir.depth import room
from hlotool.passes.autodiff.activity import Activity, Leaf
from hlotool.passes.autodiff.forward import with_tangents
from hlotool.passes.autodiff.rematerialisation import rematerialise
from hlotool.passes.autodiff.reverse import Program, Reverse, leaf_of
from hlotool.passes.autodiff.table import PREPARATION, REFUSED, RULES, is_constant
from hlotool.passes.autodiff.writer import Path, differentiable, leaves
from hlotool.passes.framework.manager import run_pipeline
from hlotool.passes.framework.pipeline import parse_pipeline

__all__ = ["gradient_module", "jvp_module", "make_gradient", "make_jvp", "make_vjp", "vjp_module"]

_ABOUT_BORDER = ("entry_computation_layout", "input_output_alias", "buffer_donor", "is_scheduled")


def gradient_module(
    module: Module, wrt: Sequence[int] = (0,), *, value: bool = False, result: int = 0, memory: int | None = None
) -> Module:
    """A module with the same parameters that returns gradients of a scalar result: see `make_gradient`."""
    copy = clone_module(module)
    make_gradient(copy, wrt, value=value, result=result, memory=memory)
    return copy


def vjp_module(
    module: Module, wrt: Sequence[int] = (0,), *, value: bool = False, memory: int | None = None
) -> Module:
    """A module that takes cotangents of the results, too, and returns those of parameters: see `make_vjp`."""
    copy = clone_module(module)
    make_vjp(copy, wrt, value=value, memory=memory)
    return copy


def jvp_module(module: Module, wrt: Sequence[int] = (0,), *, value: bool = True) -> Module:
    """A module that takes tangents of parameters, too, and returns those of the results: see `make_jvp`."""
    copy = clone_module(module)
    make_jvp(copy, wrt, value=value)
    return copy


def make_gradient(
    module: Module,
    wrt: Sequence[int],
    *,
    value: bool = False,
    result: int = 0,
    memory: int | None = None,
    log: DecisionLog | None = None,
) -> None:
    """Let the entry return the gradients of a scalar by the parameters `wrt`.

    The scalar is the result, or leaf number `result` of it.  The new result is a tuple of gradients, one for each
    array in these parameters, in order; with `value`, the leaves of the old result come first.

    `memory` is a bound in bytes: where more would be alive at once, values of the program are computed again rather
    than kept (`rematerialisation.py`), which `log` tells.  UnsupportedError where there is no way into the bound.
    """
    _check(module, wrt)
    with room(module), collector_paused():
        program = _prepared(module)
        root = module.entry.root
        all_leaves = list(leaves(root.shape))
        if not 0 <= result < len(all_leaves):
            raise HloError(f"there is no result {result}: the entry returns {root.shape}")
        path, shape = all_leaves[result]
        if shape.dimensions or not ELEMENT_TYPES[shape.element_type].is_float:
            raise UnsupportedError(
                f"a gradient is that of a scalar of floats, and result {result} is {shape}; "
                "vjp takes cotangents of any results"
            )
        one = Builder(module.entry, like=root).scalar_constant(1.0, shape.element_type)
        _within(module, _finish(program, wrt, {path: one}, value), memory, log)


def make_vjp(
    module: Module,
    wrt: Sequence[int],
    *,
    value: bool = False,
    memory: int | None = None,
    log: DecisionLog | None = None,
) -> None:
    """Let the entry take a cotangent for each array of floats in its result, in order, behind its parameters.

    The new result is a tuple of the cotangents of the arrays in parameters `wrt`; with `value`, the leaves of the old
    result come first.  `memory` is a bound as that of `make_gradient`.
    """
    _check(module, wrt)
    with room(module), collector_paused():
        program = _prepared(module)
        entry = module.entry
        build = Builder(entry, like=entry.root)
        cotangents = {
            path: build.parameter(len(entry.parameters), shape)
            for path, shape in leaves(entry.root.shape)
            if differentiable(shape)
        }
        _within(module, _finish(program, wrt, cotangents, value), memory, log)


def make_jvp(module: Module, wrt: Sequence[int], *, value: bool = True) -> None:
    """Let the entry take a tangent for each array of floats in parameters `wrt`, in order, behind its parameters.

    The new result is a tuple of the leaves of the old one (without `value`: left out) and of the tangents of those
    that are floats.
    """
    _check(module, wrt)
    with room(module), collector_paused():
        program = _prepared(module)
        entry = module.entry
        inputs = _inputs(module, wrt)
        computation, paths = with_tangents(program, entry, frozenset(inputs))
        build = Builder(computation, like=entry.root)
        whole, *tangents = computation.root.operands
        found = dict(zip(paths, tangents, strict=True))
        results: list[Instruction] = []
        if value:
            results = [leaf_of(build, whole, path) for path, _ in leaves(entry.root.shape)]
        for path, shape in leaves(entry.root.shape):
            if differentiable(shape):
                results.append(found.get(path) or build.splat(0.0, _plain(shape)))
        computation.root = build.tuple(results)
        _order_parameters(computation.parameters, entry.parameters, inputs, wrt)
        module.entry = computation
        _clean(module)


def _within(module: Module, own: set[Instruction], memory: int | None, log: DecisionLog | None) -> None:
    """Keep the module within a bound of memory, if there is one; `own` are the instructions of the program."""
    if memory is not None:
        rematerialise(module, own, memory, DecisionLog() if log is None else log)
        _clean(module)


def _order_parameters(
    new: Sequence[Instruction], old: Sequence[Instruction], inputs: Sequence[Leaf], wrt: Sequence[int]
) -> None:
    """Tangents come in the order of `wrt`, not of parameters."""
    by_leaf = dict(zip(sorted(inputs), new[len(old) :], strict=True))
    computation = new[0].parent if new else None
    for position, leaf in enumerate(inputs):
        parameter = by_leaf[leaf]
        parameter.attributes["parameter_number"] = len(old) + position
        assert computation is not None
        computation._parameters[len(old) + position] = parameter


def _check(module: Module, wrt: Sequence[int]) -> None:
    """HloError where there are no such parameters; UnsupportedError where they have no gradients."""
    parameters = module.entry.parameters
    if len(set(wrt)) != len(wrt):
        raise HloError(f"a parameter is named twice in {', '.join(map(str, wrt))}")
    for number in wrt:
        if not 0 <= number < len(parameters):
            raise HloError(f"there is no parameter {number}: the entry has {len(parameters)}")
        for _, shape in leaves(parameters[number].shape):
            if not differentiable(shape):
                raise UnsupportedError(
                    f"parameter {number}, {parameters[number].name}, has no gradient: {shape} holds no floats"
                )


def _prepared(module: Module) -> Program:
    for name in _ABOUT_BORDER:
        module.attributes.pop(name, None)
    run_pipeline(module, parse_pipeline(PREPARATION), DecisionLog())
    return Program(module, RULES, REFUSED, Activity(is_constant))


def _inputs(module: Module, wrt: Sequence[int]) -> list[Leaf]:
    parameters = module.entry.parameters
    return [(number, path) for number in wrt for path, _ in leaves(parameters[number].shape)]


def _plain(shape: Shape) -> Shape:
    return array(shape.element_type, shape.dimensions)


def _finish(program: Program, wrt: Sequence[int], cotangents: dict[Path, Instruction], value: bool) -> set[Instruction]:
    """Walk back from the result, and let the entry return what has come to the parameters.

    What is returned here is what belongs to the program: the cotangents, and all behind them, do not.
    """
    module = program.module
    entry = module.entry
    inputs = _inputs(module, wrt)
    active = program.activity.of(entry, frozenset(inputs))
    build = Builder(entry)
    reverse = Reverse(program, entry, build, active)
    root = entry.root
    instructions = list(reversed(entry))
    for path, cotangent in cotangents.items():
        reverse.give(root, cotangent, path)
    found = reverse.walk(instructions)
    build.like = root = entry.root  # a loop may have taken the place of the old one
    results = [leaf_of(build, root, path) for path, _ in leaves(root.shape)] if value else []
    for number, path in inputs:
        shape = dict(leaves(entry.parameters[number].shape))[path]
        results.append(found.get((number, path)) or reverse.zeros(shape))
    entry.root = build.tuple(results)
    first = next(iter(cotangents.values()), None)
    own = set(takewhile(lambda instruction: instruction is not first, entry))
    _clean(module)
    return own


def _clean(module: Module) -> None:
    module.remove_unreachable()
    run_pipeline(module, parse_pipeline("tuple-simplifier,dce"), DecisionLog())
