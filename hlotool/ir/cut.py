"""Cutting: a part of a computation as a module of its own; what it reads from outside is parameters there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from hlotool.ir.builder import Builder
from hlotool.ir.errors import InputError
from hlotool.ir.module import Computation, Instruction, Module, clone_computation, clone_instruction
from hlotool.lazy_dataclass import dataclass

__all__ = ["Cut", "cut"]

_DEVICES = ("replica_count", "num_partitions")


@dataclass(frozen=True, slots=True)
class Cut:
    """A module, and the instructions that its parameters and results (one, or those in a tuple) stand for."""

    module: Module
    parameters: tuple[Instruction, ...]
    results: tuple[Instruction, ...]


def cut(
    keep: Collection[Instruction],
    results: Sequence[Instruction] | None = None,
    copied: Callable[[Instruction], bool] = lambda constant: True,
    *,
    in_order: bool = False,
) -> Cut:
    """The instructions `keep`, all of one computation, as a module; names stay.

    What they read from outside is a parameter, or a constant of their own where it is one that is to be `copied`.
    Results are those that others read, or nobody, unless given.  Where `keep` is `in_order`, that of its computation,
    the time does not grow with what is left out.  InputError where there is nothing to compute, or where `keep` are of
    several computations.
    """
    homes = {instruction.parent for instruction in keep}
    if len(homes) != 1 or None in homes:
        several = "the instructions to cut out are in several computations"
        raise InputError(several if homes else "there is nothing to cut out")
    (home,) = homes
    assert home is not None
    chosen = set(keep)
    body = [i for i in (keep if in_order else home) if i in chosen and i.opcode != "parameter"]
    if results is None:
        results = [i for i in body if i is home.root or not i.users or not chosen.issuperset(i.users)]
    if not body or not results:
        raise InputError("there is nothing to cut out but parameters")
    module = _frame(home.module)
    copies = _callees(body, module)
    entry = Computation(home.name)
    build = Builder(entry)
    made: dict[Instruction, Instruction] = {}
    outside = _outside(body, chosen)
    for source in (i for i in outside if i.opcode == "constant" and copied(i)):
        made[source] = _copy(source, (), build)
    parameters = [i for i in outside if i not in made]
    for number, source in enumerate(parameters):
        made[source] = build.parameter(number, source.shape, source.name)
        made[source].metadata, made[source].location = source.metadata, source.location
    for instruction in body:
        new = made[instruction] = _copy(instruction, [made[operand] for operand in instruction.operands], build)
        new.replace_called(copies.__getitem__)
        for before in instruction.control_predecessors:
            if before in chosen and before in made:
                new.add_control_predecessor(made[before])
    entry.root = made[results[0]] if len(results) == 1 else build.tuple([made[one] for one in results])
    module.add(entry, entry=True)
    entry.root.name = entry.root.name or module.unique_name("results")
    return Cut(module, tuple(parameters), tuple(results))


def _copy(instruction: Instruction, operands: Iterable[Instruction], build: Builder) -> Instruction:
    new = clone_instruction(instruction, operands, instruction.name)
    new.origins = instruction.origins
    return build.put(new)


def _outside(body: Sequence[Instruction], chosen: Collection[Instruction]) -> list[Instruction]:
    """What is there but not computed: parameters that were chosen, by number, then what else the body reads."""
    inside = set(body)
    own = sorted((i for i in chosen if i.opcode == "parameter"), key=lambda i: i.parameter_number)
    read = (operand for i in body for operand in i.operands if operand not in inside)
    return list(dict.fromkeys([*own, *read]))


def _frame(source: Module | None) -> Module:
    """An empty module that runs on as many devices as `source`, and has its table of source places."""
    if source is None:
        return Module("cut")
    attributes = {name: source.attributes[name] for name in _DEVICES if name in source.attributes}
    module = Module(source.name, attributes)
    module.stack_frames = source.stack_frames
    return module


def _callees(body: Iterable[Instruction], module: Module) -> dict[Computation, Computation]:
    """Copies of all computations that are called, in `module`, callees ahead of callers."""
    copies: dict[Computation, Computation] = {}
    stack: list[tuple[Computation, bool]] = [(c, False) for i in reversed(list(body)) for c in reversed(i.called)]
    while stack:
        computation, ready = stack.pop()
        if computation in copies:
            continue
        if ready:
            copies[computation] = module.add(clone_computation(computation, called=copies, keep_names=True))
        else:
            stack.append((computation, True))
            stack += [(callee, False) for callee in computation.callees if callee not in copies]
    return copies
