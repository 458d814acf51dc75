"""A shared library, or a module of WebAssembly, of an object, by whatever linker is there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from hlotool.codegen.machine import host
from hlotool.ir import ExecutionError, UnsupportedError

__all__ = ["has_c_compiler", "linked", "linked_program", "linked_wasm", "shared_name"]

_STACK = 1 << 20
"""Bytes of the stack in a module of WebAssembly; it lies below all else, so that what goes past its end is stopped."""


def shared_name(name: str, triple: str) -> str:
    """What a shared library is called on a system."""
    if "windows" in triple:
        return f"{name}.dll"
    return f"lib{name}.dylib" if "apple" in triple or "darwin" in triple else f"lib{name}.so"


def linked(objects: Sequence[bytes], name: str, triple: str) -> bytes:
    """The shared library of some objects.

    UnsupportedError names the ways to a linker where there is none for `triple`; ExecutionError has what one says.
    """
    output = shared_name(name, triple)
    command = next(_commands(triple), None)
    if command is None:
        raise UnsupportedError(
            f"no linker for {triple}: install a C compiler (cc), LLVM's linker (ld.lld) or pip install "
            "'hlotool[build]' (zig); or build --kind static and link that yourself"
        )
    files = {f"object{number}.o": data for number, data in enumerate(objects)}
    return _linked([*command, "-shared", "-o", output, *files, *_options(command, output, triple)], files, output)


def linked_wasm(data: bytes, exported: Sequence[str]) -> bytes:
    """The module of WebAssembly of an object: its memory can be seen from outside, and what is `exported`.

    Errors as for `linked`.
    """
    command = next(_wasm_commands(), None)
    if command is None:
        raise UnsupportedError(
            "no linker for WebAssembly: install LLVM's (wasm-ld, in Debian's package lld) or pip install "
            "'hlotool[build]' (zig)"
        )
    options = ["--no-entry", "--stack-first", "-z", f"stack-size={_STACK}", "-o", "linked.wasm", "object.o"]
    exports = [f"--export={name}" for name in exported]
    return _linked([*command, *exports, *options], {"object.o": data}, "linked.wasm")


def linked_program(objects: Sequence[bytes], files: Mapping[str, bytes], triple: str) -> bytes:
    """The program of the C source among `files` and some objects: one file that needs no other, whatever is installed.

    UnsupportedError names the ways to a compiler where there is none for `triple`; ExecutionError has what one says.
    """
    command = next(_compilers(triple), None)
    if command is None:
        raise UnsupportedError(f"no C compiler for {triple}: install one (cc), or pip install 'hlotool[build]' (zig)")
    if command[-2:-1] == ["-target"]:  # zig has one C library that can be linked in, musl
        command = [*command[:-1], command[-1].replace("-gnu", "-musl")]
    inputs = {**files, **{f"object{number}.o": data for number, data in enumerate(objects)}}
    sources = [name for name in inputs if name.endswith((".c", ".o"))]
    options = ["-std=gnu11", "-O2", "-s", "-static", "-pthread", "-Wl,--build-id=none"]
    return _linked([*command, *options, "-o", "program", *sources], inputs, "program")


def has_c_compiler(triple: str) -> bool:
    """Whether `linked_program` has what it takes."""
    return next(_compilers(triple), None) is not None


def _compilers(triple: str) -> Iterator[list[str]]:
    return (command for command in _commands(triple) if command != ["ld.lld"])


def _linked(words: Sequence[str], files: Mapping[str, bytes], output: str) -> bytes:
    """What a command makes of files, in a folder of its own."""
    with TemporaryDirectory() as folder:
        for name, data in files.items():
            (Path(folder) / name).write_bytes(data)
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
        path = Path(folder) / output
        if done.returncode or not path.is_file():
            raise ExecutionError(f"{' '.join(words)} failed: {(done.stderr or done.stdout).strip()}")
        return path.read_bytes()


def _wasm_commands() -> Iterator[list[str]]:
    if shutil.which("wasm-ld"):
        yield ["wasm-ld"]
    if find_spec("ziglang") is not None:
        yield [sys.executable, "-m", "ziglang", "wasm-ld"]


def _commands(triple: str) -> Iterator[list[str]]:
    """Linkers for a system, the usual one first."""
    architecture, _, system = triple.partition("-")
    own_architecture, _, own_system = host().triple.partition("-")
    own = (architecture, "linux" in system) == (own_architecture, "linux" in own_system)
    names = ["cc", "gcc", "clang"] if own else [f"{architecture}-linux-gnu-gcc"] if "linux" in system else []
    for name in names:
        if shutil.which(name):
            yield [name]
    if "linux" in system and shutil.which("ld.lld"):
        yield ["ld.lld"]
    if find_spec("ziglang") is not None:
        yield [sys.executable, "-m", "ziglang", "cc", "-target", _zig_target(triple)]


def _zig_target(triple: str) -> str:
    """A triple as zig calls it: without the vendor."""
    parts = [part for part in triple.split("-") if part not in ("unknown", "pc", "apple")]
    return "-".join(parts).replace("darwin", "macos")


def _options(command: list[str], output: str, triple: str) -> list[str]:
    """Options that give a library its name and threads, and nothing of the place or time that it was made at."""
    if "windows" in triple or output.endswith(".dylib"):
        return []
    options = ["-soname", output, "--build-id=none"]
    if command == ["ld.lld"]:
        return options
    return ["-pthread", f"-Wl,{','.join(options)}"]
