"""Reasons: why two instructions were, or were not, fused, and where an instruction comes from.

Both look at three things: the module as it came in, the module after the passes, and the log of decisions in between.
Instructions are followed by their origins, the source instructions that they were made from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import pairwise

from hlotool.analysis.decision_codes import KINDS
from hlotool.analysis.decisions import Decision
from hlotool.analysis.fusibility import is_fusible
from hlotool.inspect.node_reasons import FUSION_PASSES
from hlotool.inspect.select import find_instruction
from hlotool.ir import Computation, InputError, Instruction, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.simplify.algebra import all_rules
from hlotool.passes.simplify.algebra.arithmetic import RECIPROCAL_RULES
from hlotool.passes.simplify.algebraic_simplifier import AlgebraicSimplifier

__all__ = ["Blame", "Compilation", "FusionAnswer", "Hop", "explain_fusion", "explain_instruction", "meaning_of",
           "title_of"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compilation:
    """A module before and after the passes, and what they decided; `problem` says why none was run."""

    source: Module
    result: Module
    decisions: tuple[Decision, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Hop:
    """Two neighbours that are in different kernels, and why: decisions, or else a code and words."""

    producer: Instruction
    consumer: Instruction
    decisions: tuple[Decision, ...]
    code: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class FusionAnswer:
    """`kernel` has both, when they were fused; otherwise `hops` lead from the one to the other, and `reason` says what
    there is to say where no hop does."""

    kernel: Instruction | None
    hops: tuple[Hop, ...] = ()
    reason: str = ""
    decisions: tuple[Decision, ...] = ()


@dataclass(frozen=True, slots=True)
class Blame:
    """What an instruction was made from, what became of it, and the decisions about it, in order."""

    name: str
    sources: tuple[Instruction, ...]
    results: tuple[Instruction, ...]
    rewrites: tuple[Decision, ...]
    refusals: tuple[Decision, ...]
    notes: tuple[Decision, ...]


# ---- fusion


def explain_fusion(compiled: Compilation, first: str, second: str) -> FusionAnswer:
    """Why two instructions share a kernel, or do not.  InputError when there is no such instruction."""
    kernels = _Kernels(compiled.result)
    names = [_origins(compiled, name) for name in (first, second)]
    holders = [kernels.of(origins) for origins in names]
    for name, found, origins in zip((first, second), holders, names, strict=True):
        if not found:
            about = tuple(d for d in compiled.decisions if d.action == "rewrite" and _concerns(d, origins))
            return FusionAnswer(None, reason=f"{name} is no more: it was simplified away", decisions=about[-3:])
    common = [kernel for kernel in holders[0] if kernel in holders[1]]
    if common:
        kernel = common[0]
        made = tuple(d for d in compiled.decisions if kernel.name in d.after and d.pass_name in FUSION_PASSES)
        return FusionAnswer(kernel, decisions=made)
    refusals = [d for d in compiled.decisions if d.action == "refuse" and d.pass_name in FUSION_PASSES]
    path = _path(holders[0], holders[1]) or _path(holders[1], holders[0])
    if path:
        hops = tuple(_hop(refusals, a, b) for a, b in pairwise(path))
        return FusionAnswer(None, hops)
    pair = tuple(d for d in refusals if _concerns(d, names[0]) and _concerns(d, names[1]))
    if pair:
        return FusionAnswer(None, (Hop(holders[0][0], holders[1][0], pair),))
    return FusionAnswer(None, reason="neither needs the other's result: they were not considered together")


class _Kernels:
    """Which instructions of the computations that run (not: bodies of fusions) hold a source instruction."""

    def __init__(self, module: Module) -> None:
        fused = {c for i in module.instructions() if i.opcode == "fusion" for c in i.called}
        bodies: dict[Computation, Instruction] = {}
        for instruction in module.instructions():
            if instruction.opcode == "fusion":
                bodies.update(dict.fromkeys(instruction.called, instruction))
        self.holders: dict[str, dict[Instruction, None]] = {}
        for instruction in module.instructions():
            home = instruction.parent
            kernel = bodies.get(home, instruction) if home in fused and home is not None else instruction
            if instruction.opcode == "parameter" and kernel is not instruction:
                continue
            if instruction.opcode == "get-tuple-element" and instruction.operands[0].opcode == "fusion":
                continue  # a result of the kernel, not a kernel
            for name in (instruction.name, *instruction.origins):
                self.holders.setdefault(name, {})[kernel] = None

    def of(self, origins: Iterable[str]) -> list[Instruction]:
        return list(dict.fromkeys(kernel for name in origins for kernel in self.holders.get(name, ())))


def _path(starts: list[Instruction], ends: list[Instruction]) -> list[Instruction]:
    """The shortest way along the flow of data, tuple elements left out; empty when there is none."""
    goal = set(ends)
    before: dict[Instruction, Instruction | None] = dict.fromkeys(starts)
    queue = deque(starts)
    while queue:
        now = queue.popleft()
        if now in goal:
            path: list[Instruction] = []
            step: Instruction | None = now
            while step is not None:
                path.append(step)
                step = before[step]
            return [one for one in reversed(path) if one.opcode != "get-tuple-element"]
        for user in now.users:
            if user not in before:
                before[user] = now
                queue.append(user)
    return []


def _hop(refusals: list[Decision], producer: Instruction, consumer: Instruction) -> Hop:
    first, second = _all_names(producer), _all_names(consumer)
    found = [
        d
        for d in refusals
        if len(d.before) == 2 and _names_in(d, 0) & first and _names_in(d, 1) & second
    ]
    if found:
        return Hop(producer, consumer, tuple({(d.rule, d.before): d for d in found}.values()))
    for one in (consumer, producer):
        if one.opcode != "fusion" and not is_fusible(one):
            words = f"a {one.opcode} has a kernel of its own" if one.opcode != "tuple" else "a tuple is no computation"
            return Hop(producer, consumer, (), "HLO4011", words)
    alone = [d for d in refusals if len(d.before) == 1 and _names_in(d, 0) & (first | second)]
    return Hop(producer, consumer, tuple(alone), "" if alone else "HLO4000", "" if alone else "not considered")


def _all_names(instruction: Instruction) -> set[str]:
    return {instruction.name, *instruction.origins}


def _names_in(decision: Decision, place: int) -> set[str]:
    return {decision.before[place], *(decision.origins[place] if place < len(decision.origins) else ())}


def _concerns(decision: Decision, names: Iterable[str]) -> bool:
    wanted = set(names)
    return any(_names_in(decision, place) & wanted for place in range(len(decision.before)))


def _origins(compiled: Compilation, name: str) -> tuple[str, ...]:
    """The source instructions that a name, of the module before or after the passes, stands for."""
    try:
        return (find_instruction(compiled.source, name).name,)
    except InputError as error:
        try:
            found = find_instruction(compiled.result, name)
        except InputError:
            raise error from None
        return (found.name, *found.origins)


# ---- blame


def explain_instruction(compiled: Compilation, name: str) -> Blame:
    """Where an instruction comes from and what became of it.  InputError when there is none in either module."""
    origins = _origins(compiled, name)
    wanted = set(origins)
    plain = name.rpartition("/")[2].lstrip("%")
    sources = tuple(i for i in compiled.source.instructions() if i.name in wanted)
    results = tuple(i for i in compiled.result.instructions() if i.name == plain and i.opcode != "parameter")
    if not results or (sources and sources[0].name == plain):
        results = tuple(_Kernels(compiled.result).of(origins))
    made = _made_by(compiled.decisions, {plain, *(i.name for i in results)})
    about = [d for d in compiled.decisions if _concerns(d, wanted) or d in made]
    return Blame(
        name,
        sources,
        results,
        tuple(d for d in about if d.action == "rewrite"),
        tuple({(d.pass_name, d.rule, d.before): d for d in about if d.action == "refuse"}.values()),
        tuple(d for d in about if d.action == "note"),
    )


def _made_by(decisions: Iterable[Decision], names: set[str]) -> set[Decision]:
    """The decisions that made the instructions called `names`, and of fusions the fusions that they were made from."""
    found = set()
    for decision in reversed(list(decisions)):
        if names.intersection(decision.after):
            found.add(decision)
            if decision.pass_name in ("multi-output-fusion", "product-fusion", "product-prologue"):
                names |= set(decision.before)
    return found


def title_of(code: str) -> str:
    """What a decision's code is called."""
    kind = KINDS.get(code)
    return kind.title if kind is not None else ""


def meaning_of(decision: Decision) -> str:
    """What a rewrite does, in a line: the identity of an algebraic rule, else what its code is called."""
    if decision.pass_name == AlgebraicSimplifier.name:
        identity = next((rule.help for rule in (*all_rules(), *RECIPROCAL_RULES) if rule.name == decision.rule), "")
        if identity:
            return " ".join(identity.partition("\n\n")[0].split())
    return title_of(decision.code)
