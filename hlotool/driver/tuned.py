"""Tuned choices of databases, given to the instructions that they are for.

A database is a file of lines of JSON, so that it can be read, merged and versioned: its head, then an entry each.  An
entry is for one kernel: an instruction, cut out of its module, whatever its names; or for a module as it comes in, for
which passes go by other `Costs`.  It holds for one target, and for one version of code generation.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal

from hlotool.analysis.costs import Costs
from hlotool.analysis.decisions import DecisionLog
from hlotool.codegen.choices import FORMULAS, MEANING, Choices
from hlotool.codegen.configured import checked, choices_of, configured, unconfigured
from hlotool.codegen.machine import Machine
from hlotool.ir import HloError, InputError, Instruction, Module, clone_module
from hlotool.ir.cut import cut
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.tuning import Tuning, target_key
from hlotool.text.fingerprint import content_hash
from hlotool.text.printer import print_module
from hlotool.version import __version__

__all__ = [
    "HEAD",
    "VERSION",
    "Database",
    "Entry",
    "Tuned",
    "Wanted",
    "about",
    "alone",
    "entry_of",
    "kernels_of",
    "key_of",
    "line_of",
    "read_database",
    "tuned_for",
]  # fmt: skip

VERSION = f"{__version__}/{MEANING}"
"""Of code generation: what was measured with another one says nothing."""

HEAD = {"hlotool": "tuning database", "format": 1}

_SIMPLE = frozenset(
    ["parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "call", "conditional", "after-all",
     "add-dependency", "domain", "opt-barrier", "infeed", "outfeed", "send", "recv", "custom-call", "partition-id",
     "replica-id", "iota"]
)  # fmt: skip
"""Opcodes without kernels, or with nothing to choose."""
_INLINE = frozenset(["while", "call", "conditional"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What was found for `key` on `target`: `choices` for a kernel, `costs` for a module.

    A run takes ``1 - gain`` of the time that it takes without, which was `seconds`.  If `exact`, it gives the same
    bits.
    `about` is the opcode and shape of the kernel, or the module's name.
    """

    scope: Literal["kernel", "module"]
    key: str
    target: str
    version: str
    about: str
    choices: Choices = FORMULAS
    costs: Mapping[str, int]
    gain: float
    seconds: float
    exact: bool

    @property
    def place(self) -> tuple[str, str, str]:
        """What there is one entry for."""
        return self.scope, self.key, self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A kernel that was compiled without an entry: its `text` is a module."""

    key: str
    target: str
    text: str


@dataclass(frozen=True, slots=True)
class Database:
    """The entries of a file, by place; the kernels `wanted`, by key and target; and `notes` on what was not read."""

    entries: Mapping[tuple[str, str, str], Entry]
    wanted: Mapping[tuple[str, str], Wanted]
    notes: tuple[str, ...]


def read_database(path: Path) -> Database:
    """What is in a file; InputError where it cannot be read, or is no database.

    Lines that are damaged, of another version or for unknown knobs are left out, with a note.
    """
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().split("\n")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    head = _object(lines[0])
    if head is None or head.get("hlotool") != HEAD["hlotool"]:
        raise InputError(f"{path}: this is no tuning database; `hlotool tune` makes one")
    if head.get("format") != HEAD["format"]:
        raise InputError(f"{path}: format {head.get('format')!r} of a database; this hlotool reads {HEAD['format']}")
    entries: dict[tuple[str, str, str], Entry] = {}
    wanted: dict[tuple[str, str], Wanted] = {}
    notes = []
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        try:
            row = _object(line)
            if row is not None and set(row) == {"wanted", "target", "text"}:
                one = Wanted(key=str(row["wanted"]), target=str(row["target"]), text=str(row["text"]))
                wanted[one.key, one.target] = one
                continue
            entry = entry_of(row)
        except InputError as error:
            notes.append(f"{path}:{number}: left out: {error}")
            continue
        entries[entry.place] = entry
    return Database(entries, wanted, tuple(notes))


def _object(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


_WORDS = ("key", "target", "version", "about")


def entry_of(row: Mapping[str, Any] | None) -> Entry:
    """The entry that a line says; InputError where it does not."""
    if row is None:
        raise InputError("this is no JSON object")
    if row.get("version") != VERSION:
        raise InputError(f"it is of version {row.get('version')!r}, this is {VERSION}")
    scope = row.get("scope")
    numbers = [row.get(name) for name in ("gain", "seconds")]
    sound = scope in ("kernel", "module") and all(isinstance(row.get(name), str) for name in _WORDS)
    sound = sound and all(isinstance(n, (int, float)) and math.isfinite(n) for n in numbers)
    if not sound or not isinstance(row.get("exact"), bool):
        raise InputError("an entry has scope, key, target, version, about, choices or costs, gain, seconds and exact")
    choices = checked(row.get("choices", {}), "choices")
    costs = row.get("costs", {})
    known = {field.name: getattr(Costs(), field.name) for field in fields(Costs)}
    if not isinstance(costs, dict) or any(name not in known for name in costs):
        raise InputError(f"costs: unknown names; known: {', '.join(known)}")
    if any(type(value) is not type(known[name]) or value < 0 for name, value in costs.items()):
        raise InputError("costs: expected whole numbers from 0 on, and true or false for prologues and byte_rows")
    return Entry(
        scope="module" if scope == "module" else "kernel", key=row["key"], target=row["target"],
        version=row["version"], about=row["about"], choices=choices, costs=costs, gain=float(row["gain"]),
        seconds=float(row["seconds"]), exact=row["exact"],
    )  # fmt: skip


def line_of(entry: Entry | Wanted) -> str:
    """The line of a file that says this."""
    if isinstance(entry, Wanted):
        return json.dumps({"wanted": entry.key, "target": entry.target, "text": entry.text})
    row = {field.name: getattr(entry, field.name) for field in fields(Entry)}
    row["choices"], row["costs"] = entry.choices.given, dict(entry.costs)
    return json.dumps({name: value for name, value in row.items() if value != {}}, sort_keys=True)


# ---- kernels


def kernels_of(module: Module) -> Iterator[Instruction]:
    """The instructions of a lowered module that may have kernels with choices: not what is inside of these."""
    inner = {c for i in module.instructions() if i.opcode not in _INLINE for c in i.called}
    for computation in module.computations.values():
        if computation not in inner:
            yield from (i for i in computation if i.opcode not in _SIMPLE)


def about(instruction: Instruction) -> str:
    """What is quickly said of a kernel: kernels with other words have other keys."""
    return f"{instruction.opcode} {instruction.shape}"


def alone(instruction: Instruction) -> Module:
    """The module of a kernel, without its choices: what it reads are parameters."""
    module = cut([instruction]).module
    unconfigured(module.entry.root)
    return module


def key_of(module: Module) -> str:
    """What a kernel's module, or a module as it comes in, is called in databases."""
    return content_hash(module)


