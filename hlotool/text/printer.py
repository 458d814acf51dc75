"""The printer: HLO text in XLA's default form.

With the default options everything is printed that is needed to read back the same module, constants in full.
The output is a function of the module alone: equal modules print equal bytes.
"""

from __future__ import annotations

from typing import Any

from hlotool.ir import (
    COMMON_ATTRIBUTES,
    OPCODES,
    UNKNOWN,
    WRITTEN,
    Attribute,
    Computation,
    HloError,
    Instruction,
    Literal,
    Module,
    Verbatim,
    row_major,
)
from hlotool.ir.given import check_module
from hlotool.lazy_dataclass import dataclass
from hlotool.text.header import HEADER_ATTRIBUTES
from hlotool.text.lexer import escape
from hlotool.text.print_shapes import listed, print_literal, print_shape
from hlotool.text.writers import WRITERS, write_aliasing, write_metadata, write_string

__all__ = [
    "SHORT",
    "PrintOptions",
    "print_attribute",
    "print_computation",
    "print_header_attribute",
    "print_instruction",
    "print_literal",
    "print_module",
    "print_shape",
]


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """What to print.  Anything but the defaults of `metadata` and what follows may not read back as the same module."""

    percent: bool = False  # %name
    operand_shapes: bool = False  # add(f32[] a, f32[] b)
    signatures: bool = False  # (p: f32[]) -> f32[] in computation headers
    index_comments: bool = True  # /*index=5*/ in long lists
    metadata: bool = True
    backend_config: bool = True
    layouts: bool = True
    elide_above: int | None = None  # constants of more elements become {...}
    annotations: bool = True  # sharding, frontend attributes, control predecessors and the like
    operand_comments: bool = False  # /*index=5*/ in operand lists too
    xla: bool = False  # digits, spaces and comments of literals as in XLA
    nested: bool = False  # bodies in place of the names of called computations; the entry alone stands at the top
    names: bool = True  # of the module and of computations


SHORT = PrintOptions(metadata=False, backend_config=False, annotations=False)
"""For people: what the program computes, without where it came from."""

_DEFAULT = PrintOptions()


def print_module(module: Module, options: PrintOptions = _DEFAULT) -> str:
    """The text of a module, ending in a line break."""
    check_module(module, "print_module")
    head = [f"HloModule {module.name if options.names else 'module'}"]
    for name, row in HEADER_ATTRIBUTES.items():
        if name in module.attributes:
            head.append(f"{name}={_header_value(row, module.attributes[name], options)}")
    unknown = [name for name in module.attributes if name.startswith(WRITTEN)]
    head += [f"{name.removeprefix(WRITTEN)}={print_header_attribute(module, name, options)}" for name in unknown]
    parts = [", ".join(head)]
    if module.stack_frames is not None and options.metadata:
        parts.append(_tables(module) + ("\n" if options.xla else ""))
    shown = [module.entry] if options.nested else list(module.computations.values())
    parts += [print_computation(c, options, c is module.entry) for c in shown]
    return "\n\n".join(parts) + "\n"


def print_header_attribute(module: Module, name: str, options: PrintOptions = _DEFAULT) -> str:
    """The value of one attribute as `print_module` writes it, which must be there."""
    value = module.attributes[name]
    if name.startswith(WRITTEN):
        return str(value.text)
    return _header_value(HEADER_ATTRIBUTES[name], value, options)


def print_computation(computation: Computation, options: PrintOptions = _DEFAULT, entry: bool = False) -> str:
    """A computation with its braces, without a final line break."""
    sign = "%" if options.percent else ""
    head = ("ENTRY " if entry else "") + sign + (computation.name if options.names else "main")
    if options.signatures:
        given = [f"{p.name}: {print_shape(p.shape, False)}" for p in computation.parameters]
        head += f" ({', '.join(given)}) -> {print_shape(computation.root.shape, False)}"
    body = _body(computation, options, "")
    thread = computation.execution_thread
    return f"{head} {body}" if thread is None else f'{head} {body}, execution_thread="{escape(thread)}"'


def _body(computation: Computation, options: PrintOptions, indent: str) -> str:
    """The braces of a computation; its instructions stand two columns further in than `indent`."""
    root = computation.root
    lines = [
        f"{indent}  {'ROOT ' if one is root else ''}{print_instruction(one, options, indent + '  ')}"
        for one in computation
    ]
    return "\n".join(["{", *lines, f"{indent}}}"])


def print_instruction(instruction: Instruction, options: PrintOptions = _DEFAULT, indent: str = "  ") -> str:
    """One instruction on one line, without ROOT; `indent` is where nested bodies begin."""
    sign = "%" if options.percent else ""
    shape = print_shape(instruction.shape, options.layouts, options.index_comments)
    typed = f"{shape} " if shape else ""
    opcode = instruction.opcode if instruction.opcode != UNKNOWN else instruction.written
    text = f"{sign}{instruction.name} = {typed}{opcode}({_operands(instruction, opcode, options)})"
    rows = OPCODES.get(opcode, OPCODES[UNKNOWN])
    inside = ("parameter_number",) if opcode == "parameter" else ()
    inside = ("literal",) if opcode == "constant" else inside
    late: list[str] = []
    for name, value in instruction.attributes.items():
        if name in inside or name.startswith(WRITTEN):
            continue
        if name == "calls" and options.nested and opcode in ("async-update", "async-done"):
            continue  # the start has the body in place
        row = rows.attribute(name)
        if isinstance(value, Verbatim) and name not in COMMON_ATTRIBUTES:
            text += f", {name}={value.text}"
            continue
        if row is None:
            raise HloError(f"{instruction.name}: {instruction.opcode} has no attribute '{name}' in HLO text")
        if name in COMMON_ATTRIBUTES:
            late.append(name)
        else:
            text += f", {name}={_value(row, value, options, indent)}"
    return text + _common(instruction, late, options)


