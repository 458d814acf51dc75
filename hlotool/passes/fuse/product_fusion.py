"""Product fusion: a dot or a convolution and the kernel that reads its result become one (kind ``kOutput``)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Annotated, ClassVar, TypeAlias

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.fusibility import is_expensive
from hlotool.analysis.product_epilogue import PRODUCTS, Misfit, Reading, fused_product, reading, streams_of
from hlotool.analysis.product_prologue import is_streamed, prologues
from hlotool.analysis.thresholds import Threshold
from hlotool.ir import Computation, Instruction, Module, Shape
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.fuse.fusion import erase_all, fusible_computations, leave_behind, make_fusion
from hlotool.passes.fuse.fusion_rules import FusionRules, fusion_rules, mark_own_fusions

__all__ = ["ProductFusion"]

_VIEWS = frozenset({"bitcast", "reshape"})
_SEARCH: Annotated[int, Threshold("instructions")] = 400
"""Instructions looked at when making sure that a fusion makes no cycle; further away counts as a cycle."""


_Own: TypeAlias = tuple[Instruction, Reading] | None


@dataclass(frozen=True, slots=True)
class _Found:
    """A product, or a fusion with one and the elements of its result, the views on the way, and a kernel that reads.

    `own` is what `fused_product` says of the fusion.
    """

    product: Instruction
    own: _Own
    results: tuple[Instruction, ...]
    views: tuple[Instruction, ...]
    consumer: Instruction

    @property
    def members(self) -> tuple[Instruction, ...]:
        """All that becomes one kernel."""
        return (self.product, *self.results, *self.views, self.consumer)

    @property
    def kept(self) -> list[Instruction]:
        """Results of the product that others read too."""
        members = self.members
        results = self.results or (self.product,)
        return [result for result in results if result.is_root or any(user not in members for user in result.users)]


@dataclass(frozen=True, slots=True)
class ProductFusion:
    """Fuses products with the loop fusion, or the elementwise instruction, that reads their result.

    The kernel of the product then computes both, block by block, and the result itself is written only where others
    read it as well.  `analysis.product_epilogue` knows which readers fit.  Where results of the kernel are copied into
    a part of a larger array (dynamic-update-slice), it writes them there itself, too.  The pass comes after those that
    make loop fusions.  `max_ops` and `max_outputs` bound the kernel.  `only`, `never` and the attribute ``fuse`` are
    those of the pass ``fusion``; with ``"always"`` a product is fused although the estimate speaks against it.
    """

    name: ClassVar[str] = "product-fusion"
    opcodes: ClassVar[frozenset[str]] = PRODUCTS
    max_ops: int = 256
    max_outputs: int = 8
    only: str = ""
    never: str = ""

    def __post_init__(self) -> None:
        fusion_rules(self.only, self.never)

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        rules = fusion_rules(self.only, self.never)
        for computation in fusible_computations(module):
            products = [(i, own) for i in computation if (own := fused_product(i)) is not None or i.opcode in PRODUCTS]
            if not products:
                continue
            position = {instruction: n for n, instruction in enumerate(computation)}
            dead: set[Instruction] = set()
            for product, own in reversed(products):
                found = self._choose(product, own, position, dead, rules, log)
                while found is not None and log.allow():
                    product = self._fuse(module, found, log, dead)
                    position[product] = position[found.consumer]
                    changed = True
                    found = self._choose(product, fused_product(product), position, dead, rules, log)
            if dead:
                erase_all(computation, dead)
                computation.sort_topologically()
        if changed:
            mark_own_fusions(module)
        return changed

    def _choose(
        self,
        product: Instruction,
        own: _Own,
        position: dict[Instruction, int],
        dead: Collection[Instruction],
        rules: FusionRules,
        log: DecisionLog,
    ) -> _Found | None:
        """The first reader of the product, or of a fusion with one, that it can be fused with."""
        for found in sorted(_readers(product, own), key=lambda f: position.get(f.consumer, -1)):
            if found.consumer not in position or found.consumer in dead:
                continue  # another product has it already
            misfit = self._misfit(found, position, rules)
            if misfit is None:
                return found
            log.refuse(misfit.rule, (product, found.consumer), misfit.reason)
        return None

    def _misfit(self, found: _Found, position: dict[Instruction, int], rules: FusionRules) -> Misfit | None:
        """Why the two cannot or should not be one kernel; None when they should."""
        product, consumer = found.product, found.consumer
        members, kept = found.members, found.kept
        for one in (product, consumer):
            forbidden = rules.forbids(one)
            if forbidden:
                return Misfit("forbidden", forbidden)
        if any(one.control_predecessors or one.control_successors for one in members):
            return Misfit("control-dependencies", "one of them has control dependencies")
        size = len(consumer.attributes["calls"]) if consumer.opcode == "fusion" else 1
        if size >= self.max_ops or sum(1 for _ in consumer.shape.leaves()) + len(kept) > self.max_outputs:
            return Misfit("kernel-full", "the kernel would be too large")
        how = _reading(found)
        if isinstance(how, Misfit):
            return how
        if how.against is not None and not rules.forces(product):
            return how.against
        if kept and product.opcode == "fusion" and not _is_update(consumer):
            return Misfit("other-readers", "others need its result too")
        if kept and consumer.shape.is_tuple and not _has_separate_results(consumer):
            return Misfit("kernel-full", "its reader's results come together")
        if kept and _leads_back(members, position):
            return Misfit("path-outside", "a path between them leads outside")
        return None

    def _fuse(self, module: Module, found: _Found, log: DecisionLog, dead: set[Instruction]) -> Instruction:
        product, consumer = found.product, found.consumer
        members, outputs = list(found.members), [consumer]
        if found.kept:
            if consumer.shape.is_tuple:
                outputs = [user for user in consumer.users if user.opcode == "get-tuple-element"]
                members += outputs
            outputs = [*outputs, *found.kept]
        fusion = make_fusion(module, members, outputs)
        log.rewrite("epilogue", (product, consumer), fusion, "the product's blocks are read in the caches")
        leave_behind(members, dead)
        return fusion


def _readers(product: Instruction, own: _Own) -> Iterator[_Found]:
    """The kernels that read a product, be it through views that nothing else reads; of several results those that
    write one into a larger array."""
    results = tuple(product.users) if product.shape.is_tuple else ()
    if product.shape.is_tuple and (product.is_root or any(r.opcode != "get-tuple-element" for r in results)):
        return
    for user in [user for result in results or (product,) for user in result.users]:
        views: list[Instruction] = []
        while user.opcode in _VIEWS and len(user.users) == 1 and not user.is_root:
            views.append(user)
            (user,) = user.users
        fits = user.has("elementwise") and user.shape.size > 1
        fits = fits or (user.opcode == "fusion" and user.attributes["kind"] in ("kLoop", "kInput"))
        if _is_update(user) or (fits and not results):
            yield _Found(product, own, results, tuple(views), user)


def _is_update(consumer: Instruction) -> bool:
    """Whether a kernel writes a part of an array anew."""
    if consumer.opcode == "fusion" and consumer.attributes["kind"] == "kLoop":
        consumer = consumer.attributes["calls"].root
    return consumer.opcode == "dynamic-update-slice"


def _has_separate_results(consumer: Instruction) -> bool:
    """Whether a kernel with several results computes each by itself, and each is read by itself."""
    if any(user.opcode != "get-tuple-element" for user in consumer.users):
        return False
    return consumer.opcode == "fusion" and consumer.attributes["calls"].root.opcode == "tuple"


def _reading(found: _Found) -> Reading | Misfit:
    """How the consumer reads the product, which may have readers in its fusion already."""
    own = found.own
    product = found.product if own is None else own[0]
    assert product.opcode in PRODUCTS, f"{product.name} is no product with an epilogue"
    sources = (found.product, *found.results, *found.views)
    if found.consumer.opcode != "fusion":
        body = Computation("epilogue")
        inside = [body.add(Instruction("parameter", o.shape, (), {"parameter_number": n}, f"operand.{n}"))
                  for n, o in enumerate(found.consumer.operands)]  # fmt: skip
        body.root = body.add(Instruction(found.consumer.opcode, found.consumer.shape, inside, name="epilogue"))
    else:
        body = found.consumer.attributes["calls"]
        inside = body.parameters
    parameters = [p for p, operand in zip(inside, found.consumer.operands, strict=True) if operand in sources]
    if own is not None and own[1].whole_rows:
        how = reading(body, parameters, product, whole_rows=True)
        if isinstance(how, Misfit):
            return how
        if not _is_update(found.consumer):
            return _unwanted("its fusion works on whole rows already")
        update = body.root.operands[1].shape
        if any(parameter.shape.size != update.size for parameter in parameters):
            return _unwanted("the parts that are written are of another size")
        return Reading(True)
    how = reading(body, parameters, product, others=_others(found, product))
    if own is not None and isinstance(how, Reading) and how.whole_rows:
        if is_streamed(product, prologues(product)):
            return Misfit("product-rows", "its operands are computed for one result after the other")
        assert product.parent is not None
        if any(map(is_expensive, product.parent)):
            return _unwanted("what its fusion computes would be computed again for each place")
    return how


def _unwanted(reason: str) -> Reading:
    """Whole rows, and why not."""
    return Reading(True, Misfit("product-rows", reason, form=False))


def _others(found: _Found, product: Instruction) -> list[Shape]:
    """The arrays that the kernel of both reads and writes beside those of the consumer."""
    read = [] if found.product is product else streams_of(found.product, product)
    return [*(o.shape for o in dict.fromkeys(read) if o not in found.consumer.operands), *(k.shape for k in found.kept)]


def _leads_back(members: tuple[Instruction, ...], position: dict[Instruction, int]) -> bool:
    """Whether another reader of the product, one of `members`, computes something that the last one reads."""
    last = position[members[-1]]
    stack = [user for member in members[:-1] for user in member.users if user not in members]
    seen = set(stack)
    while stack:
        if len(seen) > _SEARCH:
            return True
        for user in stack.pop().users:
            if user in members:
                return True
            if user not in seen and position.get(user, last) <= last:
                seen.add(user)
                stack.append(user)
    return False
