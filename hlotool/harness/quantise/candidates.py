"""Which products can be quantised, and why the others cannot."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hlotool.analysis.decisions import DecisionLog
from hlotool.harness.quantise.options import Options
from hlotool.ir import Computation, Instruction, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import has_sizes
from hlotool.passes.quantise.integer_products import MOST_SUM, largest_sum
from hlotool.passes.quantise.products import PRODUCTS, Channels, channels_of

__all__ = ["Candidate", "candidates"]

_CONTROL = frozenset({"while", "conditional", "call"})
_FLOATS = frozenset({"f32", "bf16", "f16"})


@dataclass(frozen=True, slots=True)
class Candidate:
    """A product that can be quantised; `weights` says which operand is constant, and what channels it makes."""

    product: Instruction
    weights: Channels | None


def candidates(module: Module, options: Options, log: DecisionLog) -> list[Candidate]:
    """The products of a module, in order, that `options` can change; each of the others with its reason in `log`."""
    keep = re.compile(options.keep) if options.keep else None
    found = []
    for computation in _steps(module):
        for product in computation:
            if product.opcode not in PRODUCTS:
                continue
            if keep is not None and is_named(product, keep):
                log.refuse("kept", product, f"--keep {options.keep} finds it")
            elif _asks(product):
                log.refuse("asked-for", product, "it asks for a precision of its own")
            else:
                weights = channels_of(product)
                reason = _obstacle(product, weights, options, computation is module.entry)
                if reason:
                    log.refuse("unfit", product, reason)
                else:
                    found.append(Candidate(product, weights))
    return found


def is_named(product: Instruction, pattern: re.Pattern[str]) -> bool:
    """Whether a pattern finds the name of an instruction, or its op_name."""
    op_name = product.metadata.op_name if product.metadata is not None else None
    return bool(pattern.search(product.name) or (op_name and pattern.search(op_name)))


def _steps(module: Module) -> Iterator[Computation]:
    """The computations that run as steps of the program."""
    seen, work = {module.entry}, [module.entry]
    for computation in work:  # which grows
        yield computation
        for one in computation.calls:
            for called in one.called if one.opcode in _CONTROL else ():
                if called not in seen:
                    seen.add(called)
                    work.append(called)


def _asks(product: Instruction) -> bool:
    given = product.attributes
    return "algorithm" in given or bool(set(map(str, given.get("operand_precision", ()))) & {"high", "highest"})


def _obstacle(product: Instruction, weights: Channels | None, options: Options, in_entry: bool) -> str:
    """Why a product cannot be quantised; nothing where it can."""
    target = options.target
    kinds = {product.shape.element_type, *(operand.shape.element_type for operand in product.operands)}
    constant = sum(operand.opcode == "constant" for operand in product.operands)
    if len(product.operands) != 2 or has_sizes(product):
        return "it has dynamic dimensions"
    if len(kinds) > 1 or not kinds <= (_FLOATS if not target.values else {"f32"}):
        return f"it is of {' and '.join(sorted(kinds))}"
    if any(not operand.shape.size for operand in product.operands):
        return "it has no elements"
    if constant == 2:
        return "both operands are constants"
    if not target.values:
        if weights is None:
            return "no operand is a constant, so there are no weights"
        return _group_obstacle(product, weights, options)
    if not in_entry and not target.is_cast:
        return "it is in a loop or branch, whose values calibration does not see"
    if product.attributes.get("batch_group_count", 1) != 1:
        return "it has groups along the batch"
    if product.opcode == "convolution" and product.operands[1].opcode != "constant" and not options.symmetric:
        return "its kernel is no constant, and would have a zero point"
    if target.weights == "s8" and largest_sum(product, "u8", "s8", (255, 0)) > MOST_SUM:
        return "its sums may not fit s32"
    return ""


def _group_obstacle(product: Instruction, weights: Channels, options: Options) -> str:
    if not options.group:
        return ""
    axis = summed_axis(product, weights)
    if axis is None:
        return "groups of weights need one dimension that is summed over, as a dot with a matrix has"
    size = product.operands[weights.operand].shape.dimensions[axis]
    return f"{size} weights in a sum are no whole groups of {options.group}" if size % options.group else ""


def summed_axis(product: Instruction, weights: Channels) -> int | None:
    """The one dimension of a dot's weights that is summed over."""
    rank = product.operands[weights.operand].shape.rank
    summed = [axis for axis in range(rank) if axis not in weights.axes]
    return summed[0] if product.opcode == "dot" and len(summed) == 1 else None
