"""Pages of 0140 to 0299: names and structure, and what operations want of their operands."""

from __future__ import annotations

from hlotool.text.page import Page, entry

__all__ = ["RULES"]

_X = "x = f32[4] parameter(0)"
_START = "s = (f32[4], f32[4], u32[]) copy-start(x)"
_GATHER = "g = f32[4] all-gather(x), channel_id=1, replica_groups={{0}}, dimensions={0}"
_SEND = "s = (f32[4], u32[], token[]) send(g, t), is_host_transfer=true"
_SENT = "ROOT d = token[] send-done(s), is_host_transfer=true"
_RIGHT = entry(f"{_X}\nROOT y = f32[4] negate(x)")
_ADD = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n"


def _reduce(head: str, reducer: str = _ADD) -> str:
    body = f"{head}\nzero = f32[] constant(0)\nROOT y = f32[] reduce(x, zero), dimensions={{0}}, to_apply=add"
    return entry(body).replace("ENTRY", f"{reducer}\nENTRY")


RULES = (
    Page(
        "HLO0140", "a computation without a root", "A computation has at least one instruction; the last is the root.",
        "HloModule example\n\nENTRY main {\n}\n", _RIGHT,
    ),
    Page(
        "HLO0141", "nothing has this name", "Operands and called computations are defined further up in the text.",
        entry(f"{_X}\nROOT y = f32[4] negate(z)"), _RIGHT,
    ),
    Page(
        "HLO0142", "used before its definition",
        "Instructions stand after their operands, and computations after those that they call.  So nothing calls "
        "itself: loops are written with while.",
        entry("ROOT y = f32[4] negate(x)\nx = f32[4] parameter(0)"), _RIGHT,
    ),
    Page(
        "HLO0143", "defined twice", "Names are unique: instructions in their computation, computations in the module.",
        entry(f"{_X}\nx = f32[4] negate(x)\nROOT y = f32[4] abs(x)"),
        entry(f"{_X}\nz = f32[4] negate(x)\nROOT y = f32[4] abs(z)"),
    ),
    Page(
        "HLO0144", "parameter numbers have gaps or repeat", "Parameters are numbered from 0, each number once.",
        entry("x = f32[4] parameter(0)\ny = f32[4] parameter(0)\nROOT z = f32[4] add(x, y)"),
        entry("x = f32[4] parameter(0)\ny = f32[4] parameter(1)\nROOT z = f32[4] add(x, y)"),
    ),
    Page(
        "HLO0145", "operands and users are out of step",
        "A module that was changed lists users that do not read the instruction, or misses some.  Change operands "
        "with replace_operand and replace_all_uses only.",
        "import hlotool\nmodule = hlotool.parse('x = f32[4] parameter(0)')\nx = module.entry.root\n"
        "x.users[x] = 1\nhlotool.verify(module)",
        "import hlotool\nmodule = hlotool.parse('x = f32[4] parameter(0)')\nhlotool.verify(module)", "python",
    ),
    Page(
        "HLO0146", "control predecessors contradict the order",
        "An instruction stands after its control predecessors, and nothing waits for itself.",
        entry(f"{_X}\ny = f32[4] negate(x), control-predecessors={{z}}\nROOT z = f32[4] abs(y)"),
        entry(f"{_X}\ny = f32[4] negate(x)\nROOT z = f32[4] abs(x), control-predecessors={{y}}"),
    ),
    Page(
        "HLO0147", "a module without an entry", "One computation is the entry.  Text always has one; modules that "
        "are built get theirs from add(computation, entry=True).",
        "import hlotool\nhlotool.verify(hlotool.Module('example'))",
        "import hlotool\nhlotool.verify(hlotool.parse('x = f32[4] parameter(0)'))", "python",
    ),
    Page(
        "HLO0148", "the entry layout does not fit the entry",
        "entry_computation_layout repeats the shapes of the parameters and of the result.",
        _RIGHT.replace("example", "example, entry_computation_layout={(f32[5])->f32[4]}"),
        _RIGHT.replace("example", "example, entry_computation_layout={(f32[4])->f32[4]}"),
    ),
    Page(
        "HLO0149", "an alias that cannot be",
        "input_output_alias={ {OUTPUT}: (PARAMETER, {INDEX}) }: both exist, have the same shape, and no output is "
        "named twice.",
        _RIGHT.replace("example", "example, input_output_alias={ {}: (1, {}) }"),
        _RIGHT.replace("example", "example, input_output_alias={ {}: (0, {}) }"),
    ),
    Page(
        "HLO0151", "a second ROOT or ENTRY", "A computation has one root, a module one entry computation.",
        entry(f"ROOT {_X}\nROOT y = f32[4] negate(x)"), _RIGHT,
    ),
    Page(
        "HLO0152", "an asynchronous start has another shape",
        "OPCODE-start gives ((operands), result, ...): a tuple of the operands' shapes, then the result.",
        entry(f"{_X}\ns = f32[4] negate-start(x)\nROOT y = f32[4] negate-done(s)"),
        entry(f"{_X}\ns = ((f32[4]), f32[4], s32[]) negate-start(x)\nROOT y = f32[4] negate-done(s)"),
    ),
    Page(
        "HLO0153", "a table of source places is malformed",
        'FileNames and FunctionNames have rows NUMBER "NAME", FileLocations and StackFrames NUMBER {key=number ...}.',
        _RIGHT.replace("example\n", 'example\n\nFileNames\n1 {line=1}\n'),
        _RIGHT.replace("example\n", 'example\n\nFileNames\n1 "model.py"\n'),
    ),
    Page(
        "HLO0154", "an operand is written with another shape than it has",
        "A shape before an operand repeats the shape of the instruction that it names.",
        entry(f"{_X}\nROOT y = f32[4] negate(f32[5] x)"), entry(f"{_X}\nROOT y = f32[4] negate(f32[4] x)"),
    ),
    Page(
        "HLO0155", "a signature does not fit the root",
        "NAME (parameters) -> SHAPE { ... }: the shape is that of the root instruction.",
        _RIGHT.replace("main {", "main (x: f32[4]) -> f32[5] {"),
        _RIGHT.replace("main {", "main (x: f32[4]) -> f32[4] {"),
    ),
    Page(
        "HLO0200", "operands and attributes do not fit together",
        "The operation has no result for these operands and attributes.",
        entry(f"{_X}\nROOT y = f32[4] not(x)"), entry("x = s32[4] parameter(0)\nROOT y = s32[4] not(x)"),
    ),
    Page(
        "HLO0201", "the declared shape is not the result's",
        "The shape before the opcode must be the one that the operation gives; the message says which that is.",
        entry(f"{_X}\nROOT y = f32[5] negate(x)"), _RIGHT,
    ),
    Page(
        "HLO0202", "an operand does not fit", "The operation cannot take this operand: its type, rank or sizes.",
        entry("x = f32[2] parameter(0)\ny = f32[3] parameter(1)\nROOT z = f32[3] add(x, y)"),
        entry("x = f32[3] parameter(0)\ny = f32[3] parameter(1)\nROOT z = f32[3] add(x, y)"),
    ),
    Page(
        "HLO0203", "an attribute does not fit the operands",
        "A dimension number is out of range, or a list is as long as no operand wants it.",
        entry("x = f32[2,3] parameter(0)\nROOT y = f32[3,2] transpose(x), dimensions={1,2}"),
        entry("x = f32[2,3] parameter(0)\nROOT y = f32[3,2] transpose(x), dimensions={1,0}"),
    ),
    Page(
        "HLO0204", "a called computation has another signature",
        "Reducers take two scalars per array, comparators two per operand, loops and branches what is handed to them.",
        _reduce("x = f32[4] parameter(0)", _ADD.replace("f32", "s32")), _reduce("x = f32[4] parameter(0)"),
    ),
    Page(
        "HLO0205", "too few or too many operands", "The operation takes another number of operands.",
        entry(f"{_X}\nROOT y = f32[4] add(x)"), entry(f"{_X}\nROOT y = f32[4] add(x, x)"),
    ),
    Page(
        "HLO0206", "an asynchronous operation is not ended once",
        "Every start has one done (or a chain of updates and one done), of its own kind.",
        entry(f"{_X}\n{_START}\na = f32[4] copy-done(s)\nb = f32[4] copy-done(s)\nROOT y = f32[4] add(a, b)"),
        entry(f"{_X}\n{_START}\na = f32[4] copy-done(s)\nROOT y = f32[4] add(a, a)"),
    ),
    Page(
        "HLO0207", "a channel is used for two things",
        "Instructions with the same channel_id belong together: collectives, or the halves of a transfer.",
        entry(f"{_X}\n{_GATHER}\nt = token[] after-all()\n{_SEND}, channel_id=1\n{_SENT}, channel_id=1"),
        entry(f"{_X}\n{_GATHER}\nt = token[] after-all()\n{_SEND}, channel_id=2\n{_SENT}, channel_id=2"),
    ),
)  # fmt: skip
