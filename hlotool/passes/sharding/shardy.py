"""Annotations in the words of Shardy, turned into the custom calls and shardings of HLO that GSPMD has.

JAX hands over both: shardings of HLO on parameters and constraints, and Shardy's as frontend attributes; results of the
program (``xla.sdy.FuncResultSharding``) and functions of parts of arrays (``xla.sdy.GlobalToLocalShape``,
``xla.sdy.LocalToGlobalShape``) in the words of Shardy alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module, Verbatim
from hlotool.ir.sharding import Sharding, along_axes, print_sharding, sharding_of_axes
from hlotool.ir.sharding_axes import Mesh, Piece, ReadAxes, ShardingValueError
from hlotool.ir.sharding_sdy import read_axis_names, read_meshes, read_sdy_values
from hlotool.passes.framework.graph import custom_call_target, made_from, replace_with

__all__ = ["import_shardy", "shardy_meshes", "shardy_values"]

_RESULT = "xla.sdy.FuncResultSharding"
_INWARDS, _OUTWARDS = "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape"


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
    for computation in module.computations.values():
        for one in computation:
            target = custom_call_target(one)
            if target == _RESULT and log.allow():
                (read,) = _reads(one, meshes, "xla.sdy.sharding", 1)
                log.rewrite("shardy", one, one.name, "the sharding of a result of the program")
                one.attributes = _sharding_call(read)
                changed = True
            elif target == "Sharding" and "backend_config" not in one.attributes:
                changed |= _open(one, meshes)
            elif target == _INWARDS and log.allow():
                _crossing(one, meshes, "xla.sdy.in_shardings", "SPMDFullToShardShape", True, log)
                changed = True
            elif target == _OUTWARDS and log.allow():
                _crossing(one, meshes, "xla.sdy.out_shardings", "SPMDShardToFullShape", False, log)
                changed = True
    return changed


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


def _manual(read: ReadAxes, names: Sequence[str], inside: bool) -> Sharding:
    """The sharding of a value over a mesh of which the program itself sees to the axes `names`: `inside`, where the
    other axes are left, or outside."""
    if not inside:
        return sharding_of_axes(read).bare()
    manual: list[Piece] = [read.mesh.piece(name) for name in names]
    rows = [[piece for piece in row if piece[0] not in names] for row in read.dimensions]
    return along_axes(read.mesh, rows, {"manual": manual})


def _crossing(
    one: Instruction, meshes: Mapping[str, Mesh], key: str, target: str, inwards: bool, log: DecisionLog
) -> None:
    """Two custom calls for each array in the place of one for all: what it is cut like before, and the crossing."""
    computation = one.parent
    assert computation is not None
    names = read_axis_names(one.attributes.get("frontend_attributes", {}).get("xla.sdy.manual_axes", ""))
    shapes = one.shape.elements if one.shape.is_tuple else (one.shape,)
    if len(shapes) != len(one.operands):
        raise ShardingValueError(f"{one.name} has {len(one.operands)} operands and {len(shapes)} results")
    reads = _reads(one, meshes, key, len(shapes))
    made: list[Instruction] = []
    for operand, shape, read in zip(one.operands, shapes, reads, strict=True):
        outside, inside = (Verbatim(print_sharding(_manual(read, names, at))) for at in (False, True))
        before, after = (outside, inside) if inwards else (inside, outside)
        given = made_from(one, "custom-call", operand.shape, (operand,), custom_call_target="Sharding", sharding=before)
        there = made_from(one, "custom-call", shape, (given,), custom_call_target=target, sharding=after)
        computation.add(given, before=one)
        made.append(computation.add(there, before=one))
    words = "a device gets its part" if inwards else "parts are whole arrays again"
    log.rewrite("shardy", one, [there.name for there in made], f"{words}, along {', '.join(names)}")
    whole = computation.add(made_from(one, "tuple", one.shape, made), before=one) if one.shape.is_tuple else made[0]
    replace_with(one, whole)
