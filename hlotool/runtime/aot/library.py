"""Programs as a library: the object or archive with its weights, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.codegen.machine import Machine
from hlotool.codegen.program import Program
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.aot.code import Code, code_texts, object_with, offered
from hlotool.runtime.aot.interface import ALIGNMENT, Array, Entry, Interface
from hlotool.runtime.aot.metadata import with_sizes
from hlotool.runtime.aot.processors import processor_name
from hlotool.runtime.aot.reflection import ABI
from hlotool.runtime.aot.symbols import function_sizes
from hlotool.runtime.aot.threads import Threads, threads_of
from hlotool.runtime.aot.weights import code_id, weights_file
from hlotool.version import __version__

__all__ = ["Library", "library_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A library: its object, that of its threads, the parts of the file with its weights (none where the object has all
    constants), and what its manifest says."""

    interface: Interface
    object: bytes
    threads: Threads | None
    weights: tuple[bytes, ...]
    manifest: Mapping[str, Any] = field(repr=False)

    @property
    def offered(self) -> list[str]:
        """The names that others see."""
        return offered(self.interface)

    @property
    def functions(self) -> Mapping[str, int]:
        """Bytes of code by function of the programs."""
        found: Mapping[str, int] = self.manifest["functions"]
        return found


def library_of(
    interface: Interface, programs: Sequence[Sequence[Program]], machines: Sequence[Machine],
    constants: npt.NDArray[np.uint8], *, external: bool, options: Mapping[str, Any],
) -> Library:  # fmt: skip
    """The library of `programs`, those of all entries for one machine after another.

    Their `constants` are in a file of their own if it is `external`; `options` are what the manifest says of how the
    library was made.
    """
    random: list[int] = []
    pairs = zip(programs, machines, strict=True)
    texts = [code_texts(row, own, level, random) for level, (row, own) in enumerate(pairs)]
    identity = code_id(text for row in texts for text in row)
    entries = (replace(entry, random_words=len(random)) for entry in interface.entries)
    interface = replace(interface, entries=tuple(entries))
    code = Code(
        interface=interface, machines=tuple(machines), programs=tuple(map(tuple, programs)), constants=constants,
        external=external, code=identity, texts=tuple(map(tuple, texts)), random=tuple(random),
    )  # fmt: skip
    order = ">" if machines[0].is_big_endian else "<"
    weights: tuple[bytes, ...] = weights_file(constants, identity, order) if external else ()
    about = _about(code, options)
    if weights:
        digest = sha256(b"".join(weights))
        about["weights"] = {"bytes": sum(map(len, weights)), "code": identity.hex(), "sha256": digest.hexdigest()}
    data, functions = object_with(code, about)
    sizes = function_sizes(data)
    return Library(
        interface=interface,
        object=with_sizes(data, sizes),
        threads=threads_of(interface.name, machines[0]),
        weights=weights,
        manifest={**about, "functions": {name: sizes.get(name, 0) for name in functions}},
    )


def _about(code: Code, options: Mapping[str, Any]) -> dict[str, Any]:
    interface, machine = code.interface, code.machines[0]
    return {
        "schema_version": 1,
        "kind": "library",
        "name": interface.name,
        "hlotool": __version__,
        "abi": ABI,
        "triple": machine.triple,
        "processors": [processor_name(own) for own in code.machines],
        "byte_order": "big" if machine.is_big_endian else "little",
        "alignment": {"arrays": 1, "workspace": ALIGNMENT, "weights": ALIGNMENT},
        "options": dict(options),
        "constant_bytes": len(code.constants),
        "weights": None,
        "random": list(code.random),
        "entries": [
            _entry(entry, [row[number] for row in code.programs]) for number, entry in enumerate(interface.entries)
        ],
        "context_functions": list(interface.functions),
    }


def _entry(entry: Entry, programs: Sequence[Program]) -> dict[str, Any]:
    kernels: dict[str, list[str]] = {}
    for use in programs[-1].kernels:
        kernels.setdefault(use.kernel, []).append(use.instruction)
    return {
        "name": entry.name,
        "module": entry.source.module.name,
        "file": entry.source.file,
        "sha256": entry.source.sha256,
        "workspace_bytes": entry.workspace_bytes,
        "arguments": [_array(array) for array in entry.arguments],
        "results": [_array(array) for array in entry.results],
        "kernels": kernels,
    }


def _array(array: Array) -> dict[str, Any]:
    return {
        "name": array.name,
        "identifier": array.identifier,
        "type": array.shape.element_type,
        "dimensions": list(array.shape.dimensions),
        "bytes": array.bytes,
        "alias": None if array.alias < 0 else array.alias,
        "overwritten": array.overwritten,
    }
