"""One program for all members of a family of modules: the pattern, with sizes that come as arguments.

Arrays have the dimensions that they have in the pattern.  Of a dimension with a slot, the first elements count, as many
as the slot says; what the others are is open.  Where they would mix with those that count, they are masked: by the
rules of the dynamic padder, whose arrays are of this kind too, and those below for what a position or length says in
numbers that differ.  What has no rule is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TypeAlias

from hlotool.ir import Computation, Instruction, Module, SliceDimension, array, dtype_of, tuple_shape
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.dynamic.dynamic_rules import RULES, elementwise, regrouped
from hlotool.passes.dynamic.dynamic_values import Maker, Sized
from hlotool.passes.dynamic.family import DifferentError, Family, Member, Row
from hlotool.passes.framework.graph import custom_call_target, erase

__all__ = ["LateSizes", "late_sizes"]

Condition: TypeAlias = Callable[[Sequence[int]], bool]

_PLAIN = frozenset({
    "broadcast", "copy", "get-tuple-element", "iota", "opt-barrier", "parameter", "transpose", "tuple",
})  # fmt: skip
_FIXED_NUMBERS = frozenset({
    "cholesky", "concatenate", "convolution", "dot", "reduce", "reverse", "sort", "topk", "triangular-solve",
})  # fmt: skip
"""Opcodes that the padder has rules for, if no number of theirs but their dimensions differs."""


@dataclass(frozen=True, slots=True, eq=False)
class LateSizes:
    """A family as one program.

    `module` takes what the pattern takes, then s32[n] with a number for each slot, then the constants that differ, with
    the shapes that they have in the pattern.  `conditions` are what members must meet for the program to be theirs.
    """

    module: Module
    conditions: tuple[tuple[Condition, Instruction], ...]

    def check(self, member: Member) -> None:
        """`DifferentError` where the program is not right for a member."""
        for condition, instruction in self.conditions:
            if not condition(member.sizes):
                raise DifferentError(instruction, f"{instruction.opcode} is put together in another way")


def late_sizes(family: Family, members: Sequence[Member], module: Module) -> LateSizes:
    """The program of a family, made of its pattern `module`, which is changed.

    `DifferentError`, with the first instruction for which there is no rule, where none is; `members` are examples.
    """
    work = _Lowering(family, members, module)
    work.run()
    module.remove_unreachable()  # and the new computations stand before those that call them
    return LateSizes(module, tuple(work.conditions))


class _Lowering:
    """What is done to one module."""

    def __init__(self, family: Family, members: Sequence[Member], module: Module) -> None:
        self.family = family
        self.members = members
        self.module = module
        self.conditions: list[tuple[Condition, Instruction]] = []
        self.slots: dict[Instruction, tuple[int | None, ...]] = {}  # of the dimensions of arrays
        self.rows: dict[Instruction, tuple[Row, tuple[int | None, ...]]] = {}
        for row, slots in zip(family.rows, family.slots, strict=True):
            if "shape" in row.where:
                self.rows[row.instruction] = row, slots
                self.slots[row.instruction] = tuple(slots[n] for n in row.where["shape"])
        self.hoisted = {family.rows[n].instruction: k for k, n in enumerate(family.hoisted, 1)}
        self.needing: dict[Computation, bool] = {}
        self.given: list[Instruction] = []  # in the computation at hand: the sizes, and hoisted constants
        self.scalars: dict[int, Instruction] = {}

    def run(self) -> None:
        shapes = [array("s32", (self.family.count,))]
        for instruction in self.hoisted:
            shapes.append(instruction.shape)
        self.shapes = shapes
        done: set[Computation] = set()
        for computation in list(self.module.callees_first()):
            if self.needs(computation) or computation is self.module.entry:
                assert computation not in done
                done.add(computation)
                self.computation(computation)

    # ---- computations

    def needs(self, computation: Computation) -> bool:
        """Whether a computation, or one that it calls, has numbers or constants that differ."""
        found = self.needing.get(computation)
        if found is None:
            found = False
            for i in computation:
                differs = any(slot is not None for slot in self.rows[i][1]) or i in self.hoisted
                found = found or differs or any(self.needs(one) for one in i.called)
            self.needing[computation] = found
        return found

    def computation(self, computation: Computation) -> None:
        old = list(computation)
        self.scalars = {}
        self.given = self.enter(computation)
        make = Maker(computation, _body(computation))
        for slot in range(self.family.count):
            self.scalars[slot] = make.reshape(make.slice(self.given[0], [slot], [slot + 1]), ())
        for i, following in zip(old, [*old[1:], None], strict=True):
            if i in self.hoisted:
                self.replace(i, self.given[self.hoisted[i]])
            elif any(self.needs(one) for one in i.called):
                self.call(Maker(computation, following, like=i), i)
            elif self.touches(i):
                new = self.rewrite(Maker(computation, i, like=i), i)
                if new is not i:
                    self.replace(i, new)

    def enter(self, computation: Computation) -> list[Instruction]:
        """What comes from outside, as new parameters; of loops and branches they become elements of a tuple: `call`."""
        make = Maker(computation, _body(computation))
        first = len(computation.parameters)
        return [make.parameter(first + n, shape) for n, shape in enumerate(self.shapes)]

    def call(self, make: Maker, i: Instruction) -> None:
        """Hand the sizes on to the computations of a call, loop or branch, which have parameters for them."""
        if i.opcode == "call":
            callee = i.attributes["to_apply"]
            new = Instruction("call", i.shape, [*i.operands, *self.given], {"to_apply": callee})
            new.metadata = i.metadata
            i.parent.add(new, make.before)  # type: ignore[union-attr] # it is in a computation
            self.replace(i, new)
        elif i.opcode == "while":
            self.loop(make, i)
        elif i.opcode == "conditional":
            branches = list(i.called)
            selector, *operands = i.operands
            for branch in dict.fromkeys(branches):
                if self.needs(branch):
                    self.bundle(branch)
            wrapped = [
                make.tuple([operand, *self.given]) if self.needs(branch) else operand
                for branch, operand in zip(branches, operands, strict=True)
            ]
            new = make.add("conditional", i.shape, [selector, *wrapped], i.attributes)
            self.replace(i, new)
        else:
            raise DifferentError(i, f"{i.opcode} applies a function that differs from size to size")

    def bundle(self, computation: Computation) -> None:
        """Make one parameter, a tuple, of the parameters of a computation."""
        parameters = list(computation.parameters)
        make = Maker(computation, next(iter(computation)))
        whole = Instruction("parameter", tuple_shape([p.shape for p in parameters]), (), {"parameter_number": 0})
        parts = []
        for n, old in enumerate(parameters):
            part = make.add("get-tuple-element", old.shape, [whole], {"index": n})
            self.slots[part] = self.slots.get(old, ())
            parts.append(part)
        for old, part in zip(parameters, parts, strict=True):
            old.replace_all_uses(part)
        for old in reversed(parameters):
            computation.erase(old)
        computation.add(whole, parts[0])

    def loop(self, make: Maker, i: Instruction) -> None:
        """The sizes travel with the state."""
        (state,) = i.operands
        elements = list(state.shape.elements)
        if not state.shape.is_tuple:
            raise DifferentError(i, "while on one array")
        count = len(elements)
        whole = tuple_shape([*elements, *self.shapes])
        parts = list(state.operands) if state.opcode == "tuple" else [make.gte(state, n) for n in range(count)]
        for computation in (i.attributes["condition"], i.attributes["body"]):
            old, *given = computation.parameters
            inner = Maker(computation, given[0] if given else _behind(computation, old))
            old.shape = whole
            carried = [inner.add("get-tuple-element", shape, [old], {"index": count + n})
                       for n, shape in enumerate(self.shapes)]
            for one, new in zip(given, carried, strict=False):
                one.replace_all_uses(new)
                computation.erase(one)
            if computation is i.attributes["body"]:
                end = Maker(computation)
                root = computation.root
                results = list(root.operands) if root.opcode == "tuple" else [end.gte(root, n) for n in range(count)]
                computation.root = end.tuple([*results, *carried])
        new = make.add("while", whole, [make.tuple([*parts, *self.given])], i.attributes)
        for user in list(i.users):
            if user.opcode == "get-tuple-element":
                user.replace_operand(0, new)
        if i.users or i.is_root:
            self.replace(i, make.tuple([make.gte(new, n) for n in range(count)]))
        else:
            erase(i)

    def replace(self, i: Instruction, new: Instruction) -> None:
        if new.shape.is_array:
            self.slots[new] = self.slots[i]
        i.replace_all_uses(new)
        if i.opcode != "parameter":
            erase(i)

    # ---- instructions

    def touches(self, i: Instruction) -> bool:
        return any(slot is not None for slot in self.rows[i][1]) or any(
            slot is not None for operand in i.operands for slot in self.slots.get(operand, ())
        )

    def sized(self, value: Instruction) -> Sized:
        """An array with the sizes of its dimensions."""
        return Sized(value, {d: self.scalars[slot] for d, slot in enumerate(self.slots[value]) if slot is not None})

    def attribute(self, i: Instruction, name: str) -> tuple[int | None, ...]:
        """The slots of the numbers of an attribute."""
        row, slots = self.rows[i]
        return tuple(slots[n] for n in row.where.get(name, ()))

    def numbers_differ(self, i: Instruction, but: str = "") -> bool:
        row, slots = self.rows[i]
        return any(slots[n] is not None for name, own in row.where.items() if name not in ("shape", but) for n in own)

    def require(self, i: Instruction, condition: Condition) -> bool:
        """Whether something is so of all examples; it is asked of later members too."""
        if not all(condition(member.sizes) for member in self.members):
            return False
        self.conditions.append((condition, i))
        return True

    def rewrite(self, make: Maker, i: Instruction) -> Instruction:
        opcode = i.opcode
        own = _OWN.get(opcode)
        if own is not None:
            return own(self, make, i)
        if not (opcode in _PLAIN or opcode in _FIXED_NUMBERS or i.has("elementwise")):
            target = custom_call_target(i)
            what = f"{opcode} {target}".strip()
            raise DifferentError(i, f"nothing is known of {what} of arrays whose sizes come late")
        if self.numbers_differ(i):
            raise DifferentError(i, f"{opcode} has numbers that differ from size to size")
        if opcode in _FIXED_NUMBERS:
            return self.by_rule(make, i, i.operands)
        if opcode in _PLAIN or all(operand.shape.rank == i.shape.rank for operand in i.operands):
            return i
        return elementwise(make, i, list(map(self.sized, i.operands)), self.module).array

    def by_rule(self, make: Maker, i: Instruction, operands: Iterable[Instruction]) -> Instruction:
        """By the rule of the dynamic padder."""
        found = RULES[i.opcode](make, i, list(map(self.sized, operands)), self.module)
        return found.array if isinstance(found, Sized) else make.tuple([one.array for one in found])


def _body(computation: Computation) -> Instruction | None:
    """The first instruction behind the parameters at the start."""
    return next((one for one in computation if one.opcode != "parameter"), None)


def _behind(computation: Computation, instruction: Instruction) -> Instruction | None:
    listed = list(computation)
    place = listed.index(instruction) + 1
    return listed[place] if place < len(listed) else None


def _slice(work: _Lowering, make: Maker, i: Instruction) -> Instruction:
    """Elements at start + n * stride: those ahead of a start that differs are moved to the end."""
    ranges = i.attributes["slice"]
    slots = work.attribute(i, "slice")
    value = i.operands[0]
    new = []
    for d, one in enumerate(ranges):
        start, _, stride = slots[3 * d : 3 * d + 3]
        if stride is not None:
            raise DifferentError(i, "slice has a stride that differs from size to size")
        if start is None:
            new.append(one)
            continue
        value = make.moved(value, d, work.scalars[start])
        count = i.shape.dimensions[d]
        new.append(SliceDimension(0, (count - 1) * one.stride + 1 if count else 0, one.stride))
    if value is i.operands[0]:
        return i
    return make.add("slice", i.shape, [value], {"slice": tuple(new)})


def _pad(work: _Lowering, make: Maker, i: Instruction) -> Instruction:
    """The elements, then the filler, of which so much is moved to the front as goes ahead of them."""
    slots = work.attribute(i, "padding")
    value, filler = i.operands
    filled = make.filled(work.sized(value), filler=filler)
    steps = i.attributes["padding"]
    moves: dict[int, int] = {}
    new = []
    for d, one in enumerate(steps):
        low, high, interior = slots[3 * d : 3 * d + 3]
        for slot, number in ((low, one.low), (high, one.high)):
            if slot is not None and not work.require(i, lambda sizes, slot=slot: sizes[slot] >= 0):  # type: ignore[misc]
                raise DifferentError(i, f"pad cuts off a number of elements that differs from size to size ({number})")
        if interior is not None or (low is not None and one.high < 0) or (high is not None and one.low < 0):
            raise DifferentError(i, "pad has numbers that differ from size to size")
        if low is not None:
            moves[d] = low
            bound = filled.shape.dimensions[d]
            whole = bound + max(bound - 1, 0) * one.interior
            new.append((0, i.shape.dimensions[d] - whole, one.interior))
        else:
            new.append((one.low, one.high, one.interior))
    result = make.pad(filled, filler, new)
    for d, slot in moves.items():
        start = make.binary("subtract", make.number(i.shape.dimensions[d]), work.scalars[slot])
        result = make.moved(result, d, start)
    return result


def _reduce_window(work: _Lowering, make: Maker, i: Instruction) -> Instruction:
    """Windows of fixed size by the padder's rule; those that reach from an end to each element, as they are."""
    if not work.numbers_differ(i):
        return work.by_rule(make, i, i.operands)
    window = i.attributes["window"]
    slots = work.attribute(i, "window")
    half = len(i.operands) // 2
    fill: list[int] = []
    for d, one in enumerate(window.dimensions):
        size, stride, low, high, *rest = slots[6 * d : 6 * d + 6]
        if not any(slot is not None for slot in (size, stride, low, high, *rest)):
            own = work.slots[i.operands[0]][d]
            if own is not None and not one.is_trivial:
                raise DifferentError(i, "reduce-window has windows of fixed size beside others")
            continue
        end = low if low is not None else high
        reaches = end is not None and (low is None or high is None) and not (one.padding_low and one.padding_high)
        plain = one.stride == one.base_dilation == one.window_dilation == 1 and stride is None and rest == [None, None]
        whole = size is not None and size == work.slots[i.operands[0]][d]
        if not (reaches and plain and whole) or not work.require(
            i, lambda sizes, size=size, end=end: sizes[end] == max(sizes[size] - 1, 0)  # type: ignore[misc]
        ):
            raise DifferentError(i, "reduce-window has windows that differ from size to size")
        if low is None:
            fill.append(d)
    operands = [make.filled(work.sized(one), fill, initial) for one, initial in
                zip(i.operands[:half], i.operands[half:], strict=True)]
    return make.add("reduce-window", i.shape, [*operands, *i.operands[half:]], i.attributes) if fill else i


