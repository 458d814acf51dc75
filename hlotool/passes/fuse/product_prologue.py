"""Product prologues: a dot and the loops that make its operands become one kernel (kind ``kOutput``)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import prod
from typing import ClassVar

from hlotool.analysis.contraction import MatrixView, matrix_views
from hlotool.analysis.costs import Costs, costs_of
from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.fusibility import is_expensive, is_fusible
from hlotool.analysis.product_epilogue import Misfit, fused_product
from hlotool.analysis.product_prologue import is_prologue_member, is_streamed, members_of, prologues, streams
from hlotool.analysis.views import lies_together
from hlotool.ir import Instruction, Module, byte_size
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.fuse.fusion import erase_all, fusible_computations, leave_behind, make_fusion
from hlotool.passes.fuse.fusion_rules import FusionRules, fusion_rules, mark_own_fusions

__all__ = ["ProductPrologue"]

_VIEWS = frozenset({"bitcast", "reshape"})

_REGROUPING = frozenset({"bitcast", "concatenate", "reshape"})
"""What reads elements at places that are quotients and remainders."""


@dataclass(frozen=True, slots=True)
class _ProductKernel:
    """A dot, and the kernel that computes it: itself, or its fusion with an epilogue."""

    dot: Instruction
    kernel: Instruction

    @property
    def whole_rows(self) -> bool:
        """Whether its epilogue wants those."""
        found = fused_product(self.kernel)
        return found is not None and found[1].whole_rows

    @property
    def made(self) -> tuple[int, ...]:
        """The operands that the kernel computes already, by number."""
        return () if self.kernel is self.dot else prologues(self.dot)

    def places(self) -> Iterator[tuple[int, Instruction]]:
        """Where the kernel reads what could be computed in it: numbers of operands of the dot, and what they are, or
        are computed from one element for one."""
        made = self.made
        if not made:
            yield from ((number, self.dot.operands[number]) for number in (1, 0))
        elif is_streamed(self.dot, made):
            for number in made:
                operand = self.dot.operands[number]
                yield from ((number, i) for i in members_of([operand])
                            if i.opcode == "parameter" and i.shape.size == operand.shape.size)  # fmt: skip

    def value(self, place: Instruction) -> Instruction:
        """What the kernel reads there."""
        return place if self.kernel is self.dot else self.kernel.operands[place.parameter_number]

    def is_read_once(self, place: Instruction) -> bool:
        """Whether nothing else in the kernel reads that."""
        inside = 1 if self.kernel is self.dot else sum(place.users.values())
        return inside == 1 and self.kernel.operands.count(self.value(place)) == 1


@dataclass(frozen=True, slots=True)
class _Found:
    """Operand `number` of a dot, or what it is computed from at `place`: the loop that makes it, and the views on the
    way."""

    number: int
    place: Instruction
    producer: Instruction
    views: tuple[Instruction, ...]

    @property
    def members(self) -> tuple[Instruction, ...]:
        return (self.producer, *self.views)


@dataclass(frozen=True, slots=True)
class ProductPrologue:
    """Fuses dots with the loop fusions, or single instructions, that make their operands.

    The kernel of the dot then computes the elements where it reads them, and the operand, such as the floats of weights
    that are kept in few bits, is not written.  `analysis.product_prologue` knows which fit.  The pass comes after the
    others that make fusions.  `max_ops` bounds the kernel.  `only`, `never` and the attribute ``fuse`` are those of the
    pass ``fusion``; with ``"always"`` a dot is fused although the estimate speaks against it.
    """

    name: ClassVar[str] = "product-prologue"
    opcodes: ClassVar[frozenset[str]] = frozenset({"dot"})
    max_ops: int = 256
    only: str = ""
    never: str = ""

    def __post_init__(self) -> None:
        fusion_rules(self.only, self.never)

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        rules = fusion_rules(self.only, self.never)
        for computation in fusible_computations(module):
            products = [found for i in computation if (found := _product_of(i)) is not None]
            position = {instruction: n for n, instruction in enumerate(computation)} if products else {}
            dead: set[Instruction] = set()
            products.reverse()
            while products:
                product = products.pop()
                chosen = self._choose(product, rules, log, dead)
                if not chosen or not log.allow():
                    continue
                own = dict.fromkeys(member for one in chosen for member in one.members)
                members = [*sorted(own, key=position.__getitem__), product.kernel]
                fusion = make_fusion(module, members, [product.kernel])
                size = sum(one.producer.shape.byte_size for one in chosen)
                before = (*(one.producer for one in chosen), product.kernel)
                log.rewrite("prologue", before, fusion, "its operand is computed where it is read", bytes=size)
                leave_behind(members, dead)
                dot = next(i for i in fusion.attributes["calls"] if i.opcode == "dot")
                products.append(_ProductKernel(dot, fusion))
                changed = True
            erase_all(computation, dead)
        if changed:
            mark_own_fusions(module)
        return changed

    def _choose(
        self, product: _ProductKernel, rules: FusionRules, log: DecisionLog, dead: Collection[Instruction]
    ) -> list[_Found]:
        """The operands to be computed in the kernel of the dot, or what it computes them from."""
        chosen: list[_Found] = []
        for number, place in product.places():
            value, views = _behind_views(product.value(place))
            if not _is_loop(value):
                if value.opcode == "fusion":
                    why = f"it comes from a kernel of kind {value.attributes['kind']}, which is more than a loop"
                    log.refuse("prologue-form", (value, product.kernel), why)
                continue
            found = _Found(number, place, value, views)
            others = [*product.made, *(one.number for one in chosen)]
            misfit = self._misfit(product, found, others, rules, dead)
            if misfit is None:
                chosen.append(found)
            else:
                log.refuse(misfit.rule, (found.producer, product.kernel), misfit.reason)
        return chosen

    def _misfit(
        self, product: _ProductKernel, found: _Found, others: Collection[int], rules: FusionRules,
        dead: Collection[Instruction],
    ) -> Misfit | None:  # fmt: skip
        """Why the two cannot or should not be one kernel, of which `others` are operands that it computes already."""
        producer, kernel = found.producer, product.kernel
        for one in (producer, kernel):
            forbidden = rules.forbids(one)
            if forbidden:
                return Misfit("forbidden", forbidden)
        if any(one.control_predecessors or one.control_successors for one in (*found.members, kernel)):
            return Misfit("control-dependencies", "one of them has control dependencies")
        if not costs_of(product.dot).prologues:
            return Misfit("product-form", "kernels of products read operands that are there")
        if not product.is_read_once(found.place):
            return Misfit("other-readers", "the product's kernel reads the operand at other places, too")
        alone = all(_readers(one, dead) == 1 and not one.is_root for one in found.members)
        if not alone and 2 * sum(o.shape.byte_size for o in producer.operands) > producer.shape.byte_size:
            return Misfit("other-readers", "others need the operand too, so that it is written anyway")
        view = matrix_views(product.dot)
        if view is None or not view.k or not kernel.shape.is_static or not product.dot.shape.size:
            return Misfit("product-form", "the product is no matrix of known size")
        if view.rhs.lines:
            return Misfit("product-form", "the product reads panels")
        how = _cost(product, view, {found.number, *others}, found)
        if how is not None and (how.form or not rules.forces(product.dot)):
            return how
        body = _body_of(producer)
        misfit = next((i for i in body if not is_prologue_member(i)), None)
        if misfit is not None:
            return Misfit("prologue-form", f"the elements of a {misfit.opcode} are not made one by one")
        if len(body) + (len(kernel.attributes["calls"]) if kernel is not product.dot else 1) > self.max_ops:
            return Misfit("kernel-full", "the kernel would be too large")
        return None


def _cost(product: _ProductKernel, view: MatrixView, numbers: Collection[int], found: _Found) -> Misfit | None:
    """What speaks against computing the operands with these `numbers` in the kernel of the dot."""
    costs = costs_of(product.dot)
    if not streams(view, numbers):
        reason = _why_not_packed(view, found, costs)
        return Misfit("not-packed", reason, form=False) if reason else None
    if product.whole_rows:
        return Misfit("product-rows", "its epilogue wants whole rows of the result")
    results = prod(view.batch) * view.m * view.n
    if results < costs.shared_results and found.producer.shape.byte_size > costs.alone_bytes:
        return Misfit("few-results", f"threads would share {results} results only", form=False)
    return None


def _why_not_packed(view: MatrixView, found: _Found, costs: Costs) -> str:
    """Why a copy of the operand for the product's tiles would be no better than the operand itself; else empty.

    The right operand is copied into panels in any product of some size, or in the caches where it is not.  The left one
    is read where it is.  Panels of what lies across them are turned in registers, which takes short code and indices
    without division.
    """
    if found.number == 0 or view.n < costs.panel_columns:
        times = view.n if found.number == 0 else view.m
        return f"each element is used for {times} results, and not packed for them"
    body = [*_body_of(found.producer), *found.views]
    turned = view.rhs.column != byte_size(view.types[1]) or any(i.opcode == "transpose" for i in body)
    if turned and any(i.opcode in _REGROUPING for i in body):
        return "it lies across the panels, in groups"
    if turned and (len(body) > costs.turned_instructions or any(map(is_expensive, body))):
        return "it lies across the panels, and takes long to compute"
    return ""


def _readers(value: Instruction, dead: Collection[Instruction]) -> int:
    """How often a value is read by something that is not dead."""
    return sum(times for user, times in value.users.items() if user not in dead)


def _body_of(producer: Instruction) -> list[Instruction]:
    return list(producer.attributes["calls"]) if producer.opcode == "fusion" else [producer]


def _product_of(kernel: Instruction) -> _ProductKernel | None:
    """The dot that an instruction is or has, if its operands are made elsewhere."""
    if kernel.opcode == "dot":
        return _ProductKernel(kernel, kernel)
    if kernel.opcode != "fusion" or kernel.attributes["kind"] != "kOutput":
        return None
    dots = [i for i in kernel.attributes["calls"] if i.opcode == "dot"]
    if len(dots) != 1 or any(o.opcode != "parameter" for o in dots[0].operands):
        return None
    return _ProductKernel(dots[0], kernel)


def _behind_views(value: Instruction) -> tuple[Instruction, tuple[Instruction, ...]]:
    """What a value is a view of, and the views on the way."""
    views: list[Instruction] = []
    while value.opcode in _VIEWS:
        views.insert(0, value)
        value = value.operands[0]
    return value, tuple(views)


def _is_loop(value: Instruction) -> bool:
    """Whether a loop makes a value: not where something else does, or nothing has to."""
    if value.opcode == "fusion":
        return value.attributes["kind"] == "kLoop" and value.shape.is_array
    if value.opcode in ("slice", "dynamic-slice"):
        return not lies_together(value)
    return value.opcode not in ("constant", "parameter") and is_fusible(value)
