"""Wrappers of a library in C++ and Rust, where each entry takes spans and slices of the right types, and in Python."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.runtime.aot.errors import CODES
from hlotool.runtime.aot.header import c_type, elements, shape_words, template
from hlotool.runtime.aot.identifiers import Names
from hlotool.runtime.aot.interface import Array, Entry, Interface

__all__ = ["cpp_wrapper", "python_wrapper", "rust_wrapper"]

_COUNT = list(CODES).index("COUNT")


def python_wrapper(interface: Interface, threads: int) -> str:
    """A module of Python, which reads what there is from the library; `threads` are the bytes of a pool."""
    return template("wrapper.py.in", NAME=interface.name, THREADS=threads)


# ---- C++


def cpp_wrapper(interface: Interface, about: str) -> str:
    """A header of C++20."""
    entries = "\n".join(_cpp_entry(interface.name, entry) for entry in interface.entries)
    return template("wrapper.hpp", NAME=interface.name, BIG=interface.name.upper(), ABOUT=about, ENTRIES=entries)


def _cpp_entry(name: str, entry: Entry) -> str:
    parameters = [_cpp_parameter(array, not array.overwritten) for array in entry.arguments]
    parameters += [_cpp_parameter(array, False) for array in entry.results if array.alias < 0]
    given = ", ".join(f"{array.identifier}.data()" for array in entry.arguments)
    taken = ", ".join(f"{array.identifier}.data()" if array.alias < 0 else "nullptr" for array in entry.results)
    call = f"{name}_{entry.name}({'given' if given else 'nullptr'}, {'taken' if taken else 'nullptr'}, "
    lines = [
        "", f"// {_comment(entry)}  Not for two threads at once: each has one of its own.", f"class {entry.name} {{",
        "public:",
        f"  explicit {entry.name}(const hlo_context *context = nullptr)",
        "      : workspace_(detail::aligned(workspace_bytes)), context_(context) {}", "",
        f"  static constexpr std::size_t workspace_bytes = {entry.workspace_bytes};", "",
        f"  void operator()({', '.join(parameters)}) {{",
        *([f"    const void *const given[] = {{{given}}};"] if given else []),
        *([f"    void *const taken[] = {{{taken}}};"] if taken else []),
        f"    if (std::int32_t code = {call}workspace_.get(), workspace_bytes, context_))", "      throw error(code);",
        "  }", "", "private:", "  detail::workspace workspace_;", "  const hlo_context *context_;", "};",
    ]  # fmt: skip
    return "\n".join(lines)


def _cpp_parameter(array: Array, is_constant: bool) -> str:
    kind = {"c64": "std::complex<float>", "c128": "std::complex<double>"}.get(array.shape.element_type)
    own = c_type(array)
    kind = kind or (f"std::{own}" if own.endswith("_t") else own)
    return f"std::span<{'const ' * is_constant}{kind}, {array.shape.size}> {array.identifier}"


# ---- Rust


def rust_wrapper(interface: Interface, about: str) -> str:
    """A module of Rust."""
    names = Names()
    for taken in ("Context", "Task", "Error", "Line", "Weights"):
        names(taken)
    extern = "\n".join(
        f"    fn {interface.name}_{entry.name}(arguments: *const *const c_void, results: *const *mut c_void, "
        "workspace: *mut c_void, bytes: usize, context: *const Context) -> i32;"
        for entry in interface.entries
    )
    entries = "\n".join(_rust_entry(interface.name, entry, names) for entry in interface.entries)
    return template("wrapper.rs", NAME=interface.name, ABOUT=about, EXTERN=extern, ENTRIES=entries)


def _rust_entry(name: str, entry: Entry, names: Names) -> str:
    own = names("".join(part.capitalize() for part in entry.name.split("_")))
    kept = [array for array in entry.results if array.alias < 0]
    parameters = [f"{a.identifier}: &{'mut ' * a.overwritten}[{_rust_type(a)}]" for a in entry.arguments]
    parameters += [f"{a.identifier}: &mut [{_rust_type(a)}]" for a in kept]
    lengths = " || ".join(f"{a.identifier}.len() != {elements(a)}" for a in (*entry.arguments, *kept))
    given = (f"{a.identifier}.as_{'mut_' * a.overwritten}ptr().cast()" for a in entry.arguments)
    taken = (
        f"{a.identifier}.as_mut_ptr().cast()" if a.alias < 0 else "std::ptr::null_mut()" for a in entry.results
    )
    lines = [
        "", f"/// {_comment(entry)}", f"pub struct {own}<'a> {{", "    workspace: Vec<Line>,", "    context: Context,",
        "    kept: std::marker::PhantomData<&'a Weights>,", "}", "", f"impl<'a> {own}<'a> {{",
        f"    pub const WORKSPACE_BYTES: usize = {entry.workspace_bytes};", "",
        "    pub fn new(weights: Option<&'a Weights>) -> Self {",
        "        let weights = weights.map_or(std::ptr::null(), |found| found.lines.as_ptr().cast());",
        "        let context = Context { weights, ..Default::default() };",
        "        unsafe { Self::with_context(context) }", "    }", "",
        "    /// # Safety", "    /// All that is not null in the context has to be what the header says.",
        "    pub unsafe fn with_context(context: Context) -> Self {",
        "        let workspace = lines(Self::WORKSPACE_BYTES);",
        f"        {own} {{ workspace, context, kept: std::marker::PhantomData }}", "    }", "",
        "    #[allow(clippy::too_many_arguments)]",
        f"    pub fn call(&mut self, {', '.join(parameters)}) -> Result<(), Error> {{".replace("self, )", "self)"),
        *([f"        if {lengths} {{", f"            return Err(Error {{ code: {_COUNT} }});", "        }"]
          if lengths else []),
        f"        let given: [*const c_void; {len(entry.arguments)}] = [{', '.join(given)}];",
        f"        let taken: [*mut c_void; {len(entry.results)}] = [{', '.join(taken)}];",
        "        let workspace = self.workspace.as_mut_ptr().cast();",
        f"        checked(unsafe {{ {name}_{entry.name}(given.as_ptr(), taken.as_ptr(), workspace, "
        "Self::WORKSPACE_BYTES, &self.context) })", "    }", "}",
    ]  # fmt: skip
    return "\n".join(lines)


def _rust_type(array: Array) -> str:
    kind = c_type(array)
    return {"float": "f32", "double": "f64"}.get(kind) or kind.removesuffix("_t").replace("uint", "u").replace(
        "int", "i"
    )


def _comment(entry: Entry) -> str:
    def words(arrays: Sequence[Array]) -> str:
        return ", ".join(shape_words(array) for array in arrays) or "nothing"

    module = "".join(c if c.isprintable() and c != "\\" else "?" for c in entry.source.module.name)
    return f"{module}: from {words(entry.arguments)} to {words(entry.results)}."


