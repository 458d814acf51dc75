"""What is said about a word that the pointer rests on: Markdown."""

from __future__ import annotations

from hlotool.analysis.cost import Cost
from hlotool.analysis.value_ranges import Range
from hlotool.ir import (
    COMMON_ATTRIBUTES,
    ELEMENT_TYPES,
    OPCODES,
    UNBOUNDED,
    Attribute,
    HloError,
    Instruction,
    Opcode,
    Shape,
)
from hlotool.ir.elementwise import ELEMENTWISE_OPCODES
from hlotool.lsp.document import Document
from hlotool.lsp.known import Found, Known
from hlotool.lsp.meanings import ATTRIBUTES, HEADER
from hlotool.lsp.meanings import OPCODES as MEANINGS
from hlotool.lsp.navigation import definition
from hlotool.lsp.scan import NOWHERE, Part
from hlotool.text.parser import parse_shape
from hlotool.text.printer import PrintOptions, print_instruction, print_shape

__all__ = ["attribute_text", "hover", "opcode_text"]

_LINE = PrintOptions(metadata=False, annotations=False, backend_config=False, elide_above=16, index_comments=False)
_MOST = 300  # characters of an instruction that are shown
_UNITS = ("", "k", "M", "G", "T", "P", "E")


def hover(document: Document, known: Known | None, part: Part) -> str | None:
    """What to say about a part of the text; None where there is nothing to say."""
    if part.kind in ("definition", "operand", "signature"):
        return _instruction_text(document, known, part)
    if part.kind in ("computation", "called"):
        return _computation_text(document, known, part)
    word = document.word(part)
    if part.kind == "opcode":
        return opcode_text(word)
    if part.kind == "attribute":
        statement = document.statement_at(part.start)
        return attribute_text(word, statement.opcode if statement is not None else "", part.scope == NOWHERE)
    if part.kind == "shape":
        return _shape_text(word)
    return None


# ---- instructions


def _instruction_text(document: Document, known: Known | None, part: Part) -> str | None:
    found = known.instruction(document, part) if known is not None else None
    if found is None:
        place = definition(document, part)
        statement = document.statement_at(place.start) if place is not None else None
        if statement is None:
            return None
        return _code(_cut(document.text[statement.start : statement.end]))
    instruction = found.instruction
    lines = [f"- {name}: {text}" for name, text in _facts(found) if text]
    return "\n".join([_code(_cut(print_instruction(instruction, _LINE))), "", *lines])


def _facts(found: Found) -> list[tuple[str, str]]:
    """What is known of an instruction, by name."""
    instruction, facts = found.instruction, found.facts
    users = len(instruction.users)
    read_by = ", ".join(f"`{user.name}`" for user in list(instruction.users)[:4])
    root = "the root" if instruction.is_root else ""
    read_by += ", …" if users > 4 else ""
    rows = [
        ("shape", _shape_words(instruction.shape)),
        ("cost", cost_words(facts.cost.of(instruction)) if facts.is_valid else ""),
        ("values", _range_words(instruction, facts.range_of(instruction)) if facts.is_valid else ""),
        ("users", ", ".join(filter(None, [f"{users} ({read_by})" if users else "none", root]))),
        ("means", MEANINGS.get(instruction.opcode, "")),
    ]  # fmt: skip
    stack = facts.sources.stack(instruction)
    frames = [f"`{place.file}:{place.line}`" + (f" in `{name}`" if name else "") for name, place in reversed(stack)]
    rows.append(("source", ", called from ".join(frames[:4]) + (", …" if len(frames) > 4 else "")))
    metadata = instruction.metadata
    rows.append(("op_name", f"`{metadata.op_name}`" if metadata is not None and metadata.op_name else ""))
    return rows


def cost_words(cost: Cost) -> str:
    """Work and traffic."""
    parts = [
        _counted(cost.flops, "flop"),
        _counted(cost.transcendentals, "transcendental"),
        f"{_bytes(cost.bytes_read)} read, {_bytes(cost.bytes_written)} written" if cost.bytes else "",
    ]
    text = "; ".join(filter(None, parts)) or "nothing is computed or moved"
    return text if cost.is_exact else f"{text}; more that is not known"


