"""Annotations in the words of Shardy, turned into the custom calls and shardings of HLO that GSPMD has.

JAX hands over both: shardings of HLO on parameters and constraints, and Shardy's as frontend attributes; results of the
program (``xla.sdy.FuncResultSharding``) and functions of parts of arrays (``xla.sdy.GlobalToLocalShape``,
``xla.sdy.LocalToGlobalShape``) in the words of Shardy alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Instruction, Module, Verbatim
from hlotool.ir.sharding import Sharding, along_axes, print_sharding, sharding_of_axes
from hlotool.ir.sharding_axes import Mesh, Piece, ReadAxes, ShardingValueError
from hlotool.ir.sharding_sdy import read_axis_names, read_meshes, read_sdy_values
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import custom_call_target, made_from, replace_with

__all__ = ["import_shardy", "shardy_meshes", "shardy_values"]

_RESULT = "xla.sdy.FuncResultSharding"
_INWARDS, _OUTWARDS = "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape"
_KEYS = {_INWARDS: "xla.sdy.in_shardings", _OUTWARDS: "xla.sdy.out_shardings"}


def shardy_meshes(module: Module) -> dict[str, Mesh]:
    """The meshes that a module names."""
    text = module.attributes.get("frontend_attributes", {}).get("xla.sdy.meshes")
    return read_meshes(text) if text else {}


def shardy_values(one: Instruction, meshes: Mapping[str, Mesh], key: str = "xla.sdy.sharding") -> list[ReadAxes]:
    """The shardings of an instruction's values in its frontend attributes, one a value."""
    text = one.attributes.get("frontend_attributes", {}).get(key)
    return list(read_sdy_values(text, meshes)) if text else []


def import_shardy(module: Module, log: DecisionLog) -> bool:
    """Replace Shardy's custom calls; whether there were any.  `ShardingValueError` where their text is wrong."""
    meshes = shardy_meshes(module)
    changed = False
    by_hand = _by_hand(module, meshes)
    for computation in module.computations.values():
        outer = by_hand.get(computation)
        for one in computation:
            target = custom_call_target(one)
            if target == _RESULT and log.allow():
                (read,) = _reads(one, meshes, "xla.sdy.sharding", 1)
                log.rewrite("shardy", one, one.name, "the sharding of a result of the program")
                one.attributes = _sharding_call(read)
                changed = True
            elif target == _INWARDS and log.allow():
                _crossing(one, meshes, _KEYS[_INWARDS], "SPMDFullToShardShape", outer, log)
                changed = True
            elif target == _OUTWARDS and log.allow():
                _crossing(one, meshes, _KEYS[_OUTWARDS], "SPMDShardToFullShape", outer, log)
                changed = True
            else:
                if target == "Sharding" and "backend_config" not in one.attributes:
                    changed |= _open(one, meshes)
                if outer is not None and log.allow():
                    changed |= _inside(one, meshes, outer)
    return changed


@dataclass(frozen=True, slots=True)
class _Manual:
    """The axes of a mesh along which the program itself says what each device does."""

    mesh: Mesh
    names: tuple[str, ...]


def _by_hand(module: Module, meshes: Mapping[str, Mesh]) -> dict[Computation, _Manual]:
    """The computations in which the program says itself what devices do, along which axes.

    These are what is called on parts of arrays, and what that calls; shardings there are about the other axes.
    `ShardingValueError` where one with shardings is called on parts of arrays and on whole ones.
    """
    bodies: dict[Computation, _Manual] = {}
    for one in module.instructions():
        key = _KEYS.get(custom_call_target(one) or "")
        reads = shardy_values(one, meshes, key) if key else []
        if reads:
            places = one.users if custom_call_target(one) == _INWARDS else one.operands
            for call in _calls(places, custom_call_target(one) == _INWARDS):
                bodies.update(dict.fromkeys(call.called, _Manual(reads[0].mesh, _axes(one))))
    found: dict[Computation, _Manual | None] = {}

    def visit(computation: Computation, outer: _Manual | None) -> None:
        own = bodies.get(computation)
        names = tuple(dict.fromkeys([*(outer.names if outer else ()), *(own.names if own else ())]))
        mesh = own.mesh if own else outer.mesh if outer else Mesh(())
        said = _Manual(mesh, names) if names else None
        if computation in found:
            if found[computation] != said and any("sharding" in one.attributes for one in computation):
                raise ShardingValueError(f"{computation.name} is for parts of arrays, and for whole ones")
            return
        found[computation] = said
        for callee in dict.fromkeys(computation.callees):
            visit(callee, said)

    if bodies:
        visit(module.entry, None)
    return {computation: said for computation, said in found.items() if said is not None}


