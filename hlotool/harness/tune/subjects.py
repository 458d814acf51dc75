"""What is tuned: kernels of a module, once each, or a module as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.product_epilogue import fused_product
from hlotool.driver.tuned import Wanted, about, alone, kernels_of, key_of
from hlotool.ir import HloError, Instruction, Module, clone_module
from hlotool.lazy_dataclass import dataclass
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

__all__ = ["Kind", "Subject", "kernels_in", "kind_of", "module_subject", "wanted_subject"]

Kind = Literal["product", "loop", "sort", "module"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A kernel, or a module as it comes in: its `text` is a module, by whose hash (`key`) databases know it.

    `seconds` is what it takes in a run of the program, all times together; `flops` and `bytes` are its work.
    """

    kind: Kind
    key: str
    about: str
    text: str
    seconds: float
    flops: float = 0.0
    bytes: float = 0.0

    @property
    def is_module(self) -> bool:
        return self.kind == "module"

    @property
    def pipeline(self) -> str:
        """The passes that it goes through: a kernel is as code generation gets it."""
        return "default" if self.is_module else "none"


def kind_of(instruction: Instruction) -> Kind:
    """Which knobs the kernel of an instruction has."""
    if instruction.opcode in ("dot", "convolution") or fused_product(instruction) is not None:
        return "product"
    return "sort" if instruction.opcode in ("sort", "topk") else "loop"


def kernels_in(module: Module, seconds: Mapping[tuple[str, str], float]) -> list[Subject]:
    """The kernels of a lowered module, equal ones once, those first that take longest.

    `seconds` has what instructions take, by computation and name; kernels that take none are left out.
    """
    found: dict[str, Subject] = {}
    for instruction in kernels_of(module):
        taken = seconds.get((instruction.parent.name if instruction.parent is not None else "", instruction.name), 0.0)
        if taken <= 0:
            continue
        try:
            subject = _kernel(alone(instruction), taken)
        except HloError:
            continue  # what cannot stand alone has no key
        if subject.key in found:
            subject = replace(subject, seconds=found[subject.key].seconds + taken)
        found[subject.key] = subject
    return sorted(found.values(), key=lambda one: -one.seconds)


def wanted_subject(wanted: Wanted) -> Subject:
    """A kernel that a compilation noted; nobody knows how long it takes."""
    return _kernel(parse(wanted.text), 1e-3)


def module_subject(module: Module, seconds: float) -> Subject:
    """A module as it comes in."""
    cost = ModuleCost(module).total
    return Subject(
        kind="module", key=key_of(clone_module(module)), about=module.name, text=print_module(module),
        seconds=seconds, flops=float(cost.flops), bytes=float(cost.bytes_read + cost.bytes_written),
    )


def _kernel(module: Module, seconds: float) -> Subject:
    root, cost = module.entry.root, ModuleCost(module).total
    return Subject(
        kind=kind_of(root), key=key_of(module), about=about(root), text=print_module(module), seconds=seconds,
        flops=float(cost.flops), bytes=float(cost.bytes_read + cost.bytes_written),
    )