def _range_words(instruction: Instruction, known: Range | None) -> str:
    if known is None:
        return ""
    kind = ELEMENT_TYPES[instruction.shape.element_type]
    low, high = (f"{end:g}" if kind.is_float else str(end) for end in known[:2])
    text = f"all {low}" if known.low == known.high else f"from {low} to {high}"
    return f"{text}, or NaN" if known.nan else text


# ---- computations


def _computation_text(document: Document, known: Known | None, part: Part) -> str | None:
    found = known.computation(document, part) if known is not None else None
    if found is None:
        return None
    computation, facts = found
    taken = ", ".join(f"{p.name}: {print_shape(p.shape, layouts=False)}" for p in computation.parameters)
    head = f"{computation.name} ({taken}) -> {print_shape(computation.root.shape, layouts=False)}"
    bodies = facts.module.computations.values()
    called = sum(computation in caller.called for other in bodies for caller in other.calls)
    lines = [
        f"- {len(computation)} instruction{'' if len(computation) == 1 else 's'}, "
        + ("the entry" if computation is facts.module.entry else f"called {called} time{'' if called == 1 else 's'}")
    ]
    if facts.is_valid:
        lines.append(f"- cost: {cost_words(facts.cost.computation(computation))}")
    return "\n".join([_code(_cut(head)), "", *lines])


# ---- words of the language


def opcode_text(opcode: str) -> str | None:
    """What an opcode means, and what it takes."""
    row = OPCODES.get(opcode)
    if row is None or opcode not in MEANINGS:
        base, _, step = opcode.rpartition("-")
        if base in MEANINGS and step in ("start", "update", "done"):
            return f"**{opcode}**: the {step} of an asynchronous `{base}`.\n\n{MEANINGS[base]}"
        return None
    own = ", ".join(f"`{a.name}`" + (" (needed)" if a.required else "") for a in _written(row))
    elementwise = ELEMENTWISE_OPCODES.get(opcode)
    legal = f"Takes {elementwise.operands}." if elementwise is not None else ""
    lines = [_code(signature(row)), MEANINGS[opcode], legal, f"Attributes: {own}." if own else ""]
    return "\n\n".join(filter(None, lines))


def signature(row: Opcode) -> str:
    """An opcode with its operands and the attributes that it needs."""
    names = _OPERANDS.get(row.name)
    if names is None and row.arity is None:
        names = ("operands...",)
    elif names is None:
        names = {0: (), 1: ("operand",), 2: ("lhs", "rhs")}.get(row.arity or 0) or tuple("abcdefgh"[: row.arity])
    needed = "".join(f", {a.name}=..." for a in _written(row) if a.required)
    return f"{row.name}({', '.join(names)}){needed}"


_OPERANDS = {
    "parameter": ("number",), "constant": ("literal",), "select": ("condition", "on_true", "on_false"),
    "clamp": ("low", "value", "high"), "reduce": ("arrays...", "initial values..."),
    "reduce-window": ("arrays...", "initial values..."), "pad": ("array", "padding value"),
    "dynamic-slice": ("array", "starts..."), "dynamic-update-slice": ("array", "update", "starts..."),
    "gather": ("array", "indices"), "scatter": ("arrays...", "indices", "updates..."), "while": ("state",),
    "conditional": ("selector", "arguments..."), "convolution": ("input", "kernel"),
    "select-and-scatter": ("array", "source", "initial value"), "get-tuple-element": ("tuple",),
    "triangular-solve": ("matrix", "right side"), "rng-bit-generator": ("state",), "scan": ("inputs...", "carries..."),
}  # fmt: skip


def _written(row: Opcode) -> list[Attribute]:
    """The attributes that stand behind the parentheses."""
    return [a for a in row.attributes if a.name not in ("parameter_number", "literal")]


