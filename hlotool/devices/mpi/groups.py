"""Which rank has which devices, and the communicators of those that meet."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from hlotool.devices.mpi.library import mpi
from hlotool.evaluate.devices import rendezvous_key
from hlotool.ir import InputError, Module
from hlotool.ir.devices import Topology, device_groups, device_pairs, is_collective
from hlotool.lazy_dataclass import dataclass

__all__ = ["Group", "Groups", "groups_of", "homes_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The devices of one rendezvous, `members`, as they are spread over the ranks of `comm` (None: all are here).

    `places` has for each rank of `comm` the positions among the members of those that it hosts, in order; `own` is this
    rank's number there.  `name` stands for the key of the rendezvous in what ranks tell each other.
    """

    members: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]
    own: int
    comm: Any
    name: str

    @property
    def here(self) -> tuple[int, ...]:
        """The positions of the members on this rank."""
        return self.places[self.own]

    @property
    def is_plain(self) -> bool:
        """Whether member N is alone on rank N of the communicator, as MPI's own collectives have it."""
        return self.places == tuple((n,) for n in range(len(self.members)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """All rendezvous of a program by their keys, and the tags of messages by (channel, source, target)."""

    rendezvous: Mapping[Hashable, Group]
    tags: Mapping[tuple[int, int, int], int]


def homes_of(topology: Topology, ranks: int, assignment: Sequence[int] | None) -> tuple[int, ...]:
    """The rank of each device: blocks of equal sizes, or nearly so, in order, unless an assignment says otherwise."""
    devices = topology.devices
    if assignment is None:
        if ranks > devices:
            raise InputError(
                f"{ranks} ranks for {topology}: there are no more than {devices} device{'s' if devices > 1 else ''}; "
                f"start fewer ranks (mpiexec -n {devices}), or say with replicas or partitions that there are more"
            )
        return tuple(device * ranks // devices for device in range(devices))
    homes = tuple(assignment)
    if len(homes) != devices or set(homes) != set(range(ranks)):
        raise InputError(
            f"the assignment {','.join(map(str, homes))} has to name one of the ranks 0 to {ranks - 1} for each of "
            f"{devices} devices, and every rank"
        )
    return homes


def groups_of(modules: Sequence[Module], topology: Topology, homes: Sequence[int], comm: Any) -> Groups:
    """The groups of all collectives in `modules`; all ranks of `comm` call it, in the same order.

    What the entry does is done in the same order everywhere, so its collectives of the same devices share a
    communicator.  Those in loops and branches have one each: where devices do not agree which comes next, they wait for
    each other instead of taking one for the other.
    """
    rendezvous: dict[Hashable, Group] = {}
    shared: dict[tuple[int, ...], Any] = {}
    members_of, in_order = _meetings_of(modules, topology)
    for number, (key, members) in enumerate(members_of.items()):
        ranks = sorted({homes[member] for member in members})
        places = tuple(tuple(n for n, m in enumerate(members) if homes[m] == rank) for rank in ranks)
        own = ranks.index(comm.rank) if comm.rank in ranks else -1
        found = shared.get(members) if key in in_order else None
        if found is None and own >= 0 and len(ranks) > 1:
            found = _communicator(comm, ranks, number)
            if key in in_order:
                shared[members] = found
        name = hashlib.sha256(repr(key).encode()).hexdigest()[:16]  # the same on every rank
        rendezvous[key] = Group(members=members, places=places, own=own, comm=found, name=name)
    mail = {
        (instruction.attributes.get("channel_id", 0), *pair)
        for module in modules
        for instruction in module.instructions()
        if instruction.opcode in ("send", "recv") and not instruction.attributes.get("is_host_transfer")
        for pair in device_pairs(instruction, topology)
    }
    return Groups(rendezvous=rendezvous, tags={row: tag for tag, row in enumerate(sorted(mail))})


def _meetings_of(
    modules: Sequence[Module], topology: Topology
) -> tuple[dict[Hashable, tuple[int, ...]], set[Hashable]]:
    """The members of each rendezvous, and which rendezvous are in entries alone."""
    found: dict[Hashable, tuple[int, ...]] = {}
    elsewhere: set[Hashable] = set()
    for module in modules:
        for instruction in module.instructions():
            if is_collective(instruction.opcode):
                for members in device_groups(instruction, topology):
                    key = rendezvous_key(instruction, members)
                    found[key] = members
                    if instruction.parent is not module.entry:
                        elsewhere.add(key)
    return found, found.keys() - elsewhere


def _communicator(comm: Any, ranks: Sequence[int], number: int) -> Any:
    everyone = comm.Get_group()
    chosen = everyone.Incl(ranks)
    try:
        found = comm.Create_group(chosen, number % 1024)
        found.Set_errhandler(mpi().ERRORS_RETURN)
        return found
    finally:
        chosen.Free()
        everyone.Free()
