"""Compiling grows with the module, and equal parts of it are compiled once."""

from __future__ import annotations

import cProfile
from collections.abc import Callable
from functools import partial

import pytest
from models import model

from hlotool.driver import compile_module, optimise
from hlotool.ir import Computation, Module, clone_module
from hlotool.ir.builder import Builder
from hlotool.text.load import load

BLOCK = model("bert_block")


def stacked(count: int) -> Module:
    """`count` transformer blocks, each reading the one before it, with weights in common."""
    module = clone_module(load(BLOCK))
    block, module.attributes = module.entry, {}
    whole = Computation("stack")
    builder = Builder(whole)
    values = [builder.parameter(number, p.shape, p.name) for number, p in enumerate(block.parameters)]
    state = next(number for number, v in enumerate(values) if v.shape == block.root.shape)
    for _ in range(count):
        values[state] = builder.call(block, values)
    whole.root = values[state]
    module.add(whole, entry=True)
    return module


def calls(work: Callable[[], object]) -> int:
    """How many functions are called: a measure of work that no other process on the machine disturbs."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return sum(row.callcount for row in profile.getstats())


def _optimise(count: int) -> None:
    optimise(stacked(count))


def _compile(count: int) -> None:
    compile_module(stacked(count))


def test_optimising_is_linear() -> None:
    work = {count: calls(partial(_optimise, count)) for count in (1, 4, 16)}
    assert work[4] < 1.15 * 4 * work[1]
    assert work[16] < 1.15 * 4 * work[4]
    assert work[16] < 1.15 * 16 * work[1]


def test_equal_blocks_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOTOOL_CACHE", "off")
    programs = {}
    for count in (4, 16):
        program = compile_module(stacked(count)).program
        assert program is not None
        programs[count] = program
    uses = {count: len(program.kernels) for count, program in programs.items()}
    assert uses[16] > 3.5 * uses[4]
    distinct = {count: len({use.kernel for use in program.kernels}) for count, program in programs.items()}
    assert distinct[4] == distinct[16] < uses[4]
    work = {count: calls(partial(_compile, count)) for count in (4, 16)}
    assert work[16] < 1.15 * 4 * work[4]