def print_attribute(instruction: Instruction, name: str, options: PrintOptions = _DEFAULT) -> str:
    """The value of one attribute as `print_instruction` writes it, which must be there."""
    value = instruction.attributes[name]
    row = OPCODES.get(instruction.opcode, OPCODES[UNKNOWN]).attribute(name)
    if name in ("parameter_number", "literal") and instruction.opcode in ("parameter", "constant"):
        return _operands(instruction, instruction.opcode, options)
    if isinstance(value, Verbatim):
        return value.text
    return str(value) if row is None else _value(row, value, options)


def _common(instruction: Instruction, names: list[str], options: PrintOptions) -> str:
    """The attributes that any instruction can have, in XLA's order."""
    text = ""
    for name, row in COMMON_ATTRIBUTES.items():
        if name == "control-predecessors":
            if name in names and options.annotations:
                text += f", {name}={instruction.attributes[name].text}"
            elif instruction.control_predecessors and options.annotations:
                sign = "%" if options.percent else ""
                text += f", {name}={{{', '.join(sign + b.name for b in instruction.control_predecessors)}}}"
        elif name == "metadata":
            if "metadata" in names and options.metadata:
                text += f", {name}={instruction.attributes[name].text}"
            elif instruction.metadata is not None and options.metadata:
                text += f", metadata={write_metadata(instruction.metadata)}"
        elif name in names and (options.backend_config if name == "backend_config" else options.annotations):
            text += f", {name}={_value(row, instruction.attributes[name], options)}"
    return text


def _operands(instruction: Instruction, opcode: str, options: PrintOptions) -> str:
    if opcode == "parameter":
        return str(instruction.parameter_number)
    written = instruction.attributes.get(f"{WRITTEN}operands")
    if written is not None:
        return str(written.text)
    if opcode == "constant":
        return print_literal(instruction.literal, options.elide_above, options.xla)
    sign = "%" if options.percent else ""
    if options.operand_shapes:
        names = [f"{print_shape(o.shape, options.layouts)} {sign}{o.name}" for o in instruction.operands]
    else:
        names = [sign + operand.name for operand in instruction.operands]
    return listed(names, options.operand_comments)


# ---- attribute values


def _value(row: Attribute, value: Any, options: PrintOptions, indent: str = "") -> str:
    if isinstance(value, Verbatim):
        return value.text
    writer = WRITERS.get(row.kind)
    if writer is not None:
        return writer(value)
    sign = "%" if options.percent else ""
    if row.kind in ("computation", "computations"):
        called = value if row.kind == "computations" else (value,)
        words = [f"\n{indent}{_body(c, options, indent)}" if options.nested else sign + c.name for c in called]
        return f"{{{', '.join(words)}}}" if row.kind == "computations" else words[0]
    if row.kind == "literal":
        return _typed_literal(value, options)
    raise HloError(f"attribute '{row.name}' has no text form")


def _typed_literal(value: Literal, options: PrintOptions) -> str:
    """A literal after its shape; of a tuple those of its elements, in parentheses."""
    if value.shape.is_tuple:
        inside = ", ".join(_typed_literal(element, options) for element in value.elements)
        return f"( {inside} )" if options.xla else f"({inside})"
    shape = value.shape  # a brace after a shape without layout would be read as its layout
    if shape.layout is None:
        shape = shape.with_layout(row_major(shape.rank))
    return f"{print_shape(shape)} {print_literal(value, options.elide_above, options.xla)}"


def _header_value(row: Attribute, value: Any, options: PrintOptions) -> str:
    if row.kind == "entry_layout":
        parameters, result = value
        inside = listed([print_shape(s, options.layouts) for s in parameters])
        return f"{{({inside})->{print_shape(result, options.layouts)}}}"
    if row.kind == "flags":
        return str(value.text)
    if row.kind == "aliasing":
        return f"{{ {write_aliasing(value)[1:-1]} }}" if value else "{}"
    return _value(row, value, options)


def _tables(module: Module) -> str:
    """The tables of stack frames, each under its name."""
    frames = module.stack_frames
    if frames is None:
        return ""
    blocks = []
    for title, names in (("FileNames", frames.file_names), ("FunctionNames", frames.function_names)):
        if names:
            blocks.append("\n".join([title, *(f"{number} {write_string(name)}" for number, name in names)]))
    for title, rows in (("FileLocations", frames.file_locations), ("StackFrames", frames.frames)):
        if rows:
            inside = (f"{number} {{{' '.join(f'{k}={v}' for k, v in items)}}}" for number, items in rows)
            blocks.append("\n".join([title, *inside]))
    return "\n\n".join(blocks)