def _limited(
    work: _Lowering, make: Maker, i: Instruction, index: Instruction, operand: Instruction, d: int, length: int
) -> Instruction:
    """A start index along a dimension as the opcode limits it: to where `length` elements are."""
    kind = index.shape.element_type
    room = make.binary("subtract", work.scalars[_slot(work, operand, d)], make.number(length))
    last = make.convert(make.binary("maximum", room, make.number(0)), kind) if kind != "s32" else room
    zero = make.constant(dtype_of(kind).type(0), kind)
    return make.binary("minimum", make.binary("maximum", index, zero), last)


def _slot(work: _Lowering, value: Instruction, d: int) -> int:
    found = work.slots[value][d]
    assert found is not None
    return found


def _windows(work: _Lowering, i: Instruction, name: str, operand: Instruction) -> list[bool]:
    """Which dimensions of the operand are taken whole; `DifferentError` where a length differs and is not all."""
    found = []
    for d, slot in enumerate(work.attribute(i, name)):
        own = work.slots[operand][d]
        if slot is not None and slot != own:
            raise DifferentError(i, f"{i.opcode} takes a number of elements that differs from size to size")
        found.append(slot is not None)
    return found


def _dynamic_slice(work: _Lowering, make: Maker, i: Instruction) -> Instruction:
    value, *starts = i.operands
    whole = _windows(work, i, "dynamic_slice_sizes", value)
    lengths = i.attributes["dynamic_slice_sizes"]
    new = [
        _limited(work, make, i, start, value, d, lengths[d])
        if work.slots[value][d] is not None and not whole[d] else start
        for d, start in enumerate(starts)
    ]  # fmt: skip
    return i if new == starts else make.add("dynamic-slice", i.shape, [value, *new], i.attributes)


