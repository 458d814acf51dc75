"""The presets of the printer: the same module for different readers.

=========== ==================================================================== ==============================
name        what it shows                                                        what reads back
=========== ==================================================================== ==============================
default     everything, constants in full                                        the same module
short       what is computed: no metadata, backend_config, annotations           the same computation
canonical   order and names of its own (tmp_N), bodies in place, operand shapes   the same computation, renamed
fingerprint canonical without any names, frontend and backend details, for hashes the same computation, renamed
xla         byte for byte what XLA's own printer gives by default                 large constants are elided
=========== ==================================================================== ==============================
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from hlotool.ir import Computation, Instruction, Module, UnsupportedError, Verbatim
from hlotool.text.arrange import arrange
from hlotool.text.printer import SHORT, PrintOptions, print_module

__all__ = [
    "CANONICAL", "FINGERPRINT", "PRESETS", "XLA", "canonical_form", "expanded_size", "print_preset",
    "without_notes",
]  # fmt: skip

XLA = PrintOptions(percent=True, signatures=True, operand_comments=True, elide_above=10, xla=True)
"""XLA's ``HloPrintOptions::Default``; for modules that `arrange` has put in order."""

CANONICAL = PrintOptions(operand_shapes=True, metadata=False, backend_config=False, nested=True, names=False)
"""For comparing by eye or ``diff``: modules that differ in names only print the same."""

FINGERPRINT = replace(CANONICAL, operand_shapes=False, index_comments=False)
"""For hashing."""

_LARGEST = 2_000_000  # instructions of a canonical form, in which every call repeats the body that it calls
_NOTES = re.compile(r'(?:,\s*|\s+)metadata=(?:\{(?:[^{}"]|"(?:[^"\\]|\\.)*"|\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\})*\})')
_NAMING = ("origin", "statistics")


def print_preset(module: Module, preset: str) -> str:
    """The text of `module` in a preset; KeyError for an unknown name, UnsupportedError where it would be endless."""
    return PRESETS[preset](module)


def canonical_form(module: Module, annotations: bool = True) -> Module:
    """A copy in XLA's order with instructions named ``tmp_N`` and nothing that depends on names or source places."""
    copy = arrange(module)
    for computation in copy.computations.values():
        for number, instruction in enumerate(computation):
            instruction.name = f"tmp_{number}"
            instruction.metadata = None
            _strip(instruction, annotations)
    header = copy.attributes
    header.pop("origin_recovery_table", None)
    if not annotations:
        header.pop("frontend_attributes", None)
    copy.stack_frames = None
    return copy


def _strip(instruction: Instruction, annotations: bool) -> None:
    values = instruction.attributes
    for name in _NAMING if annotations else (*_NAMING, "frontend_attributes"):
        values.pop(name, None)
    sharding = values.get("sharding")
    if isinstance(sharding, Verbatim):
        values["sharding"] = Verbatim(without_notes(sharding.text))


def without_notes(sharding: str) -> str:
    """The text of a sharding without the metadata in it."""
    return _NOTES.sub("", sharding) if "metadata=" in sharding else sharding


def expanded_size(module: Module) -> int:
    """Instructions of the entry when every call is replaced by the body that it calls."""
    sizes: dict[Computation, int] = {}
    for computation in module.callees_first():
        called = [callee for instruction in computation for callee in instruction.called]
        sizes[computation] = len(computation) + sum(sizes.get(callee, 0) for callee in called)
    return sizes[module.entry]


def _canonical(module: Module, options: PrintOptions, annotations: bool) -> str:
    size = expanded_size(module)
    if size > _LARGEST:
        raise UnsupportedError(
            f"{module.name}: with every called body in its place the module has {size} instructions, "
            f"more than the {_LARGEST} that are printed; 'hlotool hash' has no such limit"
        )
    return print_module(canonical_form(module, annotations), options)


PRESETS: dict[str, Callable[[Module], str]] = {
    "default": print_module,
    "short": lambda module: print_module(module, SHORT),
    "canonical": lambda module: _canonical(module, CANONICAL, True),
    "fingerprint": lambda module: _canonical(module, FINGERPRINT, False),
    "xla": lambda module: print_module(arrange(module), XLA) + "\n",  # XLA ends with an empty line
}
