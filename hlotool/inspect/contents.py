"""What is in a box, in a few words: ``conv ×3 · 1.2 GF``, and the kind of work that weighs most there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from hlotool.analysis.cost import ModuleCost
from hlotool.inspect.scene import Box, Scene
from hlotool.inspect.svg import byte_words, count_words
from hlotool.ir import Instruction

__all__ = [
    "amount_words",
    "contents",
    "heaviest_group",
    "outermost",
    "parameter_scope",
    "part_title",
    "products_in",
    "strip_readers",
]

_PRODUCTS = {"convolution": "conv", "dot": "dot"}
_HEAVY = (
    "custom-call", "while", "conditional", "sort", "fft", "cholesky", "triangular-solve", "scatter", "gather",
    "reduce-window", "select-and-scatter", "rng", "rng-bit-generator", "all-reduce", "all-gather", "all-to-all",
    "reduce-scatter", "collective-permute",
)  # fmt: skip
"""Opcodes that name a part, if it has no product."""
_NOTHING = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "fusion", "bitcast", "copy", "call"})
_PLUMBING = frozenset({"broadcast", "reshape", "transpose", "slice", "iota", "convert"})
_MANY_FLOPS, _MANY_BYTES = 1e6, 1 << 10  # below these nothing is said


def part_title(box: Box, costs: ModuleCost, turn: str = "") -> str:
    """The name of a part: what is in it, how much that is, and which repetition it is."""
    scopes = [child.title for child in box.children if child.kind == "scope" and not child.title.count(" · ")]
    by_framework = 2 * len(scopes) > len(box.children)
    named = f"{scopes[0]} … {scopes[-1]}" if by_framework else _main_contents(box)
    return " · ".join(filter(None, (named, amount_words(box, costs), turn)))


def contents(box: Box) -> str:
    """The commonest opcodes in a box: ``dot ×4, add ×3``."""
    counts = _counts(box)
    counts.pop("parameter", None)
    return _listed(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:3])


def products_in(box: Box) -> int:
    """How many dots and convolutions a box is or holds."""
    return sum(one.instruction is not None and one.instruction.opcode in _PRODUCTS for one in box.walk())


def amount_words(box: Box, costs: ModuleCost) -> str:
    """The flops in a box, where they are many; else the bytes that it moves."""
    found = [costs.of(one) for one in outermost(box)]
    flops, moved = sum(cost.flops + cost.transcendentals for cost in found), sum(cost.bytes for cost in found)
    if flops >= _MANY_FLOPS:
        return f"{count_words(flops)}F"
    return byte_words(moved) if moved >= _MANY_BYTES else ""


def outermost(box: Box) -> Iterator[Instruction]:
    """The instructions in a box that no other one in it holds."""
    stack = list(reversed(box.children))
    while stack:
        one = stack.pop()
        if one.instruction is None:
            stack.extend(reversed(one.children))
        elif one.kind != "value":
            yield one.instruction


def heaviest_group(box: Box, costs: ModuleCost) -> str:
    """The group of opcodes that most of the work in a box is; empty where there is none."""
    weights: Counter[str] = Counter()
    for one in box.walk():
        instruction = one.instruction
        if instruction is None or one is box or one.kind == "value" or instruction.opcode in _NOTHING:
            continue
        if not one.children:
            cost = costs.of(instruction)
            weights[instruction.info.group] += cost.flops + cost.transcendentals + cost.bytes
    return max(weights, key=lambda group: (weights[group], group), default="")


def strip_readers(scene: Scene) -> dict[Box, dict[str, None]]:
    """For every scope the names of the parameters in the strip that are read in it."""
    found: dict[Box, dict[str, None]] = {}
    for edge in scene.edges:
        strip, box = edge.source.parent, edge.target.parent
        if strip is None or strip.kind != "strip" or edge.source.instruction is None:
            continue
        while box is not None:
            if box.kind == "scope":
                found.setdefault(box, {})[edge.source.instruction.name] = None
            box = box.parent
    return found


def parameter_scope(box: Box, readers: Mapping[Box, Collection[str]]) -> str:
    """What the names of the parameters that a scope reads have in common: ``blocks.1`` for ``p__blocks___1___w``.

    The longest beginning that three in four of them share, without the part that names the argument of the function;
    empty where the names do not say more than what argument it is.
    """
    names = [tuple(filter(None, re.split(r"[^A-Za-z0-9]+|_", name))) for name in readers.get(box, ())]
    counts = Counter(words[:length] for words in names for length in range(2, len(words)))
    shared = [words for words, count in counts.items() if count >= 0.75 * len(names)]
    return ".".join(max(shared, key=len)[1:]) if shared else ""


def _main_contents(box: Box) -> str:
    counts = _counts(box)
    for name in _NOTHING:
        counts.pop(name, None)
    products = [(_PRODUCTS[name], counts[name]) for name in _PRODUCTS if counts[name]]
    heavy = [(name, counts[name]) for name in _HEAVY if counts[name]]
    light = sorted(
        ((name, count) for name, count in counts.items() if name not in _PRODUCTS and name not in _HEAVY),
        key=lambda item: (item[0] in _PLUMBING, -item[1], item[0]),
    )
    chosen = [*products, *heavy[: 1 if products else 2]]
    return _listed(chosen or light[:2]) or "data"


def _counts(box: Box) -> Counter[str]:
    inside = (one.instruction for one in box.walk() if one.kind != "value" and one is not box)
    return Counter(one.opcode for one in inside if one is not None)


def _listed(counts: list[tuple[str, int]]) -> str:
    return ", ".join(f"{name} ×{count}" if count > 1 else name for name, count in counts)
