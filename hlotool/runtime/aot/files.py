"""The files of a library, by their names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from hlotool.runtime.aot.header import header
from hlotool.runtime.aot.library import Library
from hlotool.runtime.aot.linker import linked, shared_name
from hlotool.runtime.aot.wrappers import cpp_wrapper, python_wrapper, rust_wrapper
from hlotool.runtime.archive import archive
from hlotool.version import __version__

__all__ = ["KINDS", "files_of"]

KINDS = ("static", "object", "shared")


def files_of(library: Library, kind: str) -> Mapping[str, Sequence[bytes]]:
    """What to write, in parts; `linked` says what a shared library takes."""
    interface, triple = library.interface, str(library.manifest["triple"])
    name = interface.name
    about = f"Written by hlotool {__version__}; see {name}.json for what it was made of."
    files: dict[str, Sequence[bytes]] = {}
    match kind:
        case "static":
            path = f"{name}.lib" if "windows" in triple else f"lib{name}.a"
            files[path] = [archive({"library.o": (library.object, library.offered)})]
        case "object":
            files[f"{name}.o"] = [library.object]
        case _:
            files[shared_name(name, triple)] = [linked(library.object, name, triple)]
            files[f"{name}.py"] = [python_wrapper(interface).encode()]
    weights = library.manifest["weights"]
    size = weights["bytes"] if weights else 0
    files[f"{name}.h"] = [header(interface, size, library.manifest["random"], about).encode()]
    files[f"{name}.hpp"] = [cpp_wrapper(interface, about).encode()]
    files[f"{name}.rs"] = [rust_wrapper(interface, about).encode()]
    if library.weights:
        files[f"{name}.weights"] = library.weights
    manifest = {**library.manifest, "library": kind, "files": sorted([*files, f"{name}.json"])}
    files[f"{name}.json"] = [json.dumps(manifest, indent=1).encode() + b"\n"]
    return files
