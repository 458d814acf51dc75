"""Streamed products: dots as sums in loops, with what makes their operands and what reads their results.

A product with few rows uses every element of its right operand only so often (and one with few columns those of its
left operand), so that packing it, or writing it at all, costs more than it saves.  Here its elements are computed where
they are read, once for all those rows: the sums of the rows run side by side in one loop.  The body is traced and
written like that of any other fusion; nothing in it but the dot is special.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Annotated

from hlotool.analysis.contraction import dot_dimensions, matrix_views, row_major_strides, sum_type
from hlotool.analysis.indexing import Atom, Condition, Index, atom_index, constant, delinearize, linearize
from hlotool.analysis.product_prologue import prologues
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.fusions.plan import part_count, partial_jobs, partial_uses
from hlotool.codegen.cpu.fusions.step import Job, emit_step
from hlotool.codegen.cpu.products.epilogue import Epilogue
from hlotool.codegen.cpu.products.prologue import ELEMENTS_AHEAD
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.llvm.arrays import aligned
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.loops.loops import cost, merge, pick_lane, plain, refine
from hlotool.codegen.loops.nodes import Guards, Node, Scratch, body_of, scope_of, variables_of
from hlotool.codegen.loops.rules import partial_result, rule_of
from hlotool.codegen.loops.trace import Dimension, Rule, Tracer
from hlotool.codegen.machine import Machine
from hlotool.codegen.nests.outputs import store_output
from hlotool.ir import Instruction, Shape, UnsupportedError, byte_size, dtype_of

__all__ = ["emit_streamed"]

_REFINEMENTS: Annotated[int, Threshold("cuts")] = 12
"""Most times that dimensions are split further: each division inside of another takes one."""

_SHARED: Annotated[float, Threshold("cycles")] = 150_000.0
"""Cycles of sums, by the estimate, that are worth being divided."""

_APART: Annotated[int, Threshold("terms")] = 4
"""Terms of a sum that are written out rather than added up by a loop."""


def emit_streamed(name: str, fusion: Epilogue, scratch_slot: int) -> Kernel:
    """The kernel of a dot with prologues (see `product_prologue.is_streamed`), and of its epilogue if it has one."""
    apart: frozenset[Atom] = frozenset()
    tracer = _tracer(fusion, {}, {}, apart)
    for _ in range(_REFINEMENTS):
        job = _job(tracer, fusion)
        factors, parts = refine(tracer) or tracer.factors, tracer.parts
        if factors == tracer.factors and not parts and not apart:
            parts = _parts(job, fusion)
        if (factors, parts) == (tracer.factors, tracer.parts) and (apart or not (apart := _apart(job))):
            break
        tracer = _tracer(fusion, factors, parts, apart)
    unit = Unit(fusion.machine)
    kept = _kept(fusion, tracer.parts)
    copy = [] if kept is None else [_copy_job(tracer, fusion.product, fusion.product.operands[kept])]
    sums = [part for one in partial_jobs(tracer) for part in _in_registers(one, 1, fusion.machine)]
    jobs = [*copy, *sums, *_in_registers(job, len(fusion.outputs), fusion.machine)]
    names = [name, *(f"s{number}_{name}" for number in range(1, len(jobs)))]
    steps = [emit_step(unit, n, [one], fusion.machine, scratch_slot) for n, one in zip(names, jobs, strict=True)]
    return finish_kernel(unit, steps, tracer.scratch, partial_uses(tracer.scratch))


def _tracer(
    fusion: Epilogue, factors: Mapping[Dimension, tuple[int, ...]], parts: Mapping[Instruction, int],
    apart: frozenset[Atom],
) -> Tracer:  # fmt: skip
    kept = _kept(fusion, parts)

    def rule(t: Tracer, i: Instruction, index: tuple[Index, ...], guards: Guards, leaf: int) -> Rule:
        return _sum_of_products(t, i, index, guards, apart, kept)

    tracer = Tracer(lambda i: rule if i is fusion.product else rule_of(i), fusion.slots, factors, parts)
    if kept is not None:
        *sizes, terms = fusion.product.operands[kept].shape.dimensions
        count = parts[fusion.product]
        tracer.scratch = aligned(prod(sizes) * -(-terms // count) * count * byte_size("f32"))
    return tracer


def _kept(fusion: Epilogue, parts: Mapping[Instruction, int]) -> int | None:
    """The number of the operand with few rows, if a copy has what each of the `parts` of the sum needs side by side, on
    all sets of the nearest cache."""
    return _too_large(fusion) if fusion.product in parts else None


def _too_large(fusion: Epilogue) -> int | None:
    """The number of the operand with few rows, if these, read again for each result, are too much for the nearest
    cache: then parts of the sum are done one after the other."""
    (made, *others), numbers = prologues(fusion.product), dot_dimensions(fusion.product)
    shape = fusion.product.operands[1 - made].shape
    contracted = (numbers.lhs_contracting, numbers.rhs_contracting)[1 - made]
    large = shape.byte_size > _near(fusion.machine) and shape.size > shape.dimensions[-1]
    plain = shape.element_type == "f32" and contracted == (shape.rank - 1,)
    return 1 - made if large and plain and not others else None


def _near(machine: Machine) -> int:
    """Bytes of rows that stay in the nearest cache while the other operand goes by."""
    return machine.l1 * 2 // 3


_COPY = Scratch(0)
"""Where the copy is."""


def _place_in_copy(shape: Shape, index: Sequence[Index], parts: int) -> Index:
    """Where an element of an operand is in its copy: rows of one part of the sum, then those of the next."""
    *sizes, terms = shape.dimensions
    length = -(-terms // parts)
    row = index[-1] // length * prod(sizes) + linearize(index[:-1], sizes)
    return row * length + index[-1] % length


def _copy_job(tracer: Tracer, dot: Instruction, operand: Instruction) -> Job:
    """Copies an operand of a dot."""
    index: list[Index] = []
    atoms: list[Atom] = []
    for size in operand.shape.dimensions:
        one, own = tracer.dimension(size, variables_of(atoms))
        index.append(one)
        atoms.extend(own)
    value, place = tracer.element(operand, tuple(index)), _place_in_copy(operand.shape, index, tracer.parts[dot])
    store = tracer.node("store", value.type, (value,), index=place, slot=_COPY)
    return Job(tracer, [store], [a for a in atoms if a.high])


def _in_registers(job: Job, outputs: int, machine: Machine) -> list[Job]:
    """A job, of so many outputs, in parts with no more sums at a time than half of the registers hold, which ask for
    weights ahead.

    All outputs of an element are written by the same part, as one may lie where another reads that element.
    """
    most, each = machine.registers // 2, len(job.stores) // outputs
    return [
        replace(
            job, ahead=ELEMENTS_AHEAD,
            stores=[one for first in range(0, len(job.stores), each) for one in job.stores[first : first + each][part]],
        )
        for part in (slice(start, start + most) for start in range(0, each, most))
    ]  # fmt: skip


def _apart(job: Job) -> frozenset[Atom]:
    """Variables of sums whose few terms are written out: then it is known from which array of a concatenation each
    comes (and whether from a pad).  So it is for sums of few terms in all."""
    bound = {atom for node in job.tracer.nodes for atom in node.bound}
    if prod(atom.high + 1 for atom in bound) <= _APART:
        return frozenset(bound)
    chosen = [g.index for n in job.tracer.nodes if n.slot == "source" for g in n.guards]
    found = [atom for index in chosen for atom, _ in index.terms if atom in bound and atom.high < _APART]
    return frozenset(found[:1])


def _job(tracer: Tracer, fusion: Epilogue) -> Job:
    """Loops over the results; the few rows (or columns) of which each reads all of an operand are written out."""
    view, computed = matrix_views(fusion.product), prologues(fusion.product)
    if view is None:
        raise UnsupportedError(f"{fusion.product.name}: the dimensions of this dot do not collapse")
    atoms: list[Atom] = []
    taken = 0

    def along(extent: int, apart: bool, together: int = 1) -> list[Index]:
        nonlocal taken
        if apart:
            return [constant(k) for k in range(extent)]
        index, own = tracer.dimension(extent // together, taken)
        taken |= index.variables
        atoms.extend(own)
        return [index * together + at for at in range(together)]

    # Lines of weights are read two at a time: memory delivers more than for a single one.
    lines = 0 not in computed and view.rhs.terms == (byte_size(view.types[1]),)
    twos = 1 + (lines and view.m == 1 and view.n % 2 == 0)
    items, rows = along(prod(view.batch), False), along(view.m, 1 in computed)
    columns = along(view.n, 0 in computed, twos)
    stores: list[Node] = []
    for output in fusion.outputs:
        for row in rows:
            for column in columns:
                position = (items[0] * view.m + row) * view.n + column
                stores.append(store_output(tracer, output, delinearize(position, output.space)))
    return Job(tracer, stores, [a for a in atoms if a.high])


def _parts(job: Job, fusion: Epilogue) -> dict[Instruction, int]:
    """Into how many parts to divide the sums, for threads to share and so that their rows stay in reach."""
    scope = scope_of(job.stores)
    sums = [(n, body_of(n)) for n in scope if n.kind == "reduce"]
    loops = merge([plain(a) for a in job.atoms], job.tracer.nodes)
    lane = pick_lane(loops, scope, sums, fusion.machine)
    (node, body), kinds = sums[0], [lane] if lane is not None else [plain(a) for a in sums[0][0].bound]
    cycles = min((sum(cost(n, kind, fusion.machine) for _, own in sums for n in own) for kind in kinds), default=0.0)
    if cycles < _SHARED:
        return {}
    extent = fusion.product.operands[0].shape.dimensions[_walk(fusion.product)[0][0]]
    count = part_count(node, body, lane, extent, fusion.machine)
    large = _too_large(fusion)
    if large is not None:
        least = -(-fusion.product.operands[large].shape.byte_size // _near(fusion.machine))
        count = max(count, next((n for n in range(least, 2 * least) if extent % n == 0), least))
    return {fusion.product: count} if count > 1 else {}


def _walk(dot: Instruction) -> list[tuple[int, int]]:
    """The dimensions of the sum in both operands, in the order in which the larger operand has them."""
    numbers, (left, right) = dot_dimensions(dot), (operand.shape for operand in dot.operands)
    side, shape = (1, right) if right.size >= left.size else (0, left)
    strides = row_major_strides(shape)
    pairs = zip(numbers.lhs_contracting, numbers.rhs_contracting, strict=True)
    return sorted(pairs, key=lambda pair: (shape.dimensions[pair[side]] == 1, -strides[pair[side]]))


def _sum_of_products(
    t: Tracer, dot: Instruction, index: tuple[Index, ...], guards: Guards, apart: frozenset[Atom], kept: int | None
) -> Rule:
    """An element of a dot: in the type that `sum_type` says, rounded once.  Terms for variables in `apart` are written
    out; the operand with number `kept` is read from its copy."""
    numbers, (left, right) = dot_dimensions(dot), (operand.shape for operand in dot.operands)
    kind = sum_type(left.element_type, right.element_type, dot.shape.element_type)
    taken = 0
    for x in (*index, *(guard.index for guard in guards)):
        taken |= x.variables
    shared, free = len(numbers.lhs_batch), len(numbers.lhs_batch) + len(numbers.lhs_free)
    at = [
        dict(zip((*numbers.lhs_batch, *numbers.lhs_free), index[:free], strict=True)),
        dict(zip((*numbers.rhs_batch, *numbers.rhs_free), (*index[:shared], *index[free:]), strict=True)),
    ]
    bound: list[Atom] = []
    outer: tuple[Atom, ...] = ()
    valid = guards
    places = [at]
    for number, pair in enumerate(_walk(dot)):
        size, part = left.dimensions[pair[0]], constant(0)
        length = size
        if number == 0 and dot in t.parts:
            length = -(-size // t.parts[dot])
            part, outer = t.dimension(t.parts[dot], taken)
            taken |= part.variables
        own, atoms = t.dimension(length, taken)
        if (own + part * length).high >= size:
            valid = (*guards, Condition(own + part * length, 0, size))
        taken |= own.variables
        if apart.isdisjoint(atoms) or len(valid) > len(guards):
            bound += [atom for atom in atoms if atom.high]
            wheres = [own]
        else:
            bound += [atom for atom in atoms if atom.high and atom not in apart]
            wheres = _written_out(atoms, apart)
        places = [
            [{**before, d: where + part * length} for before, d in zip(place, pair, strict=True)]
            for place in places for where in wheres
        ]
    factors: list[Node] = []
    for place in places:
        for number, (operand, source) in enumerate(zip(dot.operands, place, strict=True)):
            at_source = tuple(source[d] for d in range(operand.shape.rank))
            if number == kept:
                inside = _place_in_copy(operand.shape, at_source, t.parts[dot])
                factor = t.node("load", operand.shape.element_type, index=inside, guards=valid, slot=_COPY)
            else:
                factor = yield operand, at_source, valid, 0
            factors.append(factor if factor.type == kind else t.elementwise("convert", kind, factor))
    zero = t.number(kind, dtype_of(kind).type(0))
    zeros = [zero] * len(factors)
    total = t.node("reduce", kind, (*factors, *zeros), bound=tuple(bound), guards=valid[len(guards) :], slot=dot)
    if outer:
        total = t.node("reduce", kind, (partial_result(t, total, outer), zero), bound=outer, slot=dot)
    wanted = dot.shape.element_type
    return total if wanted == kind else t.elementwise("convert", wanted, total)


def _written_out(atoms: Sequence[Atom], apart: frozenset[Atom]) -> list[Index]:
    """The values of a dimension with these variables, major first, for all values of those in `apart`."""
    found, stride = [constant(0)], 1
    for atom in reversed(atoms):
        values = [constant(k) for k in range(atom.high + 1)] if atom in apart else [atom_index(atom)]
        found = [value * stride + low for value in values for low in found]
        stride *= atom.high + 1
    return found