@dataclass(frozen=True, slots=True)
class Tuned:
    """The entries for a target that a compilation may take, those that count first; what is taken goes to `log`."""

    tuning: Tuning
    target: str
    entries: tuple[Entry, ...]
    log: DecisionLog

    def costs(self, module: Module, costs: Costs) -> Costs:
        """What passes over a module as it comes in go by: other `costs` where there is an entry for it."""
        found = [entry for entry in self.entries if entry.scope == "module"]
        key = key_of(clone_module(module)) if found else ""
        entry = next((entry for entry in found if entry.key == key), None)
        if entry is None:
            return costs
        self.log.pass_name = "tuning"
        words = " ".join(f"{name}={value}" for name, value in entry.costs.items())
        self.log.note("costs", module.entry.root, words, percent_gained=round(100 * entry.gain, 1))
        return replace(costs, **entry.costs)  # type: ignore[arg-type]  # of the types of its fields: `entry_of`

    def choose(self, module: Module) -> None:
        """Give the instructions of a lowered module the choices that there are for them."""
        found = [entry for entry in self.entries if entry.scope == "kernel"]
        words, by_key = {entry.about for entry in found}, {entry.key: entry for entry in reversed(found)}
        writes, noted = self.tuning.mode == "write", list[Wanted]()
        self.log.pass_name = "tuning"
        for one in kernels_of(module):
            if choices_of(one) is not FORMULAS or (about(one) not in words and not writes):
                continue
            with suppress(HloError):  # what cannot stand alone has no key
                kernel = alone(one)
                key = key_of(kernel)
                entry = by_key.get(key)
                if entry is not None and configured(one, entry.choices):
                    self.log.note("choices", one, entry.choices.text(), percent_gained=round(100 * entry.gain, 1))
                elif entry is None and writes:
                    noted.append(Wanted(key=key, target=self.target, text=print_module(kernel)))
        if noted:
            _note_wanted(self.tuning.database, noted, self.log)

    def gains(self, module: Module) -> dict[Instruction, float]:
        """The kernels of a lowered module that there are choices for, and the share of its time that each saves by
        them, as it was measured."""
        by_key = {entry.key: entry for entry in reversed(self.entries) if entry.scope == "kernel"}
        words, found = {entry.about for entry in by_key.values()}, dict[Instruction, float]()
        for one in kernels_of(module):
            if about(one) in words:
                with suppress(HloError):  # what cannot stand alone has no key
                    entry = by_key.get(key_of(alone(one)))
                    if entry is not None:
                        found[one] = entry.gain
        return found


def tuned_for(machine: Machine, tuning: Tuning, log: DecisionLog) -> Tuned:
    """What databases have for a machine, as far as `tuning` lets one take it."""
    target, found = target_key(machine), list[Entry]()
    log.pass_name = "tuning"
    for path in tuning.files(target):
        try:
            database = read_database(path)
        except InputError as error:
            log.refuse("unreadable", str(path), str(error))
            continue
        for note in database.notes:
            log.refuse("unreadable", str(path), note)
        found += [one for one in database.entries.values() if one.target == target and (one.exact or not tuning.exact)]
    return Tuned(tuning, target, tuple(found), log)


def _note_wanted(path: Path, noted: Iterable[Wanted], log: DecisionLog) -> None:
    """Add kernels to the end of a database; where it cannot be written that is said, and the program is compiled."""
    try:
        known = read_database(path).wanted if path.exists() else {}
        new = {(one.key, one.target): one for one in noted}
        lines = [line_of(one) for place, one in new.items() if place not in known]
        if not lines:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        head = [] if path.exists() else [json.dumps(HEAD)]
        with open(path, "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write("".join(f"{line}\n" for line in [*head, *lines]))
    except (OSError, InputError) as error:
        log.refuse("unwritable", str(path), str(error))
