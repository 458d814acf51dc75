"""Random shardings, and whether a partitioned module gives what the module gives."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from hlotool.analysis.decisions import DecisionLog
from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.evaluate.bounds import Bounded
from hlotool.harness.compare import compare_with_truth
from hlotool.harness.shards import join_outputs, split_inputs
from hlotool.ir import Instruction, Module, Shape, Verbatim, clone_module
from hlotool.ir.sharding import Sharding, maximal, print_sharding, replicated, tile
from hlotool.ir.verifier import check as verify
from hlotool.passes.spmd.partition import partition_module
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

__all__ = ["annotate", "differences", "outputs_of", "partitioned", "random_sharding"]

Array = np.ndarray[Any, Any]


def random_sharding(rng: Random, shape: Shape, devices: int) -> Sharding:
    """Tiles along any dimensions, often in another order of the devices, with copies; now and then none."""
    if not shape.is_array or not shape.rank or rng.random() < 0.1:
        return maximal(rng.randrange(devices)) if rng.random() < 0.1 else replicated()
    tiles, copies, left = [1] * shape.rank, 1, devices
    while left > 1:
        left //= 2
        if rng.random() < 0.25:
            copies *= 2
        else:
            tiles[rng.randrange(shape.rank)] *= 2
    order = list(range(devices))
    if rng.random() < 0.4:
        rng.shuffle(order)
    return tile(tiles, order, copies)


def annotate(rng: Random, instruction: Instruction, devices: int) -> None:
    """Give an instruction a random sharding."""
    leaves = list(instruction.shape.leaves())
    if not leaves:
        return
    found = [random_sharding(rng, leaf, devices) for leaf in leaves]
    text = print_sharding(found if instruction.shape.is_tuple else found[0])
    instruction.attributes["sharding"] = Verbatim(text)


def partitioned(
    module: Module, devices: int, log: DecisionLog | None = None, passed_from: int | None = None
) -> Module:
    """A copy for one of many devices, which is valid, and can be printed and read."""
    new = clone_module(module)
    partition_module(new, devices, log if log is not None else DecisionLog(), passed_from)
    verify(new)
    text = print_module(new)
    assert print_module(parse(text)) == text
    return new


def outputs_of(
    module: Module, new: Module, arrays: Sequence[Array], devices: int, backend: str = "evaluate"
) -> list[Array]:
    """What the partitioned module gives, put together."""
    rows = split_inputs(module, arrays, devices)
    results = compile_module(new, backend, threads=1, pipeline="default").run_devices(rows)
    return join_outputs(module, results)


def differences(
    module: Module, got: Sequence[Array], arrays: Sequence[Array], bounds: Sequence[Bounded] | None
) -> str:
    """How results of a partitioned module differ from those of the module: not at all, or by no more than `bounds`."""
    want = evaluate(module, arrays)
    for n, (mine, other) in enumerate(zip(got, want, strict=True)):
        if mine.shape != other.shape or mine.dtype != other.dtype:
            return f"output {n} is {mine.dtype}{mine.shape}, not {other.dtype}{other.shape}"
    if all(a.tobytes() == b.tobytes() for a, b in zip(got, want, strict=True)):
        return ""
    if bounds is None:
        return "other bytes"
    rows = compare_with_truth(list(got), bounds, list(want), max_undecided=1.0)
    return "; ".join(f"output {n}: {row}" for n, row in enumerate(rows) if row.verdict == "MISMATCH")
