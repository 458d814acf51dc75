"""Programs in parts: clusters that a backend compiles, and the rest, which its fallback does.

Each part is a module of its own with an executable of its own.  They run one after the other; between them go arrays,
as they are.  What a part made and nobody reads later is donated to the part that reads it last, where the backends of
both know what that is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from hlotool.analysis.clusters import Part, Partition
from hlotool.analysis.donation import NOTHING_DONATED, Donation, matched
from hlotool.codegen.plan.values import array_leaves
from hlotool.driver.backend import Backend
from hlotool.driver.backends import find_backend
from hlotool.driver.clusters import clusters_of, prepared
from hlotool.driver.failures import report
from hlotool.driver.fallback import fall_back_in_part
from hlotool.driver.options import CompileOptions
from hlotool.driver.program_shape import program_shape
from hlotool.driver.support import reasons
from hlotool.ir import HloError, Instruction, Module, UnsupportedError
from hlotool.ir.cut import Cut, cut
from hlotool.ir.depth import room
from hlotool.ir.devices import topology_of
from hlotool.ir.verifier import check
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.steps import Pipeline
from hlotool.runtime.executable import Executable
from hlotool.runtime.marshalling import copied_to_donated, is_plain
from hlotool.runtime.part_by_part import Place, Step, program_of

__all__ = ["in_parts"]

CompiledBy: TypeAlias = Callable[[Backend, Module, CompileOptions], Executable]
_PASS = "clusters"


def in_parts(backend: Backend, module: Module, options: CompileOptions, compiled: CompiledBy) -> Executable:
    """`module` as clusters that `backend` compiles, and parts that its fallback does; `compiled` makes executables of
    both."""
    with room(module):
        return _Compilation(backend, module, options, compiled).executable()


def _fallback_of(backend: Backend) -> Backend:
    """The backend that does the rest; UnsupportedError where it would fall back to itself."""
    seen, found = [backend.name], backend
    while found.fallback is not None:
        found = find_backend(found.fallback)
        if found.name in seen:
            raise UnsupportedError(f"backends fall back in a circle: {' -> '.join([*seen, found.name])}")
        seen.append(found.name)
    assert backend.fallback is not None
    return find_backend(backend.fallback)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part as a module.  `inputs` are the places of what its parameters take, `outputs` those of its results, and
    `dying` those that nothing reads after it."""

    part: Part
    cut: Cut
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dying: tuple[int, ...] = ()