def _dynamic_update_slice(work: _Lowering, make: Maker, i: Instruction) -> Instruction:
    value, update, *starts = i.operands
    new = list(starts)
    for d, start in enumerate(starts):
        own, part = work.slots[value][d], work.slots[update][d]
        if own == part:
            continue
        if part is not None:
            raise DifferentError(i, "dynamic-update-slice writes a number of elements that differs from size to size")
        new[d] = _limited(work, make, i, start, value, d, update.shape.dimensions[d])
    return i if new == starts else make.add("dynamic-update-slice", i.shape, [value, update, *new], i.attributes)


def _gather(work: _Lowering, make: Maker, i: Instruction) -> Instruction:
    """Indices are limited to the elements that there are."""
    value, indices = i.operands
    if work.numbers_differ(i, "slice_sizes"):
        raise DifferentError(i, "gather has numbers that differ from size to size")
    whole = _windows(work, i, "slice_sizes", value)
    vector = i.attributes["index_vector_dim"]
    lengths = i.attributes["slice_sizes"]
    places = i.attributes["start_index_map"]
    late = [work.slots[value][d] is not None and not whole[d] for d in places]
    new = indices
    if any(late):
        kind = indices.shape.element_type
        wide = "s64" if kind not in ("s32", "s64") else kind
        own = indices if kind == wide else make.convert(indices, wide)
        limits = []
        for d, one in zip(places, late, strict=True):
            bound = make.number(value.shape.dimensions[d])
            size = work.scalars[_slot(work, value, d)] if one else bound
            room = make.binary("maximum", make.binary("subtract", size, make.number(lengths[d])), make.number(0))
            limits.append(room if wide == "s32" else make.convert(room, wide))
        shape = array(wide, own.shape.dimensions)
        if vector == indices.shape.rank:
            limit = make.broadcast(limits[0], (), shape) if shape.dimensions else limits[0]
        else:
            joined = [make.reshape(one, (1,)) for one in limits]
            row = joined[0] if len(joined) == 1 else make.concatenate(joined, 0)
            limit = make.broadcast(row, (vector,), shape)
        zero = make.splat(0, shape)
        new = make.binary("minimum", make.binary("maximum", own, zero), limit)
        work.slots[new] = work.slots[indices]
    found = RULES["gather"](make, i, [work.sized(value), work.sized(new)], work.module)
    assert isinstance(found, Sized)
    return found.array


