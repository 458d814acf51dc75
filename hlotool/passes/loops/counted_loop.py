"""A while loop that runs a number of times: what expanders write loops with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlotool.ir import Computation, Instruction, Module, Shape, array, tuple_shape
from hlotool.ir.builder import Builder
from hlotool.passes.framework.graph import inline_computation

__all__ = ["Iteration", "applied", "blank", "counted_loop"]

Iteration = Callable[[Builder, Instruction, list[Instruction]], Sequence[Instruction]]
"""(where to build, the number of the iteration from 0 as s32[], state) -> state after the iteration."""


def counted_loop(
    module: Module, build: Builder, count: int, state: Sequence[Instruction], step: Iteration
) -> list[Instruction]:
    """The state after `count` iterations of `step`; everything that it reads is part of the state."""
    first = build.scalar_constant(0, "s32")
    shape = tuple_shape([first.shape, *(value.shape for value in state)])
    loop = build.while_(
        build.tuple([first, *state]), module.add(_condition(shape, count, build)), module.add(_body(shape, step, build))
    )
    return [build.gte(loop, position + 1) for position in range(len(state))]


def applied(build: Builder, computation: Computation, arguments: Sequence[Instruction]) -> list[Instruction]:
    """The results of a computation, whose instructions are put where `build` builds."""
    call = build.call(computation, arguments)
    root = inline_computation(call, computation, arguments)
    build.computation.erase(call)
    return [build.gte(root, n) for n in range(len(root.shape.elements))] if root.shape.is_tuple else [root]


def blank(build: Builder, element_type: str, sizes: Sequence[int]) -> Instruction:
    """An array whose values are overwritten before they are read."""
    nothing = build.splat(False, array("pred", sizes))
    return nothing if element_type == "pred" else build.convert(nothing, element_type)


def _condition(shape: Shape, count: int, outer: Builder) -> Computation:
    computation = Computation("before_last")
    build = Builder(computation, like=outer.like)
    carried = build.parameter(0, shape)
    computation.root = build.compare(build.gte(carried, 0), build.scalar_constant(count, "s32"), "LT")
    return computation


def _body(shape: Shape, step: Iteration, outer: Builder) -> Computation:
    computation = Computation("iteration")
    build = Builder(computation, like=outer.like)
    carried = build.parameter(0, shape)
    number, *state = (build.gte(carried, position) for position in range(len(carried.shape.elements)))
    after = step(build, number, state)
    following = build.binary("add", number, build.scalar_constant(1, "s32"))
    computation.root = build.tuple([following, *after])
    return computation
