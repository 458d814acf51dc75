"""What drawings say of a kernel's fusion: what it saves, and why it went no further.

A fusion saves the bytes of the values inside it, written and read once each; what is no fusion moves all of its own.
Refusals are those of the passes that fuse, unless their two sides came together later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from hlotool.analysis.decisions import Decision
from hlotool.analysis.traffic import shape_bytes
from hlotool.inspect.labels import short
from hlotool.inspect.svg import byte_words
from hlotool.ir import Computation, Instruction, Module
from hlotool.lazy_dataclass import dataclass

__all__ = ["FUSION_PASSES", "NodeReason", "node_reasons"]

FUSION_PASSES = frozenset({"fusion", "multi-output-fusion", "product-fusion", "product-prologue"})
_FREE = frozenset({"parameter", "constant", "iota", "tuple", "get-tuple-element", "bitcast"})
_MOST_CODES = 2  # on a box
_MOST_REASONS = 12  # of a box


@dataclass(frozen=True, slots=True)
class NodeReason:
    """`line` stands on the box; `details` are (code, words), the code empty where there is none."""

    line: str
    details: tuple[tuple[str, str], ...]


def node_reasons(module: Module, decisions: Iterable[Decision]) -> dict[Instruction, NodeReason]:
    """The reasons of the instructions of `module` that decisions of fusing passes are about.

    `decisions` are all that led to the module.
    """
    made: dict[str, list[Decision]] = {}
    refused: dict[str, dict[Decision, None]] = {}
    for decision in decisions:
        if decision.pass_name not in FUSION_PASSES:
            continue
        if decision.action == "rewrite":
            for name in decision.after:
                made.setdefault(name, []).append(decision)
        elif decision.action == "refuse":
            for place, name in enumerate(decision.before):
                for one in (name, *_origins(decision, place)):
                    refused.setdefault(one, {})[decision] = None
    if not made and not refused:
        return {}
    inside = {c for i in module.instructions() if i.opcode == "fusion" for c in i.called}
    kernels = [
        one for c in module.computations.values() if c not in inside for one in c if one.opcode != "parameter"
    ]
    holders = Counter(name for one in kernels for name in {one.name, *one.origins})  # a constant may be in many
    found: dict[Instruction, NodeReason] = {}
    for kernel in kernels:
        names = [name for name in dict.fromkeys((kernel.name, *kernel.origins)) if holders[name] == 1]
        if (reason := _reason(kernel, names, made, refused)) is not None:
            found[kernel] = reason
    return found


def _reason(
    instruction: Instruction,
    names: Collection[str],
    made: Mapping[str, list[Decision]],
    refused: Mapping[str, Mapping[Decision, None]],
) -> NodeReason | None:
    """The reason of an instruction that alone is, or was made from, what has one of `names`."""
    fused = made.get(instruction.name, []) if instruction.opcode == "fusion" else []
    about: dict[Decision, None] = {}
    for name in names:
        about.update(refused.get(name, {}))
    left = [one for one in about if not _came_together(one, names)]
    if not fused and not left:
        return None
    codes = sorted({one.code for one in left})
    shown = ", ".join(codes[:_MOST_CODES]) + (" …" if len(codes) > _MOST_CODES else "")
    words = []
    if instruction.opcode == "fusion":
        saved = _saved(instruction)
        words.append(f"fused: saves {byte_words(saved)}" if saved else "fused")
    if codes:
        words.append(f"{'not further' if words else 'not fused'}: {shown}")
    details = [*((one.code, _words(one)) for one in fused), *((one.code, _words(one)) for one in left)]
    return NodeReason("; ".join(words), tuple(dict.fromkeys(details))[:_MOST_REASONS])


def _origins(decision: Decision, place: int) -> tuple[str, ...]:
    return decision.origins[place] if place < len(decision.origins) else ()


def _came_together(decision: Decision, names: Collection[str]) -> bool:
    """Whether both sides of a refused fusion are in the kernel that `names` made up."""
    sides = [{name, *_origins(decision, place)} for place, name in enumerate(decision.before)]
    return len(sides) > 1 and all(not side.isdisjoint(names) for side in sides)


def _saved(fusion: Instruction) -> int:
    body = fusion.attributes.get("calls")
    if not isinstance(body, Computation):
        return 0
    results = {body.root, *(body.root.operands if body.root.opcode == "tuple" else ())}
    inner = [one for one in body if one not in results and one.opcode not in _FREE]
    return 2 * sum(shape_bytes(one.shape) or 0 for one in inner)


def _words(decision: Decision) -> str:
    numbers = ", ".join(f"{key} {value:g}" for key, value in decision.numbers)
    about = " and ".join(decision.before[:3]) + (" …" if len(decision.before) > 3 else "")
    reason = decision.reason or decision.rule
    return short(f"{about}: {reason}{f' ({numbers})' if numbers else ''}", 200)
