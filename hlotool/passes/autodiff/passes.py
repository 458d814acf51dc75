"""Derivatives as passes: these change what a module computes, and what it takes and returns."""

from __future__ import annotations

from math import inf
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.sizes import number_of
from hlotool.ir import HloError, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.autodiff.derivative import make_gradient, make_jvp, make_vjp

__all__ = ["Gradient", "Jvp", "Vjp"]


def _numbers(pass_name: str, wrt: str) -> list[int]:
    try:
        return [int(number) for number in wrt.split("+")]
    except ValueError:
        raise HloError(f"{pass_name}: wrt is numbers of parameters, as in 0+2, not {wrt!r}") from None


def _bound(memory: str, pass_name: str) -> int | None:
    number = number_of(memory) if memory else None
    if memory and number is None:
        raise HloError(f"{pass_name}: memory is a size, as 64MB or 1GiB, not {memory!r}")
    return None if number is None else int(number)


@dataclass(frozen=True, slots=True)
class Gradient:
    """Makes a module that computes gradients of the one that is there.

    What enters stays the same.  What leaves is a tuple: the gradient of result number `result`, a scalar of floats, by
    each array of the parameters `wrt` (0+2 for the first and the third); with `value` what left before comes first.

    Every opcode is differentiated, constant, or refused by name: loops whose trip count is not known, custom calls
    without a rule, values that leave the program.

    `memory` is a bound (64MB): where the gradient would have more bytes alive at once, as far as shapes tell, values of
    the program are computed again rather than kept, those first that take the least work for their bytes.
    """

    name: ClassVar[str] = "grad"
    budget: ClassVar[float] = inf
    changes_program: ClassVar[bool] = True
    wrt: str = "0"
    value: bool = False
    result: int = 0
    memory: str = ""

    def __post_init__(self) -> None:
        _numbers(self.name, self.wrt)
        _bound(self.memory, self.name)

    def run(self, module: Module, log: DecisionLog) -> bool:
        if not log.allow():
            return False
        before = module.instruction_count()
        wrt, bound = _numbers(self.name, self.wrt), _bound(self.memory, self.name)
        make_gradient(module, wrt, value=self.value, result=self.result, memory=bound, log=log)
        _record(log, module, before, f"by parameters {self.wrt}")
        return True


@dataclass(frozen=True, slots=True)
class Vjp:
    """Makes a module that brings cotangents of the results back to the parameters (reverse mode).

    Behind the parameters enters a cotangent for each array of floats in the result, in order.  What leaves is a tuple
    of the cotangents of the arrays in the parameters `wrt` (0+2); with `value` what left before comes first.
    `memory` is a bound as that of `grad`.
    """

    name: ClassVar[str] = "vjp"
    budget: ClassVar[float] = inf
    changes_program: ClassVar[bool] = True
    wrt: str = "0"
    value: bool = False
    memory: str = ""

    def __post_init__(self) -> None:
        _numbers(self.name, self.wrt)
        _bound(self.memory, self.name)

    def run(self, module: Module, log: DecisionLog) -> bool:
        if not log.allow():
            return False
        before = module.instruction_count()
        bound = _bound(self.memory, self.name)
        make_vjp(module, _numbers(self.name, self.wrt), value=self.value, memory=bound, log=log)
        _record(log, module, before, f"by parameters {self.wrt}")
        return True


@dataclass(frozen=True, slots=True)
class Jvp:
    """Makes a module that takes tangents of the parameters to tangents of the results (forward mode).

    Behind the parameters enters a tangent for each array of the parameters `wrt` (0+2).  What leaves is a tuple: what
    left before, unless `value` is false, then the tangents of its arrays of floats.  Loops may run as often as they
    like.
    """

    name: ClassVar[str] = "jvp"
    budget: ClassVar[float] = inf
    changes_program: ClassVar[bool] = True
    wrt: str = "0"
    value: bool = True

    def __post_init__(self) -> None:
        _numbers(self.name, self.wrt)

    def run(self, module: Module, log: DecisionLog) -> bool:
        if not log.allow():
            return False
        before = module.instruction_count()
        make_jvp(module, _numbers(self.name, self.wrt), value=self.value)
        _record(log, module, before, f"by parameters {self.wrt}")
        return True


def _record(log: DecisionLog, module: Module, before: int, reason: str) -> None:
    log.rewrite(
        "differentiate", module.entry.name, module.entry.root, reason, given=before, made=module.instruction_count()
    )
