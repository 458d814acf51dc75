"""Pages of 0100 to 0139: characters, words, shapes, literals and attributes of the text."""

from __future__ import annotations

from hlotool.text.page import Page, entry

__all__ = ["SYNTAX"]

_X = "x = f32[4] parameter(0)"
_RIGHT = entry(f"{_X}\nROOT y = f32[4] negate(x)")
_CONVOLUTION = """a = f32[1,8,8,3] parameter(0)
b = f32[3,3,3,16] parameter(1)
ROOT y = f32[1,6,6,16] convolution(a, b), window={WINDOW}, dim_labels=LABELS"""


def _convolution(window: str = "size=3x3", labels: str = "b01f_01io->b01f") -> str:
    return entry(_CONVOLUTION.replace("WINDOW", window).replace("LABELS", labels))


SYNTAX = (
    Page(
        "HLO0100", "unexpected text",
        "Something else is expected here: an instruction is NAME = SHAPE OPCODE(OPERANDS), ATTRIBUTE=VALUE...",
        entry(f"{_X}\nROOT y f32[4] negate(x)"), _RIGHT,
    ),
    Page(
        "HLO0101", "the text ends too early",
        "The text ends inside a module, or has no instructions at all.  A file may have been cut off.",
        "HloModule example\n\nENTRY main {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] negate(x,", _RIGHT,
    ),
    Page(
        "HLO0102", "a comment is never closed", "A comment that starts with /* goes on to the next */.",
        entry(f"{_X}  /* the input\nROOT y = f32[4] negate(x)"),
        entry(f"{_X}  /* the input */\nROOT y = f32[4] negate(x)"),
    ),
    Page(
        "HLO0103", "a string is never closed",
        'Quoted text goes on to the next quote; a quote inside is written \\".',
        entry(f'{_X}\nROOT y = f32[4] negate(x), metadata={{op_name="neg}}'),
        entry(f'{_X}\nROOT y = f32[4] negate(x), metadata={{op_name="neg"}}'),
    ),
    Page(
        "HLO0104", "nested too deep",
        "Brackets, shapes, literals, operands or computations are nested more than a hundred levels deep.",
        entry(f"ROOT x = {'(' * 150}f32[]{')' * 150} parameter(0)"), entry("ROOT x = ((f32[])) parameter(0)"),
    ),
    Page(
        "HLO0105", "a number does not fit into 64 bits", "Whole numbers in attributes have at most 64 bits.",
        entry("ROOT x = f32[4] parameter(99999999999999999999)"), entry("ROOT x = f32[4] parameter(0)"),
    ),
    Page(
        "HLO0106", "brackets do not pair up", "Every bracket that opens needs one of its kind that closes it.",
        "HloModule example\n\nhelper {\n  ROOT a = f32[] parameter(0)\n\n"
        "ENTRY main {\n  x = f32[] parameter(0)\n  ROOT y = f32[] call(x), to_apply=helper\n}\n",
        "HloModule example\n\nhelper {\n  ROOT a = f32[] parameter(0)\n}\n\n"
        "ENTRY main {\n  x = f32[] parameter(0)\n  ROOT y = f32[] call(x), to_apply=helper\n}\n",
    ),
    Page(
        "HLO0107", "a character that HLO text cannot have",
        "HLO text is UTF-8 without NUL bytes.  Binary files (protocol buffers) are something else.",
        entry(f"{_X}\nROOT y\0 = f32[4] negate(x)"), _RIGHT,
    ),
    Page(
        "HLO0108", "unknown opcode", "There is no operation of this name.  Opcodes are lower case with hyphens.",
        entry(f"{_X}\nROOT y = f32[4] neggate(x)"), _RIGHT,
    ),
    Page(
        "HLO0110", "unknown element type",
        "Element types are pred, s4 to s64, u4 to u64, f16, bf16, f32, f64, the f8 and f4 forms, c64 and c128.",
        entry("ROOT x = i32[4] parameter(0)"), entry("ROOT x = s32[4] parameter(0)"),
    ),
    Page(
        "HLO0111", "a negative dimension", "Sizes are not negative; a dimension of unknown size is written ?.",
        entry("ROOT x = f32[-4] parameter(0)"), entry("ROOT x = f32[4] parameter(0)"),
    ),
    Page(
        "HLO0112", "a shape is too large",
        "An array has less than an exbibyte (2**60 bytes), a dimension of 0 counted as 1, and at most 32 dimensions.",
        entry("ROOT x = f32[9999999999,9999999999] parameter(0)"), entry("ROOT x = f32[9999,9999] parameter(0)"),
    ),
    Page(
        "HLO0113", "a layout does not fit its shape",
        "A layout lists every dimension once, from minor to major: {1,0} is row-major for a matrix.",
        entry("ROOT x = f32[2,3]{2,1,0} parameter(0)"), entry("ROOT x = f32[2,3]{1,0} parameter(0)"),
    ),
    Page(
        "HLO0114", "the result shape must be written",
        "The shape of this operation is part of what it does and cannot be found from its operands.",
        entry(f"{_X}\nROOT y = reshape(x)"), entry(f"{_X}\nROOT y = f32[2,2] reshape(x)"),
    ),
    Page(
        "HLO0120", "no constant can have this shape", "Constants are arrays and tuples of arrays, and fit into memory.",
        entry("ROOT x = token[] constant(1)"), entry("ROOT x = s32[] constant(1)"),
    ),
    Page(
        "HLO0121", "the braces of a literal do not fit its shape",
        "A literal has one level of braces per dimension: f32[2,2] is { {1, 2}, {3, 4} }.",
        entry("ROOT x = f32[2,2] constant({1, 2, 3, 4})"), entry("ROOT x = f32[2,2] constant({{1, 2}, {3, 4}})"),
    ),
    Page(
        "HLO0122", "a literal has too few or too many elements",
        "As many elements as the shape says; {...} stands for elements that were left out.",
        entry("ROOT x = f32[3] constant({1, 2})"), entry("ROOT x = f32[3] constant({1, 2, 3})"),
    ),
    Page(
        "HLO0123", "a literal is of another type than its shape",
        "Whole numbers for s32, true and false for pred, (real, imaginary) for c64.",
        entry("ROOT x = s32[] constant(1.5)"), entry("ROOT x = f32[] constant(1.5)"),
    ),
    Page(
        "HLO0124", "a literal is out of range", "The element type cannot hold this value.",
        entry("ROOT x = s8[] constant(300)"), entry("ROOT x = s16[] constant(300)"),
    ),
    Page(
        "HLO0130", "a number or list of numbers is expected", "Some attributes take one number, others a list {0,1}.",
        entry("ROOT x = s32[4] iota(), iota_dimension={0}"), entry("ROOT x = s32[4] iota(), iota_dimension=0"),
    ),
    Page(
        "HLO0131", "no value of this attribute", "The attribute takes one of a few words.",
        entry(f"{_X}\nROOT y = pred[4] compare(x, x), direction=LESS"),
        entry(f"{_X}\nROOT y = pred[4] compare(x, x), direction=LT"),
    ),
    Page(
        "HLO0132", "a window is malformed",
        "A window is {size=3x3 stride=2x2 pad=1_1x1_1 lhs_dilate=1x1 rhs_dilate=1x1}: one number (pair) per dimension.",
        _convolution(window="size=3x3 stride=1"), _convolution(window="size=3x3 stride=1x1"),
    ),
    Page(
        "HLO0133", "dim_labels are malformed",
        "INPUT_KERNEL->OUTPUT: b, f and spatial digits for input and output, i, o and the same digits for the kernel.",
        _convolution(labels="b01f_01i->b01f"), _convolution(),
    ),
    Page(
        "HLO0134", "metadata is malformed",
        'Metadata is {op_type="..." op_name="..." source_file="..." source_line=1 ...}.',
        entry(f'{_X}\nROOT y = f32[4] negate(x), metadata={{opname="neg"}}'),
        entry(f'{_X}\nROOT y = f32[4] negate(x), metadata={{op_name="neg"}}'),
    ),
    Page(
        "HLO0135", "an attribute is missing", "The operation means nothing without this attribute.",
        entry("x = f32[2,3] parameter(0)\nROOT y = f32[3,2] transpose(x)"),
        entry("x = f32[2,3] parameter(0)\nROOT y = f32[3,2] transpose(x), dimensions={1,0}"),
    ),
    Page(
        "HLO0136", "unknown attribute", "The operation (or the module) has no attribute of this name.",
        entry("x = f32[2,3] parameter(0)\nROOT y = f32[3,2] transpose(x), dimension={1,0}"),
        entry("x = f32[2,3] parameter(0)\nROOT y = f32[3,2] transpose(x), dimensions={1,0}"),
    ),
    Page(
        "HLO0137", "a sharding is malformed",
        "Shardings are {replicated}, {maximal device=0}, {devices=[2,1]<=[2]} and lists of these for tuples.",
        entry("ROOT x = f32[4] parameter(0), sharding={replicate}"),
        entry("ROOT x = f32[4] parameter(0), sharding={replicated}"),
    ),
    Page(
        "HLO0138", "an attribute is given twice", "Each attribute stands at most once.",
        entry("x = f32[2,3] parameter(0)\nROOT y = f32[3,2] transpose(x), dimensions={1,0}, dimensions={1,0}"),
        entry("x = f32[2,3] parameter(0)\nROOT y = f32[3,2] transpose(x), dimensions={1,0}"),
    ),
    Page(
        "HLO0139", "device groups are malformed",
        "Groups are {{0,1},{2,3}}, [2,2]<=[4], where both lists have the same number of devices, or "
        "mesh['x'=2,'y'=2] {'x'}, which are along an axis; pairs are {{0,1}}.",
        entry("x = f32[4] parameter(0)\nROOT y = f32[4] collective-permute(x), source_target_pairs={{0,1,2}}"),
        entry("x = f32[4] parameter(0)\nROOT y = f32[4] collective-permute(x), source_target_pairs={{0,1}}"),
    ),
)  # fmt: skip
