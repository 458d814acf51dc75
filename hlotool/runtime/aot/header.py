"""The C header of a library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from string import Template

from hlotool.ir import element_type
from hlotool.runtime.aot.errors import CODES, MISSING
from hlotool.runtime.aot.interface import Array, Entry, Interface
from hlotool.runtime.aot.threads import Threads

__all__ = ["abi", "c_type", "elements", "header", "shape_words", "template"]

_TYPES = {
    "f32": "float", "f64": "double", "c64": "float", "c128": "double", "pred": "uint8_t",
    "f16": "uint16_t", "bf16": "uint16_t",
}  # fmt: skip

_MOST_PARAMETERS = 120
"""Of a function; the standard promises 127."""


def template(name: str, **values: object) -> str:
    """The text of ``templates/<name>`` with `values` in place of ``${NAMES}``."""
    text = files("hlotool.runtime.aot").joinpath("templates", name).read_text(encoding="utf-8")
    return Template(text).substitute(values)


def c_type(array: Array) -> str:
    """The type of an element in C; complex ones are two."""
    name = array.shape.element_type
    if name in _TYPES:
        return _TYPES[name]
    row = element_type(name)
    return f"{'int' if row.kind == 'signed' else 'uint'}{max(8, row.bits)}_t"


def elements(array: Array) -> int:
    """How many of that type an array has."""
    return array.shape.size * (2 if element_type(array.shape.element_type).is_complex else 1)


def shape_words(array: Array) -> str:
    return f"{array.shape.element_type}[{','.join(map(str, array.shape.dimensions))}]"


def abi() -> str:
    """What all libraries have in common."""
    codes = "\n".join(f"  HLO_{name} = {number}, /* {text} */" for number, (name, text) in enumerate(CODES.items()))
    return template("abi.h", CODES=codes, MISSING=MISSING)


def header(interface: Interface, weights_bytes: int, random: Sequence[int], threads: Threads | None, about: str) -> str:
    """The header of a library; `about` says in a line what made it."""
    name = interface.name
    big = name.upper()
    words = [f"UINT64_C({word})" for word in random]
    lines = [
        f"/* {about} */", "", f"#ifndef HLO_LIBRARY_{big}", f"#define HLO_LIBRARY_{big}", "", abi(),
        "#ifdef __cplusplus", 'extern "C" {', "#endif", "",
        f"/* What the library is: entries, their arguments and results. */\nconst hlo_library *{name}_library(void);",
        f"/* What a code says. */\nconst char *{name}_message(int32_t code);",
        "/* Whether these bytes, the whole file, are weights of this library: HLO_OK, or what is wrong. */",
        f"int32_t {name}_weights_check(const void *weights, size_t bytes);",
        f"#define {big}_WEIGHTS_BYTES {weights_bytes} /* of the file; 0: there is none */",
        *_functions(interface),
        f"#define {big}_RANDOM_WORDS {len(random)} /* of the state of random numbers; 0: there are none */",
        *([f"#define {big}_RANDOM {{{', '.join(words)}}} /* at first */"] if random else []),
        *_threads(name, threads),
        "",
    ]  # fmt: skip
    for entry in interface.entries:
        lines += _entry(interface.name, entry)
    lines += ["#ifdef __cplusplus", "}", "#endif", "", "#endif"]
    return "\n".join(lines) + "\n"


def _functions(interface: Interface) -> Iterator[str]:
    big = interface.name.upper()
    yield f"#define {big}_FUNCTIONS {len(interface.functions)} /* that contexts have to offer */"
    for number, name in enumerate(interface.functions):
        yield f"/* {number}: {_comment(name)} */"


def _threads(name: str, threads: Threads | None) -> Iterator[str]:
    if threads is None:
        return
    yield "/* Threads, for callers that have none: a pool in memory of theirs, aligned to HLO_ALIGNMENT, that stays"
    yield "   where it is, for `threads` of contexts; the two functions in the middle are for the other two fields. */"
    yield f"#define {name.upper()}_THREADS_BYTES {threads.bytes}"
    yield f"int32_t {name}_threads_start(void *memory, size_t bytes, uint32_t threads);"
    for word in ("run", "run_short"):
        yield f"void {name}_threads_{word}(void *threads, hlo_task *task, void *arguments, int64_t tasks);"
    yield f"void {name}_threads_stop(void *memory);"


def _entry(name: str, entry: Entry) -> Iterator[str]:
    prefix = f"{name}_{entry.name}".upper()
    yield f"/* ---- {entry.name}: {_comment(entry.source.module.name)} of {_comment(entry.source.file)} */"
    yield ""
    yield f"int32_t {name}_{entry.name}(const void *const *arguments, void *const *results, void *workspace,"
    yield "    size_t workspace_bytes, const hlo_context *context);"
    yield f"#define {prefix}_WORKSPACE_BYTES {entry.workspace_bytes}"
    yield f"#define {prefix}_ARGUMENTS {len(entry.arguments)}"
    yield f"#define {prefix}_RESULTS {len(entry.results)}"
    yield ""
    for word, arrays in (("ARG_", entry.arguments), ("", entry.results)):
        for number, array in enumerate(arrays):
            own = f"{prefix}_{word}{array.identifier}".upper()
            yield f"#define {own} {number} /* {_comment(array.name)}: {shape_words(array)}{_note(word, array)} */"
            yield f"#define {own}_SIZE {elements(array)}"
            yield f"#define {own}_BYTES {array.bytes}"
            if array.shape.rank:
                yield f"#define {own}_DIMENSIONS {{{', '.join(map(str, array.shape.dimensions))}}}"
    yield ""
    if len(entry.arguments) + len(entry.results) <= _MOST_PARAMETERS:
        yield from _typed(name, entry)


def _note(word: str, array: Array) -> str:
    if array.alias >= 0:
        return f", in the memory of argument {array.alias}" if not word else f", becomes result {array.alias}"
    return ", overwritten" if array.overwritten else ""


def _typed(name: str, entry: Entry) -> Iterator[str]:
    """A function with a parameter for each array."""
    given, taken, parameters = [], [], []
    for array in entry.arguments:
        qualified = c_type(array) if array.overwritten else f"const {c_type(array)}"
        parameters.append(f"{qualified} *{array.identifier}")
        given.append(array.identifier)
    for array in entry.results:
        if array.alias < 0:
            parameters.append(f"{c_type(array)} *{array.identifier}")
        taken.append("NULL" if array.alias >= 0 else array.identifier)
    parameters += ["void *workspace", "const hlo_context *context"]
    yield f"/* The same with a parameter for each array. */\nstatic inline int32_t {name}_{entry.name}_arrays("
    yield "    " + ",\n    ".join(parameters) + ") {"
    if given:
        yield f"  const void *const given[] = {{{', '.join(given)}}};"
    if taken:
        yield f"  void *const taken[] = {{{', '.join(taken)}}};"
    yield (
        f"  return {name}_{entry.name}({'given' if given else 'NULL'}, {'taken' if taken else 'NULL'}, workspace, "
        f"{name.upper()}_{entry.name.upper()}_WORKSPACE_BYTES, context);\n}}"
    )
    yield ""


def _comment(text: str) -> str:
    """Text inside of a comment."""
    return text.replace("*/", "* /").replace("\n", " ").replace("\\", "/")
