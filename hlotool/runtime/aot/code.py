"""The object of a library: the code of its programs, as a process would load it, and what is around that.

All texts become one module of LLVM, in which nothing can be seen from outside but the interface: two libraries in one
program do not know of each other, and calls inside of one are as short as can be.  Each function says itself which
processor it is for, so that several fit in one object, beside what runs before the processor is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hlotool.codegen.kernel import is_promoted
from hlotool.codegen.llvm.status import COMPLETE, STOPPED
from hlotool.codegen.llvm.writer import with_variables
from hlotool.codegen.machine import Machine
from hlotool.codegen.program import Program
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.aot.errors import CODES, MISSING
from hlotool.runtime.aot.interface import ALIGNMENT, Entry, Interface
from hlotool.runtime.aot.mathematics import mathematics
from hlotool.runtime.aot.metadata import bytes_text, metadata_text
from hlotool.runtime.aot.processors import baseline, processor_text
from hlotool.runtime.aot.reflection import reflection_text
from hlotool.runtime.aot.weights import HEAD, MAGIC, MULTIPLIERS, VERSION_AND_ORDER
from hlotool.runtime.cache import compiler_identity, default_cache, objects_of
from hlotool.runtime.native_text import native_text
from hlotool.runtime.object_code import CodeError, with_attributes, with_header
from hlotool.runtime.promotion import promote
from hlotool.runtime.target_machines import target_machine

if TYPE_CHECKING:
    from llvmlite import binding

__all__ = ["Code", "code_texts", "object_with", "offered", "table_of"]

_ERRORS = {name: number for number, name in enumerate(CODES)}
_RANDOM = """  %status_at = getelementptr i64, ptr %args, i64 -1
  %status = load ptr, ptr %status_at
  %random_at = getelementptr i64, ptr %status, i64 4
  %random = load ptr, ptr %random_at
  %word = getelementptr i64, ptr %random, i64 {word}
  ret ptr %word"""
_HOST = re.compile(r"@(hlo_host_[0-9]+)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A library's `interface` and what it computes with: for each of `machines` the programs of all entries.

    All have the same `constants`, which are in a file of their own if it is `external`; that is for code named `code`.
    `texts` are those of `code_texts`, with the first state of `random` numbers.
    """

    interface: Interface
    machines: tuple[Machine, ...]
    programs: tuple[tuple[Program, ...], ...]
    constants: npt.NDArray[np.uint8]
    external: bool
    code: bytes
    texts: tuple[tuple[str, ...], ...]
    random: tuple[int, ...]


def code_texts(programs: Sequence[Program], machine: Machine, level: int, random: list[int]) -> list[str]:
    """The texts of the programs for one processor; what they call of their host has names of its own.

    The variables of kernels become words of the state of random numbers, whose first values are added to `random`.
    """

    def place(first: int) -> str:
        random.append(first)
        return _RANDOM.format(word=len(random) - 1)

    vectors = f"vscale_range({machine.vscale},{machine.vscale}) " if machine.vscale else ""
    features = f'attributes #0 = {{ {vectors}"target-cpu"="{machine.cpu}" "target-features"="{machine.features}" }}\n'
    texts = (with_variables(_HOST.sub(rf"@\1.{level}", text), place) for text in programs[0].texts)
    return [with_attributes(text, "#0") + features for text in texts]


def object_with(code: Code, about: Mapping[str, object]) -> tuple[bytes, list[str]]:
    """The object, in whose metadata is what is said `about` it; and the names of its functions of programs.

    It is taken from the cache where it is there.  CodeError has LLVM's message where it does not take a text.
    """
    machine, more = baseline(code.machines[0]), dict[str, str]()
    for texts, own in zip(code.texts, code.machines, strict=True):
        more |= mathematics(texts, own)
    around = _around(code, metadata_text(machine, about, ()), more.values())  # says all that is not in the texts

    def make(_: Sequence[str]) -> list[bytes]:
        data, functions = _made(code, about, machine, more.values())
        return [data, "\n".join(functions).encode()]

    whole = [text for texts in code.texts for text in texts]
    maker = str(sorted(compiler_identity().items()))  # what is done here is in no text
    data, functions = objects_of([*whole, around, maker], machine, default_cache(), make)
    return data, functions.decode().split("\n")


def _made(
    code: Code, about: Mapping[str, object], machine: Machine, more: Collection[str]
) -> tuple[bytes, list[str]]:
    try:
        # A target machine of its own: LLVM's remembers, by their addresses, which globals of modules before were used,
        # and would give those of this module that lie there sections of their own.
        target = target_machine(machine)
        with _parser(target) as parsed:
            levels = []
            for level, programs in enumerate(code.programs):
                module = _linked([parsed(text) for text in code.texts[level]])
                _hide(module, [program.entry for program in programs], f".{level}" if len(code.machines) > 1 else "")
                levels.append(module)
            functions = [f.name for module in levels for f in module.functions if not f.is_declaration]
            whole = _linked([parsed(_around(code, metadata_text(machine, about, functions), more)), *levels])
            _hide(whole, [*offered(code.interface), table_of(code.interface)])
            if "windows" in machine.triple:
                for name in offered(code.interface):
                    whole.get_function(name).storage_class = "dllexport"
            whole.verify()
            return bytes(target.emit_object(whole)), functions
    except RuntimeError as error:
        raise CodeError(str(error)) from error


