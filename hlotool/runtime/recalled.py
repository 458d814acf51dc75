"""Executables from the cache: what a program is made of is put together again only for those who look at it.

A program that an earlier process compiled for the same text is loaded and run, without passes and code generation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from hlotool.codegen.machine import Machine, Numerics, default_machine, runs_here
from hlotool.ir import Module
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.cache_key import Key
from hlotool.runtime.executable import Executable, Memory
from hlotool.runtime.image import Image, load_image
from hlotool.runtime.stored_programs import program_key, recall_program, remember_program

__all__ = ["Origin", "Recalled", "compiled_or_recalled", "stays"]

_MADE_AGAIN = ("module", "program", "decisions")


class Recalled(Executable):
    """An executable whose module, program and decisions are those of what `again` compiles, when they are asked for."""

    __slots__ = ("again",)

    again: Callable[[], Executable]

    def __getattr__(self, name: str) -> Any:  # of fields that are not set
        if name not in _MADE_AGAIN:
            raise AttributeError(name)
        made = self.again()
        for field in _MADE_AGAIN:
            object.__setattr__(self, field, getattr(made, field))
        return getattr(self, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where an executable comes from: `module` gives what `compile_` makes it of, with arithmetic by `numerics`.

    `parts`, the program's text among them, are all that the result depends on beside processor and compiler.
    """

    label: str
    parts: Mapping[str, str]
    module: Callable[[], Module]
    compile_: Callable[[Module], Executable]
    numerics: Numerics = Numerics()


def compiled_or_recalled(origin: Origin, threads: int | None = None) -> Executable:
    """The executable that an earlier process left in the cache, to run on `threads`, or else a new one, left there."""
    try:
        machine = replace(default_machine(), numerics=origin.numerics)
    except ValueError:
        return _compiled(origin, None)  # which says what is wrong
    key = program_key(origin.label, origin.parts, machine)
    found = recall_program(key) if runs_here(machine) else None
    if found is None:
        return _compiled(origin, key)
    return _recalled(found[1], machine, threads, lambda: origin.compile_(origin.module()))


def _compiled(origin: Origin, key: Key | None) -> Executable:
    module = origin.module()
    executable = origin.compile_(module)
    if key is not None and stays(executable, module):
        remember_program(key, b"", executable.image)
    return executable


def stays(executable: Executable, module: Module) -> bool:
    """Whether another process would make the same of `module`: nothing failed, which is to be said every time, and what
    custom calls mean is not for the program alone to say."""
    return not any(instruction.opcode == "custom-call" for instruction in module.instructions()) and not any(
        decision.rule.endswith("-failed") for decision in executable.decisions
    )


def _recalled(image: Image, machine: Machine, threads: int | None, again: Callable[[], Executable]) -> Executable:
    """As `hlotool.runtime.executable.link` makes it, on one device."""
    entry = load_image(image, threads)
    call = entry.function(image.releases_gil)
    aliases = dict(image.aliases)
    own = (shape for number, shape in enumerate(image.outputs) if number not in aliases)
    made = Recalled(
        module=Module(""), decisions=(), parameters=image.parameters, outputs=image.outputs,
        memory=Memory(
            image.arena_bytes,
            sum(shape.byte_size for shape in image.parameters),
            sum(shape.byte_size for shape in own),
            image.constants.nbytes,
        ),
        run=call, machine=machine, objects=image.objects, image=image, work=lambda device, arrays: call(*arrays),
        into=entry.run_into, entry=entry, donated=aliases,
    )  # fmt: skip
    object.__setattr__(made, "again", again)
    for field in _MADE_AGAIN:
        object.__delattr__(made, field)
    return made