def _scatter(work: _Lowering, make: Maker, i: Instruction) -> Instruction:
    """What is written beyond the elements that there are does not count; a window must be one element or all."""
    if work.numbers_differ(i):
        raise DifferentError(i, "scatter has numbers that differ from size to size")
    half = len(i.operands) // 2
    value, update = i.operands[0], i.operands[half + 1]
    gone = {*i.attributes["inserted_window_dims"], *(i.attributes.get("input_batching_dims") or ())}
    kept = [d for d in range(value.shape.rank) if d not in gone]
    for d, place in zip(kept, i.attributes["update_window_dims"], strict=True):
        own, part = work.slots[value][d], work.slots[update][place]
        if own != part and (part is not None or update.shape.dimensions[place] != 1):
            raise DifferentError(i, "scatter writes windows into a dimension whose size comes late")
    return work.by_rule(make, i, i.operands)


def _fft(work: _Lowering, make: Maker, i: Instruction) -> Instruction:
    count = len(i.attributes["fft_length"])
    if work.numbers_differ(i) or any(slot is not None for slot in work.slots[i.operands[0]][-count:]):
        raise DifferentError(i, "fft along a dimension whose size comes late")
    return i


def _reshape(work: _Lowering, make: Maker, i: Instruction) -> Instruction:
    """The smallest groups of dimensions that have as many elements in all members, each packed anew."""
    value = i.operands[0]
    before, after = work.slots[value], work.slots[i]
    a, b = value.shape.dimensions, i.shape.dimensions
    groups = _groups(work, i, a, b, before, after)
    simple = True
    for ins, outs in groups:
        for own, slots, dims in ((ins, before, a), (outs, after, b)):
            late = [d for d in own if slots[d] is not None]
            leading = all(dims[d] == 1 and slots[d] is None for d in own if late and d < late[0])
            simple = simple and len(late) <= 1 and leading
    if simple:
        return i
    sizes = work.sized(value), {d: work.scalars[slot] for d, slot in enumerate(after) if slot is not None}
    return regrouped(make, sizes[0], b, sizes[1], groups)[0]