@contextmanager
def _parser(target: binding.TargetMachine) -> Iterator[Callable[[str], binding.ModuleRef]]:
    """Gives modules of texts in one context; they end before it does."""
    from llvmlite import binding

    context, modules = binding.create_context(), list[Any]()

    def parsed(text: str) -> binding.ModuleRef:
        modules.append(binding.parse_assembly(with_header(text, target), context))
        if is_promoted(text):
            promote(modules[-1], target)
        return modules[-1]

    try:
        yield parsed
    finally:
        for module in modules:
            module.close()
        context.close()


def _linked(modules: Sequence[binding.ModuleRef]) -> binding.ModuleRef:
    first, *others = modules
    for other in others:
        first.link_in(other)
    return first


def _hide(module: binding.ModuleRef, offered: Iterable[str], suffix: str = "") -> None:
    """Let nothing be seen from outside but `offered`; the names of other functions end with `suffix`."""
    kept = set(offered)
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name not in kept and not value.name.startswith("llvm."):
            value.linkage = "internal"
            if value.is_function:
                value.name += suffix


def offered(interface: Interface) -> list[str]:
    """The functions that a library offers."""
    names = (*(entry.name for entry in interface.entries), "library", "message", "weights_check")
    return [f"{interface.name}_{name}" for name in names]


def table_of(interface: Interface) -> str:
    """The table of functions for contexts that libraries for WebAssembly have, where functions of the embedder are
    no addresses: all of them are the one that the module imports."""
    return f"{interface.name}__functions"


# ---- what is around the code


def _around(code: Code, metadata: str, more: Iterable[str]) -> str:
    """The text of what is around the code, with that of its `metadata`, and `more` that it calls."""
    interface, machine = code.interface, code.machines[0]
    errors = {name: number for name, number in _ERRORS.items() if name != "STOPPED"}
    size_type = "i32" if machine.is_wasm else "i64"
    values = {**errors, "NAME": interface.name, "LESS": ALIGNMENT - 1, "SIZE_TYPE": size_type}
    library = native_text(
        "library", **values, STOPPED_ERROR=_ERRORS["STOPPED"], COMPLETE=COMPLETE, STOPPED=STOPPED, MISSING=MISSING,
        RANDOM_BYTES=8 * len(code.random),
    )
    size = len(code.constants) if code.external else 0
    texts = [
        *more,
        library,
        reflection_text(
            interface, size and size + HEAD, code.random, "ptr null" if machine.is_wasm else "ptr @metadata"
        ),
        processor_text(code.machines),
        _constants(code, values),
        metadata,
        f"define ptr @{interface.name}_library() nounwind {{\n  ret ptr @library\n}}",
    ]
    for number, entry in enumerate(interface.entries):
        own = [row[number] for row in code.programs]
        texts.append(_way_in(interface.name, number, entry, own, size_type))
    if machine.is_wasm and interface.functions:
        texts.append(_imported(interface))
    return "\n".join(texts) + "\n"


def _constants(code: Code, values: Mapping[str, object]) -> str:
    size = len(code.constants)
    if not code.external:
        data = f"@constants = internal constant {bytes_text(code.constants.tobytes())}, align {ALIGNMENT}\n"
        return data + native_text("library_constants", **values)
    first, second = (int.from_bytes(code.code[at : at + 8], "little") for at in (0, 8))
    multipliers = {f"M{number}": value for number, value in enumerate(MULTIPLIERS)}
    return native_text(
        "library_weights", **values, **multipliers, MAGIC=MAGIC, VERSION=VERSION_AND_ORDER, SIZE=size, FIRST=first,
        SECOND=second, HEAD=HEAD, FILE=size + HEAD, WORDS=size // 8,
    )  # fmt: skip


def _way_in(name: str, number: int, entry: Entry, programs: Sequence[Program], size_type: str) -> str:
    rows = [f"%code {{ ptr @{program.entry}, i64 {program.assignment.arena_bytes} }}" for program in programs]
    codes = f"@codes_{number} = internal constant [{len(rows)} x %code] [{', '.join(rows)}]"
    declared = [f"declare void @{program.entry}(ptr)" for program in programs]
    shares = str(any(array.alias >= 0 for array in entry.results)).lower()
    own = f"ptr getelementptr (%entry, ptr @entries, i64 {number}), i1 {shares}"
    given = "ptr %arguments, ptr %results, ptr %workspace, i64 %bytes, ptr %context"
    wide = size_type == "i64"
    taken = given if wide else given.replace("i64 %bytes", f"{size_type} %size")
    function = [
        f"define i32 @{name}_{entry.name}({taken}) nounwind {{",
        *([] if wide else [f"  %bytes = zext {size_type} %size to i64"]),
        f"  %error = tail call i32 @enter({own}, ptr @codes_{number}, {given})", "  ret i32 %error", "}",
    ]  # fmt: skip
    return "\n".join([codes, *declared, *function])


def _imported(interface: Interface) -> str:
    """The table of functions for contexts, and what it has: the one that the module imports."""
    count = len(interface.functions)
    return (
        'declare i32 @hlo_called(ptr, ptr, ptr) "wasm-import-module"="hlotool" "wasm-import-name"="call"\n'
        f"@{table_of(interface)} = constant [{count} x ptr] [{', '.join(['ptr @hlo_called'] * count)}]"
    )
