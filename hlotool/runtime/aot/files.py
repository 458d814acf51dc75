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
    name, threads = interface.name, library.threads
    about = f"Written by hlotool {__version__}; see {name}.json for what it was made of."
    files: dict[str, Sequence[bytes]] = {}
    match kind:
        case "static":
            path = f"{name}.lib" if "windows" in triple else f"lib{name}.a"
            members: dict[str, tuple[bytes, Sequence[str]]] = {"library.o": (library.object, library.offered)}
            if threads is not None:
                members["threads.o"] = (threads.object, threads.offered)
            files[path] = [archive(members)]
        case "object":
            files[f"{name}.o"] = [library.object]
            if threads is not None:
                files[f"{name}_threads.o"] = [threads.object]
        case _:
            objects = [library.object, *([threads.object] if threads is not None else ())]
            files[shared_name(name, triple)] = [linked(objects, name, triple)]
            files[f"{name}.py"] = [python_wrapper(interface, 0 if threads is None else threads.bytes).encode()]
    weights = library.manifest["weights"]
    size = weights["bytes"] if weights else 0
    files[f"{name}.h"] = [header(interface, size, library.manifest["random"], threads, about).encode()]
    files[f"{name}.hpp"] = [cpp_wrapper(interface, about).encode()]
    files[f"{name}.rs"] = [rust_wrapper(interface, about).encode()]
    if library.weights:
        files[f"{name}.weights"] = library.weights
    manifest = {**library.manifest, "library": kind, "files": sorted([*files, f"{name}.json"])}
    files[f"{name}.json"] = [json.dumps(manifest, indent=1).encode() + b"\n"]
    return files