def _groups(
    work: _Lowering, i: Instruction, a: Sequence[int], b: Sequence[int],
    before: Sequence[int | None], after: Sequence[int | None],
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:  # fmt: skip
    """Runs of dimensions that hold as many elements in every member."""
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    x = y = 0
    while x < len(a) or y < len(b):
        for width in range(1, len(a) - x + len(b) - y + 1):
            found = next(
                (
                    (m, width - m) for m in range(width + 1)
                    if x + m <= len(a) and y + width - m <= len(b)
                    and _alike(work, i, a[x : x + m], before[x : x + m], b[y : y + width - m], after[y : y + width - m])
                ),
                None,
            )  # fmt: skip
            if found is not None:
                break
        else:
            return [(tuple(range(len(a))), tuple(range(len(b))))]
        m, k = found
        groups.append((tuple(range(x, x + m)), tuple(range(y, y + k))))
        x, y = x + m, y + k
    return groups


def _alike(
    work: _Lowering, i: Instruction, a: Sequence[int], before: Sequence[int | None], b: Sequence[int],
    after: Sequence[int | None],
) -> bool:  # fmt: skip
    def condition(sizes: Sequence[int]) -> bool:
        left = prod(n if slot is None else sizes[slot] for n, slot in zip(a, before, strict=True))
        right = prod(n if slot is None else sizes[slot] for n, slot in zip(b, after, strict=True))
        return left == right

    if tuple(before) == tuple(after) and tuple(a) == tuple(b):
        return True
    if prod(a) != prod(b):
        return False
    if all(slot is None for slot in (*before, *after)):
        return True
    return work.require(i, condition)


_OWN: dict[str, Callable[[_Lowering, Maker, Instruction], Instruction]] = {
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "fft": _fft,
    "gather": _gather,
    "pad": _pad,
    "reduce-window": _reduce_window,
    "reshape": _reshape,
    "scatter": _scatter,
    "slice": _slice,
}
