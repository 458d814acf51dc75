"""Programs for several devices: divided among them by hlotool's partitioner, and run by threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hlotool.analysis.decisions import DecisionLog
from hlotool.driver import optimise
from hlotool.evaluate.devices import Device, ThreadWorld
from hlotool.ir import HloError, Instruction, Module, Shape, UnsupportedError, Verbatim, clone_module
from hlotool.ir.devices import is_collective
from hlotool.ir.sharding import Sharding, iota_of, parse_sharding, print_sharding, replicated
from hlotool.ir.sharding_axes import Mesh
from hlotool.ir.verifier import check
from hlotool.jax.pjrt.lowering import Options
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.manager import PassCrash
from hlotool.passes.sharding.projection import restricted
from hlotool.passes.sharding.shardy import shardy_meshes
from hlotool.runtime.executable import Executable

__all__ = ["Divided", "Shardings", "divided_among"]

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Shardings:
    """How the arrays of a program lie on its devices."""

    parameters: tuple[Sharding, ...]
    outputs: tuple[Sharding, ...]


class Divided:
    """What each of several devices runs.

    `shardings` are None where each device has arrays of its own; `text` gives the program as a serialized
    HloModuleProto.
    """

    def __init__(self, executable: Executable, shardings: Shardings | None, text: Callable[[], bytes]) -> None:
        assert executable.work is not None  # no backend of ours is without
        module = executable.module
        self._work, self._together, self._topology = executable.work, executable.together, executable.topology
        self._shardings = shardings
        self._are_arrays = [leaf.is_array for p in module.entry.parameters for leaf in p.shape.leaves()]
        self._shapes = [shape.dimensions for shape in executable.parameters]
        self._meet = any(map(_waits, module.instructions()))
        self.text = text

    def run(self, arguments: Sequence[Sequence[Array]], arrays: Sequence[bool]) -> list[list[Array]]:
        """The results of every device, but for tokens, of the arguments of every device."""
        work, rows, world = self._work, [self._given(row) for row in arguments], ThreadWorld(self._topology)
        if self._together is not None:
            return [[*found] for found in self._together(world, rows)]
        if not self._meet:  # one after the other, each with the whole processor
            return [[*work(Device(world, number), row)] for number, row in enumerate(rows)]
        # The memory of arguments goes away when this is over.
        return [[*found] for found in world.run(lambda device: work(device, rows[device.number]), until_ended=True)]

    def _given(self, row: Sequence[Array]) -> list[Array]:
        """The arguments of one device as its code takes them."""
        given = compress(row, self._are_arrays)
        return [np.ascontiguousarray(array).reshape(shape) for array, shape in zip(given, self._shapes, strict=True)]

    def parameter_shardings(self) -> list[bytes] | None:
        """A serialized OpSharding for every parameter; None where each device has arrays of its own."""
        return None if self._shardings is None else [*map(_proto, self._shardings.parameters)]

    def output_shardings(self) -> list[bytes] | None:
        """A serialized OpSharding for every result; None where each device has arrays of its own."""
        return None if self._shardings is None else [*map(_proto, self._shardings.outputs)]


def _waits(one: Instruction) -> bool:
    """Whether devices wait for each other there; nobody knows of functions of Python."""
    return is_collective(one.opcode) or one.opcode in ("send", "recv", "custom-call")


def divided_among(module: Module, options: Options) -> tuple[Module, Shardings | None]:
    """What each device runs, and how the arrays of `module` lie on them: None where it is for replicas alone.

    UnsupportedError where the partitioner does not take the module.
    """
    copy = clone_module(module)
    copy.attributes["replica_count"] = options.replicas
    if options.partitions == 1:
        return copy, None
    copy.attributes["num_partitions"] = options.partitions
    copy.attributes["allow_spmd_sharding_propagation_to_parameters"] = _flags(options.free_parameters)
    copy.attributes["allow_spmd_sharding_propagation_to_output"] = _flags(options.free_outputs)
    try:
        made = optimise(copy, "sharding-propagation", DecisionLog(), strict=True)
        _settle(made, options)
        made = optimise(made, f"spmd-partitioner{{partitions={options.partitions}}}", DecisionLog(), strict=True)
        check(made)
    except UnsupportedError:
        raise
    except (PassCrash, HloError) as error:
        raise UnsupportedError(f"the partitioner fails: {' '.join(str(error).split())}") from error
    return made, Shardings(_shardings(made.entry.parameters), _shardings([made.entry.root]))


def _settle(module: Module, options: Options) -> None:
    """Of arguments and results that may lie as the compiler likes, divide only what JAX can say and make.

    It has no arrays with tiles of several sizes, and a dimension is divided along axes of its mesh, not parts of them,
    and from its beginning: what was reversed changes hands.
    """
    meshes = [mesh for mesh in shardy_meshes(module).values() if mesh.size == options.partitions]
    entry = module.entry
    for values, free in ((entry.parameters, options.free_parameters), ([entry.root], options.free_outputs)):
        written = _shardings(values)
        flags = free if len(free) == len(written) else (all(free) and bool(free),) * len(written)
        rows = iter(zip(written, flags, strict=True))
        for value in values:
            leaves = [*value.shape.leaves()]
            found = [_settled(*next(rows), leaf, meshes) for leaf in leaves]
            if leaves:  # also where nothing is said, which the partitioner would decide without these limits
                value.attributes["sharding"] = Verbatim(print_sharding(found if value.shape.is_tuple else found[0]))


def _settled(sharding: Sharding, free: bool, shape: Shape, meshes: Sequence[Mesh]) -> Sharding:
    """As much of a sharding as JAX has for an array; all of it where it is not `free`."""
    if not (free and sharding.is_tiled):
        return sharding

    def along_axes(one: Sharding, d: int) -> bool:
        return all(_along_axes(one, d, mesh) for mesh in meshes)

    turned = _turned(sharding, range(shape.rank))
    back = [d for d in range(shape.rank) if along_axes(turned, d) and not along_axes(sharding, d)]
    sharding = _turned(sharding, back)
    kept = [
        d
        for d, (size, count) in enumerate(zip(shape.dimensions, sharding.tiles, strict=True))
        if size % count == 0 and along_axes(sharding, d)
    ]
    return sharding if len(kept) == shape.rank else restricted(sharding, kept)


def _turned(sharding: Sharding, dimensions: Sequence[int]) -> Sharding:
    """The same tiles, counted from the other end along these dimensions."""
    devices = np.flip(sharding.array(), tuple(dimensions))
    return replace(sharding, devices=tuple(devices.ravel().tolist()))


def _along_axes(sharding: Sharding, dimension: int, mesh: Mesh) -> bool:
    """Whether the tiles along a dimension are numbered by some axes of a mesh, the first of which is the slowest."""
    sizes = [size for _, size in mesh.axes]
    devices = np.array(mesh.devices or range(mesh.size)).reshape(sizes)
    places = np.empty(mesh.size, np.int64)
    places[[*sharding.devices]] = np.indices(sharding.grid)[dimension].ravel()
    numbers = places[devices]
    steps = [int(numbers.take(1, axis).flat[0]) if size > 1 else 0 for axis, size in enumerate(sizes)]
    linear = sum(step * grid for step, grid in zip(steps, np.indices(sizes), strict=True))
    done = 1
    for step, size in sorted(pair for pair in zip(steps, sizes, strict=True) if pair[0]):
        if step != done:
            return False
        done *= size
    return done == sharding.tiles[dimension] and bool(np.array_equal(numbers, linear))


def _flags(values: Sequence[bool]) -> Verbatim:
    return Verbatim(f"{{{','.join('true' if value else 'false' for value in values)}}}")


def _shardings(values: Sequence[Instruction]) -> tuple[Sharding, ...]:
    """Those of the leaves of values; all of an array is on every device where nothing is said."""
    found: list[Sharding] = []
    for value in values:
        written = value.attributes.get("sharding")
        read = parse_sharding(written.text) if isinstance(written, Verbatim) else replicated()
        rows = [*read] if isinstance(read, tuple) else [read for _ in value.shape.leaves()]
        found += [one.bare() if one.kind in ("tiled", "unreduced") else replicated() for one in rows]
    return tuple(found)


def _proto(sharding: Sharding) -> bytes:
    """A serialized OpSharding."""
    from jaxlib.xla_client import OpSharding

    kinds, made = OpSharding.Type, OpSharding()
    if not sharding.is_tiled:
        made.type = getattr(kinds, sharding.kind.upper())
        made.tile_assignment_devices = [*sharding.devices]
        return bytes(made.SerializeToString())
    made.type = kinds.OTHER
    made.tile_assignment_dimensions = [*sharding.grid]
    iota = iota_of(sharding.devices)
    if iota is None:
        made.tile_assignment_devices = [*sharding.devices]
    else:  # as XLA has them, and so JAX shows them
        made.iota_reshape_dims, made.iota_transpose_perm = map(list, iota)
    made.last_tile_dims = [getattr(kinds, kind.upper()) for kind, _ in sharding.subgroups]
    return bytes(made.SerializeToString())
