"""Quantising a module, from calibration to a module of small numbers and what is known of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hlotool.analysis.decisions import DecisionLog
from hlotool.driver import compile_module, optimise
from hlotool.harness.quantise.calibrate import observe, recipes_of
from hlotool.harness.quantise.candidates import Candidate, candidates
from hlotool.harness.quantise.metric import AccuracyLost, Metric, accuracy
from hlotool.harness.quantise.noise import Layer, Probe
from hlotool.harness.quantise.options import Options, Sample
from hlotool.harness.quantise.prepare import prepared
from hlotool.ir import ELEMENT_TYPES, InputError, Module, UnsupportedError, clone_module
from hlotool.ir.devices import topology_of
from hlotool.ir.verifier import check
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.expand.change_precision import ChangePrecision
from hlotool.passes.quantise.integer_products import IntegerProducts
from hlotool.passes.quantise.placement import Recipe, place

__all__ = ["Quantised", "constant_bytes", "quantise"]

Arrays: TypeAlias = list[npt.NDArray[Any]]

_FINISH = "cse,dce,computation-deduplicator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantised:
    """A quantised `module`, and what it was made of: `source`, prepared, whose `chosen` products are quantised.

    `types` are those of the operands of each chosen one.  `layers` are those that could be, in order; they, and the
    `error` of results over all samples, are only known where there were inputs.  `right` is the accuracy of source and
    module, where labels were given; `bytes` are those of the constants of both.
    """

    source: Module
    module: Module
    options: Options
    log: DecisionLog
    chosen: tuple[str, ...]
    types: Mapping[str, str] = field(default_factory=dict)
    layers: tuple[Layer, ...] = ()
    error: float | None = None
    metric: str = ""
    right: tuple[float, float] | None = None
    bytes: tuple[int, int] = field(default=(0, 0))

    @property
    def within(self) -> bool:
        """Whether the error is within the bound, if there is one."""
        bound = self.options.max_error
        return bound is None or (self.error is not None and self.error <= bound)


def quantise(
    module: Module, samples: Sequence[Sample], options: Options, metric: Metric,
    tell: Callable[[str], None] = lambda words: None,
) -> Quantised:
    """The module with products of small numbers.

    InputError where there is nothing to calibrate with, or what is given does not fit; UnsupportedError for a module on
    several devices, or one without a product that can be quantised.
    """
    if topology_of(module).devices > 1:
        raise UnsupportedError("quantise takes modules for one device")
    target = options.target
    if target.values and not target.is_cast and not samples:
        raise InputError(f"--to {options.to} needs inputs to calibrate with: --calibrate FILE.npz ...")
    if options.max_error is not None and not samples:
        raise InputError("--max-error needs inputs to measure the error with: --calibrate FILE.npz ...")
    tell("preparing the module")
    source = prepared(module)
    log = DecisionLog()
    log.start_pass("quantise", 1, source)
    found = candidates(source, options, log)
    if options.keep and not any(one.rule == "kept" for one in log):
        raise InputError(f"--keep {options.keep} finds no product; there are {_names(source)}")
    if not found:
        reasons = sorted({one.reason for one in log if one.action == "refuse"})
        raise UnsupportedError(f"no product can be quantised: {'; '.join(reasons) or 'there is none'}")
    seen = observe(source, found, samples, tell) if samples and target.values and not target.is_cast else {}
    recipes = recipes_of(found, seen, options)
    names = [one.product.name for one in found]
    if not samples:
        return _made(source, found, recipes, names, options, log, metric)
    entry = [one for one in found if one.product.parent is source.entry]
    probe = Probe(source, entry, recipes, samples, metric, tell) if entry else None
    alone = probe.alone() if probe is not None else {}
    order = sorted(alone, key=lambda name: -alone[name].error)  # the worst first
    program = compile_module(source)
    wanted = [[np.asarray(one) for one in program(*sample.arrays)] for sample in samples]
    kept = 0
    if probe is not None and options.max_error is not None:
        while kept < len(order) and probe.error([one for one in names if one not in order[:kept]]) > options.max_error:
            kept += 1
            tell(f"searching: {kept} of {len(order)} products stay what they are")
    state = len(log), log.rewrites
    while True:
        chosen = [name for name in names if name not in order[:kept]]
        tell("making the module")
        log.rewind(*state)
        log.start_pass("quantise", 1, source)
        for one in entry:
            if one.product.name in order[:kept]:
                error = alone[one.product.name].error
                log.refuse("accuracy", one.product, "the error of results would be too large", error=error)
        result = _judged(_made(source, found, recipes, chosen, options, log, metric), wanted, samples, metric)
        if result.within or kept == len(order):
            break
        kept += 1  # all samples are harder than those that the search saw
    total = probe.together(chosen) if probe is not None else {}
    layers = tuple(replace(alone[one.product.name], total=total[one.product.name]) for one in entry)
    return replace(result, layers=layers)


def _made(
    source: Module, found: Sequence[Candidate], recipes: Mapping[str, Recipe], chosen: Sequence[str], options: Options,
    log: DecisionLog, metric: Metric,
) -> Quantised:  # fmt: skip
    """The module with the chosen products quantised."""
    made, target = clone_module(source), options.target
    if target.is_cast:
        others = [one.product.name for one in found if one.product.name not in chosen]
        keep = [f"^(?:{'|'.join(map(re.escape, others))})$"] if others else []
        keep += [options.keep] if options.keep else []
        log.start_pass("change-precision", 1, made)
        ChangePrecision(to=target.weights, keep="|".join(keep)).run(made, log)
    else:
        log.start_pass("quantise", 1, made)
        for computation in made.callees_first():
            place(computation, {name: recipes[name] for name in chosen}, log)
        if target.values:
            log.end_pass(True)
            log.start_pass("integer-products", 1, made)
            IntegerProducts().run(made, log)
    log.end_pass(True)
    made = optimise(made, _FINISH)
    check(made)
    return Quantised(
        source=source, module=made, options=options, log=log, chosen=tuple(chosen), metric=metric.words,
        types={one.product.name: _types(one, recipes[one.product.name]) for one in found if one.product.name in chosen},
        bytes=(constant_bytes(source), constant_bytes(made)),
    )  # fmt: skip


def _types(candidate: Candidate, recipe: Recipe) -> str:
    pairs = zip(candidate.product.operands, recipe.operands, strict=True)
    return " x ".join(operand.shape.element_type if one is None else one.type for operand, one in pairs)


def _judged(
    result: Quantised, wanted: Sequence[Arrays], samples: Sequence[Sample], metric: Metric
) -> Quantised:
    """With the error of its results over all samples."""
    program = compile_module(result.module)
    found = [[np.asarray(one) for one in program(*sample.arrays)] for sample in samples]
    right = None
    if isinstance(metric, AccuracyLost):
        right = accuracy(wanted, samples), accuracy(found, samples)
    return replace(result, error=metric.of(wanted, found, samples), right=right)


def constant_bytes(module: Module) -> int:
    """What the constants of a module take, where numbers of fewer than 8 bits are packed."""
    bits = 0
    for one in module.instructions():
        if one.opcode == "constant" and one.shape.is_array:
            bits += one.shape.size * ELEMENT_TYPES[one.shape.element_type].bits
    return -(-bits // 8)


def _names(module: Module) -> str:
    names = [one.name for one in module.instructions() if one.opcode in ("dot", "convolution")]
    return ", ".join(names[:12]) + (" ..." if len(names) > 12 else "") if names else "none"
