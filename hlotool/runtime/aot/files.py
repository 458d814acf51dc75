"""The files of a library, by their names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from hlotool.codegen.machine import WASM
from hlotool.ir import UnsupportedError
from hlotool.runtime.aot.code import table_of
from hlotool.runtime.aot.demo import demo_page
from hlotool.runtime.aot.header import header
from hlotool.runtime.aot.interface import ALIGNMENT, Entry, Interface
from hlotool.runtime.aot.javascript import javascript_wrapper, typescript_declarations
from hlotool.runtime.aot.library import Library
from hlotool.runtime.aot.linker import linked, linked_wasm, shared_name
from hlotool.runtime.aot.wrappers import cpp_wrapper, python_wrapper, rust_wrapper
from hlotool.runtime.archive import archive
from hlotool.version import __version__

__all__ = ["KINDS", "files_of"]

KINDS = ("static", "object", "shared", "wasm")
_MOST_MEMORY = 1 << 32
"""Of a module of WebAssembly, whose addresses have 32 bits."""


def files_of(library: Library, kind: str, demo: bool = False) -> Mapping[str, Sequence[bytes]]:
    """What to write, in parts; `linked` and `linked_wasm` say what a shared library and WebAssembly take.

    WebAssembly may come with a page that runs it, as a `demo`.

    UnsupportedError for a library for WebAssembly of another kind, or that asks for more memory than it has.
    """
    if kind == "wasm":
        return _wasm_files(library, demo)
    interface, triple = library.interface, str(library.manifest["triple"])
    name, threads = interface.name, library.threads
    about = _about(interface)
    files: dict[str, Sequence[bytes]] = {}
    if triple.startswith("wasm32"):
        raise UnsupportedError(f"{triple}: libraries for WebAssembly are of the kind wasm, not {kind}")
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
    return _with_manifest(library, kind, files)


def _wasm_files(library: Library, demo: bool) -> Mapping[str, Sequence[bytes]]:
    interface, triple = library.interface, str(library.manifest["triple"])
    if not triple.startswith("wasm32"):
        raise UnsupportedError(f"{triple}: the kind wasm is for WebAssembly: the triple is {WASM}")
    weights, most = sum(map(len, library.weights)), max(map(_call_bytes, interface.entries))
    if weights + most + len(library.object) > _MOST_MEMORY - (16 << 20):  # the stack, and what is between
        raise UnsupportedError(f"weights of {weights:,} bytes and {most:,} of arrays exceed WebAssembly's 4 GiB")
    name, about = interface.name, _about(interface)
    exported = [*library.offered, "__heap_base", *([table_of(interface)] if interface.functions else ())]
    module, wrapper = linked_wasm(library.object, exported), javascript_wrapper(interface, about)
    files: dict[str, Sequence[bytes]] = {
        f"{name}.wasm": [module],
        f"{name}.mjs": [wrapper.encode()],
        f"{name}.d.mts": [typescript_declarations(interface, about).encode()],
    }
    if demo:
        files[f"{name}.html"] = [demo_page(interface, wrapper, module, b"".join(library.weights), about).encode()]
    return _with_manifest(library, "wasm", files)


def _call_bytes(entry: Entry) -> int:
    """The memory that a call takes."""
    return entry.workspace_bytes + sum(array.bytes + ALIGNMENT for array in (*entry.arguments, *entry.results))


def _about(interface: Interface) -> str:
    return f"Written by hlotool {__version__}; see {interface.name}.json for what it was made of."


def _with_manifest(library: Library, kind: str, files: dict[str, Sequence[bytes]]) -> Mapping[str, Sequence[bytes]]:
    name = library.interface.name
    if library.weights:
        files[f"{name}.weights"] = library.weights
    manifest = {**library.manifest, "library": kind, "files": sorted([*files, f"{name}.json"])}
    files[f"{name}.json"] = [json.dumps(manifest, indent=1).encode() + b"\n"]
    return files