def _calls(places: Iterable[Instruction], inwards: bool) -> Iterator[Instruction]:
    """The calls among users or operands of a crossing, which may be next to elements of tuples."""
    for place in places:
        if place.opcode == "call":
            yield place
        elif place.opcode == "get-tuple-element":
            yield from _calls(place.users if inwards else place.operands, inwards)


def _axes(one: Instruction) -> tuple[str, ...]:
    return tuple(read_axis_names(one.attributes.get("frontend_attributes", {}).get("xla.sdy.manual_axes", "")))


def _inside(one: Instruction, meshes: Mapping[str, Mesh], outer: _Manual) -> bool:
    """Let the sharding of a value say that the program sees to some axes; what it says is about the others."""
    reads = shardy_values(one, meshes)
    if not reads or "sharding" not in one.attributes:
        return False
    found = [_manual(read, outer) for read in reads]
    one.attributes["sharding"] = Verbatim(print_sharding(found if one.shape.is_tuple else found[0]))
    return True


def _reads(one: Instruction, meshes: Mapping[str, Mesh], key: str, count: int) -> list[ReadAxes]:
    found = shardy_values(one, meshes, key)
    if len(found) != count:
        raise ShardingValueError(f"{one.name} has {count} arrays, and shardings of {len(found)} as {key}")
    return found


def _sharding_call(read: ReadAxes) -> dict[str, object]:
    found = sharding_of_axes(read)
    values: dict[str, object] = {
        "custom_call_target": "Sharding",
        "sharding": Verbatim(print_sharding(found)),
    }
    if found.open_dimensions:
        values["backend_config"] = f"unspecified_dims=[{','.join(map(str, found.open_dimensions))}]"
    return values


def _open(one: Instruction, meshes: Mapping[str, Mesh]) -> bool:
    """A constraint whose dimensions may be cut further says so as GSPMD has it."""
    read = shardy_values(one, meshes)
    if len(read) != 1 or not read[0].open_dimensions:
        return False
    one.attributes["backend_config"] = f"unspecified_dims=[{','.join(map(str, read[0].open_dimensions))}]"
    return True


def _manual(read: ReadAxes, by_hand: _Manual | None) -> Sharding:
    """The sharding of a value over a mesh of which the program itself sees to some axes."""
    if by_hand is None:
        return sharding_of_axes(read).bare()
    mesh = by_hand.mesh
    manual: list[Piece] = [mesh.piece(name) for name in by_hand.names]
    rows = [[piece for piece in row if piece[0] not in by_hand.names] for row in read.dimensions]
    if any(rows) and read.mesh != mesh:
        raise ShardingValueError(f"a sharding over {read.mesh} where the program sees to axes of {mesh}")
    terms = [piece for piece in read.subgroups.get("unreduced", ()) if piece[0] not in by_hand.names]
    return along_axes(mesh, rows, {"manual": manual, "unreduced": terms})


def _crossing(
    one: Instruction, meshes: Mapping[str, Mesh], key: str, target: str, outer: _Manual | None, log: DecisionLog
) -> None:
    """Two custom calls for each array in the place of one for all: what it is cut like before, and the crossing."""
    computation = one.parent
    assert computation is not None
    names, inwards = _axes(one), target == "SPMDFullToShardShape"
    shapes = one.shape.elements if one.shape.is_tuple else (one.shape,)
    if len(shapes) != len(one.operands):
        raise ShardingValueError(f"{one.name} has {len(one.operands)} operands and {len(shapes)} results")
    reads = _reads(one, meshes, key, len(shapes))
    made: list[Instruction] = []
    for operand, shape, read in zip(one.operands, shapes, reads, strict=True):
        own = _Manual(read.mesh, (*(outer.names if outer else ()), *names))
        outside, inside = (Verbatim(print_sharding(_manual(read, at))) for at in (outer, own))
        before, after = (outside, inside) if inwards else (inside, outside)
        given = made_from(one, "custom-call", operand.shape, (operand,), custom_call_target="Sharding", sharding=before)
        there = made_from(one, "custom-call", shape, (given,), custom_call_target=target, sharding=after)
        computation.add(given, before=one)
        made.append(computation.add(there, before=one))
    words = "a device gets its part" if inwards else "parts are whole arrays again"
    log.rewrite("shardy", one, [there.name for there in made], f"{words}, along {', '.join(names)}")
    whole = computation.add(made_from(one, "tuple", one.shape, made), before=one) if one.shape.is_tuple else made[0]
    replace_with(one, whole)