def attribute_text(name: str, opcode: str = "", of_module: bool = False) -> str | None:
    """What an attribute means, and the form of its value."""
    if of_module:
        return f"**{name}** (of the module)\n\n{HEADER[name]}" if name in HEADER else None
    row = OPCODES[opcode].attribute(name) if opcode in OPCODES else COMMON_ATTRIBUTES.get(name)
    if name not in ATTRIBUTES:
        return None
    if row is None:
        return f"**{name}**\n\n{ATTRIBUTES[name]}"
    needed = ", needed" if row.required else ""
    choices = f"\n\nOne of {', '.join(f'`{choice}`' for choice in row.choices)}." if row.choices else ""
    where = f" (of {opcode}{needed})" if name not in COMMON_ATTRIBUTES else ""
    return f"**{name}**{where}: {_FORMS.get(row.kind, row.kind)}\n\n{ATTRIBUTES[name]}{choices}"


_FORMS = {
    "bool": "`true` or `false`", "int": "a number", "float": "a number", "string": "`\"text\"`", "ints": "`{0,1}`",
    "word": "a word", "words": "`{word,word}`", "computation": "a computation", "computations": "`{a, b}`",
    "window": "`{size=3x3 stride=2x2 pad=0_1x0_1}`", "dim_labels": "`b01f_01io->b01f`", "padding": "`0_1x0_1_2`",
    "slice": "`{[0:4], [0:8:2]}`", "replica_groups": "`{{0,1},{2,3}}` or `[2,2]<=[4]`", "pairs": "`{{0,1},{1,0}}`",
    "shapes": "`{f32[2]{0}}`", "shape": "`f32[2]{0}`", "aliasing": "`{{0}: (0, {})}`", "bools": "`{true,false}`",
    "map": "`{key=\"text\"}`", "names": "`{a, b}`", "config": "text, or JSON in braces", "metadata":
    "`{op_name=\"...\" source_file=\"...\" source_line=1}`", "verbatim": "text of its own form",
}  # fmt: skip


# ---- shapes


def _shape_text(text: str) -> str | None:
    try:
        shape = parse_shape(text)
    except HloError:
        return None
    return "\n".join([_code(text), "", f"- {_shape_words(shape)}"])


def _shape_words(shape: Shape) -> str:
    """Elements, bytes and layout."""
    leaves = list(shape.leaves())
    if any(UNBOUNDED in leaf.dimensions for leaf in leaves):
        return f"`{print_shape(shape, index_comments=False)[:_MOST]}`, of unknown size"
    if shape.is_tuple:
        return f"{len(shape.elements)} elements, {len(leaves)} arrays, {_bytes(shape.byte_size)}"
    kind = ELEMENT_TYPES.get(shape.element_type)
    if kind is None or not kind.is_array:
        return f"`{shape}`"
    count = shape.size
    dynamic = ", of a size known at run time" if any(shape.dynamic) else ""
    order = shape.layout.minor_to_major if shape.layout is not None else tuple(reversed(range(shape.rank)))
    usual = order == tuple(reversed(range(shape.rank)))
    layout = "" if shape.rank < 2 else ", row-major" if usual else f", dimension {order[0]} varies fastest"
    plural = "" if count == 1 else "s"
    return f"`{print_shape(shape)}`, {count:,} element{plural}, {_bytes(shape.byte_size)}{layout}{dynamic}"


# ---- words


def _bytes(count: int) -> str:
    number, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if number < 1024 or unit == "PiB":
            break
        number /= 1024
    return f"{count} B" if unit == "B" else f"{number:.4g} {unit}"


def _count(count: int) -> str:
    number = float(count)
    for unit in _UNITS:
        if number < 1000 or unit == _UNITS[-1]:
            return f"{number:.4g}{' ' if unit else ''}{unit}"
        number /= 1000
    return str(count)


def _counted(count: int, what: str) -> str:
    return f"{_count(count)} {what}{'' if count == 1 else 's'}" if count else ""


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST else f"{line[:_MOST]}…"


def _code(text: str) -> str:
    fence = "```" if "```" not in text else "````"
    return f"{fence}hlo\n{text}\n{fence}"