class _Compilation:
    """One module on its way to an executable in parts."""

    def __init__(self, backend: Backend, module: Module, options: CompileOptions, compiled: CompiledBy) -> None:
        self.backend, self.fallback, self.options = backend, _fallback_of(backend), options
        self.compiled = compiled
        self.module = prepared(backend, module, options)
        self.entry = list(self.module.entry)
        self.by_name = {one.name: one for one in self.entry}
        self.shapes = program_shape(module)
        self.made: dict[object, Executable] = {}

    def executable(self) -> Executable:
        cut_, pieces, places = self._parts()
        self._tell(cut_)
        given = self._given(pieces)
        parts = tuple([self._made(piece, given) for piece in pieces])
        steps = [
            Step(one, piece.inputs, piece.outputs, piece.dying, self._maker(piece.part).capabilities.donates)
            for piece, one in zip(pieces, parts, strict=True)
        ]
        module, options, (parameters, outputs) = self.module, self.options, self.shapes
        made = replace(
            program_of(module, parameters, outputs, steps, places, options.timeout, options.to_run),
            decisions=tuple(options.log.decisions), partition=cut_,
        )  # fmt: skip
        if not options.donation.arguments:
            return made
        return copied_to_donated(made, matched(options.donation, parameters, outputs))

    # ---- how it is cut

    def _parts(self) -> tuple[Partition, list[_Piece], list[Place]]:
        """The partition whose clusters the backend has compiled, the parts, and where results are."""
        against = reasons(self.backend, self.module, self.options)
        while True:
            cut_ = clusters_of(self.backend, self.module, against)
            pieces, places = self._pieces(cut_)
            given, clusters = self._given(pieces), (piece for piece in pieces if piece.part.compiled)
            if all(self._try(piece, given, against) for piece in clusters):
                return cut_, pieces, places

    def _pieces(self, cut_: Partition) -> tuple[list[_Piece], list[Place]]:
        kept = [self._inside(part) for part in cut_.parts]
        wanted = dict.fromkeys(_items(self.module.entry.root))
        for keep in kept:
            wanted.update(dict.fromkeys(o for one in keep for o in one.operands if o not in keep))
        places: dict[Instruction, tuple[int, ...]] = {}
        count = 0

        def take(one: Instruction) -> tuple[int, ...]:
            nonlocal count
            places[one] = tuple(range(count, count := count + len(array_leaves(one.shape))))
            return places[one]

        for parameter in self.module.entry.parameters:
            take(parameter)
        order = {one: number for number, one in enumerate(self.entry)}
        pieces = []
        for part, keep in zip(cut_.parts, kept, strict=True):
            inside = sorted(keep, key=order.__getitem__)
            results = [one for one in inside if one in wanted] or [self.by_name[part.nodes[-1].name]]
            made = cut(inside, results, in_order=True)
            inputs = [place for one in made.parameters for place in _places(one, places)]
            pieces.append(_Piece(part, made, tuple(inputs), tuple(p for one in made.results for p in take(one))))
        ends: list[Place] = []
        for one in _items(self.module.entry.root):
            ends += [one.literal] if one.opcode == "constant" else _places(one, places)
        return _with_ends(pieces, {one for one in ends if isinstance(one, int)}), ends

    def _inside(self, part: Part) -> dict[Instruction, None]:
        """The instructions of a part, the elements of what they make, and the tuples that they read."""
        keep = {self.by_name[node.name]: None for node in part.nodes}
        stack = list(keep)
        while stack:
            one = stack.pop()
            near = [user for user in one.users if user.opcode == "get-tuple-element"]
            near += [operand for operand in one.operands if operand.opcode == "tuple"]
            for other in near:
                if other not in keep:
                    keep[other] = None
                    stack.append(other)
        return keep

    # ---- how parts are compiled

    def _maker(self, part: Part) -> Backend:
        return self.backend if part.compiled else self.fallback

    def _given(self, pieces: Sequence[_Piece]) -> frozenset[int]:
        """The places of arrays that the parts which make them give away."""
        return frozenset(p for piece in pieces if self._maker(piece.part).capabilities.donates for p in piece.outputs)

    def _try(self, piece: _Piece, given: Collection[int], against: dict[str, str]) -> bool:
        """Whether the backend compiles a cluster; where not, the reason is `against` all that is in it."""
        try:
            self._made(piece, given)
        except UnsupportedError as error:
            reason = " ".join(str(error).split())
        except HloError:
            raise
        except Exception as error:
            if self.options.strict:
                raise
            name, instead = self.backend.name, f"{self.fallback.name} compiles these instructions"
            report(self.options.log, f"backend {name}", error, instead, piece.cut.module, Pipeline(()))
            reason = f"{name} failed: {type(error).__name__}: {' '.join(str(error).split())}"
        else:
            return True
        against.update((node.name, reason) for node in piece.part.nodes)
        return False

    def _made(self, piece: _Piece, given: Collection[int]) -> Executable:
        """The executable of a part, compiled once."""
        maker, module = self._maker(piece.part), piece.cut.module
        donation = self._donation(piece, given)
        names = tuple(node.name for node in piece.part.nodes), tuple(one.name for one in piece.cut.results)
        key = (piece.part.compiled, names, donation.arguments)
        if key not in self.made:
            if self.options.strict:
                check(module)
            timeout = self.options.timeout if maker.capabilities.time_limit else None
            options = replace(self.options, donation=donation, timeout=timeout, profiled=False)
            whole = replace(maker, fallback=None, supports=None) if piece.part.compiled else maker
            self.made[key] = self.compiled(whole, module, options)
        return self.made[key]

    def _donation(self, piece: _Piece, given: Collection[int]) -> Donation:
        """What a part may overwrite: what is `given` away, and nothing reads later."""
        plain = all(is_plain(shape) for shapes in program_shape(piece.cut.module) for shape in shapes)
        if not plain or not self._maker(piece.part).capabilities.donates or topology_of(self.module).devices > 1:
            return NOTHING_DONATED
        dying, counts = set(piece.dying), Counter(piece.inputs)
        free = (n for n, place in enumerate(piece.inputs) if place in given and place in dying and counts[place] == 1)
        return Donation(frozenset(free))

    # ---- what is said

    def _tell(self, cut_: Partition) -> None:
        """Every cluster, and why the rest is none, as decisions; what falls back also as ``HLOTOOL_FALLBACK`` says."""
        log, name = self.options.log, self.backend.name
        log.pass_name = _PASS
        for part in cut_.clusters:
            first, last = part.nodes[0].name, part.nodes[-1].name
            log.note(
                "cluster", list(dict.fromkeys((first, last))), f"{name} compiles it", operations=part.operations,
                work=part.cost, arguments=len(part.inputs), results=len(part.outputs),
            )  # fmt: skip
        was = {node.name: node.reason for node in cut_.given}
        for node in cut_.nodes:
            if node.reason:
                numbers = {} if was[node.name] else {"work": node.cost}
                rule = "unsupported" if was[node.name] else "little-work"
                log.refuse(rule, node.name, f"left to {self.fallback.name}: {node.reason}", **numbers)
        fall_back_in_part(f"{name}: a part of {self.module.name}", cut_.report(), f"{self.fallback.name} runs it")


def _items(root: Instruction) -> list[Instruction]:
    """What is in the result: its elements, where it is a tuple of them, in order."""
    if root.opcode != "tuple":
        return [root]
    return [item for operand in root.operands for item in _items(operand)]


def _places(one: Instruction, places: Mapping[Instruction, tuple[int, ...]]) -> tuple[int, ...]:
    """The places of the arrays of a value: its own, or those of an element of another one."""
    if one in places:
        return places[one]
    (whole,) = one.operands
    index = one.attributes["index"]
    start = sum(len(array_leaves(element)) for element in whole.shape.elements[:index])
    return _places(whole, places)[start : start + len(array_leaves(one.shape))]


def _with_ends(pieces: Sequence[_Piece], results: Collection[int]) -> list[_Piece]:
    """The pieces, which now know what dies with them."""
    read = set(results)
    found = []
    for piece in reversed(pieces):
        dying = dict.fromkeys(place for place in (*piece.inputs, *piece.outputs) if place not in read)
        found.append(replace(piece, dying=tuple(dying)))
        read.update(piece.inputs)
    return found[::-1]
