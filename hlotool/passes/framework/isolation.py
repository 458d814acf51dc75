"""Isolation: what fails is left out, and the others go on.

Nothing is copied ahead of a pass for that.  Passes are deterministic; when one fails, all run again on a fresh copy of
the module, and the one that failed is left out from the run on in which it did.

Of kernels it is instructions that are made simpler: a fusion becomes the instructions in it, which have plain loops of
their own, and what is no fusion is left to the evaluator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field

from hlotool.ir import Computation, Instruction, Module
from hlotool.ir.builder import Builder
from hlotool.ir.module import clone_computation, clone_instruction
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import inline_computation
from hlotool.passes.framework.manager import Instrument
from hlotool.passes.framework.steps import Pass

__all__ = ["LeaveOut", "alone", "simplify_kernel"]


@dataclass(slots=True)
class LeaveOut:
    """Leaves out passes that failed when a pipeline runs again, and tells `instruments` only what they do not know yet.

    `ahead` is told the module ahead of the first run that is left out; while passes are not `optional`, none is.  Runs
    are counted from 1; `failed` has the first that failed, by pass.
    """

    instruments: Sequence[Instrument]
    ahead: Callable[[Pass, Module], None]
    optional: Callable[[], bool]
    failed: dict[Pass, int] = field(default_factory=dict)
    count: int = 0
    answers: list[bool] = field(default_factory=list)

    def leave_out(self, pass_: Pass) -> None:
        """Leave out the pass that has just failed.  What the instruments were told of later ones is told again."""
        self.failed[pass_] = self.count
        del self.answers[self.count :]

    def before(self, pass_: Pass, module: Module) -> bool:
        self.count += 1
        if self.count > len(self.answers):
            self.answers.append(all(instrument.before(pass_, module) for instrument in self.instruments))
        first = self.failed.get(pass_, self.count + 1) if self.failed else self.count + 1
        if self.count == first:
            self.ahead(pass_, module)
        return self.answers[self.count - 1] and (self.count < first or not self.optional())

    def after(self, pass_: Pass, module: Module, changed: bool, seconds: float) -> None:
        if self.count == len(self.answers):
            for instrument in self.instruments:
                instrument.after(pass_, module, changed, seconds)


def simplify_kernel(module: Module, instruction: Instruction) -> str:
    """Give the work of a kernel that cannot be had to others; in words, to whom."""
    if instruction.opcode == "fusion":
        instruction.replace_all_uses(inline_computation(instruction, instruction.attributes["calls"],
                                                        instruction.operands))  # fmt: skip
        instead = "its parts have kernels of their own"
    else:
        instruction.replace_all_uses(_evaluated(module, instruction))
        instead = "the evaluator computes it"
    assert instruction.parent is not None
    instruction.parent.erase(instruction)
    return instead


def _evaluated(module: Module, instruction: Instruction) -> Instruction:
    """A call, ahead of `instruction`, that leaves it to the evaluator."""
    from hlotool.evaluate.custom_call import EVALUATED

    body = Computation(module.unique_name("evaluated"))
    build = Builder(body)
    operands = [build.parameter(number, operand.shape) for number, operand in enumerate(instruction.operands)]
    body.root = body.add(clone_instruction(instruction, operands))
    module.add(body)
    call = Instruction(
        "custom-call",
        instruction.shape,
        instruction.operands,
        {"custom_call_target": EVALUATED, "called_computations": (body,)},
        module.unique_name("evaluated"),
        instruction.metadata,
        instruction.location,
        instruction.origins or (instruction.name,),
    )
    assert instruction.parent is not None
    instruction.parent.add(call, before=instruction)
    for before in instruction.control_predecessors:
        call.add_control_predecessor(before)
    return call


def alone(instruction: Instruction) -> Module:
    """A module that computes `instruction` from parameters alone."""
    module = Module("alone")
    copies: dict[Computation, Computation] = {}

    def add(computations: Iterable[Computation]) -> None:
        for computation in computations:
            if computation not in copies:
                for caller in computation:
                    add(caller.called)
                copies[computation] = module.add(clone_computation(computation, called=copies, keep_names=True))

    add(instruction.called)
    entry = Computation("main")
    builder = Builder(entry)
    operands = [builder.parameter(number, operand.shape) for number, operand in enumerate(instruction.operands)]
    result = entry.add(Instruction(instruction.opcode, instruction.shape, operands, instruction.attributes, "result"))
    result.replace_called(copies.__getitem__)
    entry.root = result
    module.add(entry, entry=True)
    return module
