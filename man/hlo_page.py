"""The page hlo(5): the grammar of HLO text, its attributes by opcode (from the opcode table), and examples.

The grammar is in the notation of ISO 14977 with ``...`` in character ranges; tests parse every example and compare
the tables with the code.
"""

from __future__ import annotations

from hlotool import __version__
from hlotool.ir import ELEMENT_TYPES
from hlotool.ir.opcodes import COMMON_ATTRIBUTES, SPELLED, Attribute
from hlotool.text.header import HEADER_ATTRIBUTES

__all__ = ["EXAMPLES", "GRAMMAR", "page"]

GRAMMAR: dict[str, str] = {
    "FILES": """
file          = module , { separator , module } ;
separator     = line start , "// -----" , { "-" } , line end ;
module        = [ header , [ tables ] ] , definition , { definition }
              | instruction ;
header        = "HloModule" , name , [ ":" ] , { "," , attribute } ;
tables        = { "FileNames" , { number , string }
                | "FunctionNames" , { number , string }
                | "FileLocations" , { number , "{" , { word , "=" , number } , "}" }
                | "StackFrames" , { number , "{" , { word , "=" , number } , "}" } } ;
definition    = [ "ENTRY" ] , name , [ signature ] , body ,
                [ "," , "execution_thread" , "=" , string ] ;
signature     = "(" , [ name , [ ":" ] , shape , { "," , name , [ ":" ] , shape } ] , ")" , "->" , shape ;
body          = "{" , { instruction } , "}" ;
instruction   = [ "ROOT" ] , name , "=" , [ shape ] , opcode ,
                "(" , [ operands ] , ")" , { "," , attribute } ;
operands      = number                                   (* of parameter *)
              | constant                                 (* of constant *)
              | operand , { "," , operand } ;
operand       = [ shape ] , ( name | opcode , "(" , [ operands ] , ")" ) ;
attribute     = word , "=" , value ;
""",
    "LEXICAL RULES": """
name          = [ "%" ] , ( letter | "_" ) , { letter | digit | "_" | "-" | "." } ;
word          = ( letter | "_" ) , { letter | digit | "_" | "-" } ;
number        = [ "-" ] , digit , { digit } ;             (* at most 64 bits *)
real          = [ "-" ] , ( digits , [ "." , [ digits ] ] | "." , digits ) ,
                [ ( "e" | "E" ) , [ "+" | "-" ] , digits ]
              | [ "-" ] , "inf"
              | [ "-" ] , "nan" , [ "(" , "0x" , hex , { hex } , ")" ] ;
digits        = digit , { digit } ;
string        = '"' , { any character but '"' and "\\" | escape } , '"' ;
escape        = "\\" , ( "n" | "t" | "r" | "a" | "b" | "f" | "v" | '"' | "'" | "\\"
                | octal , [ octal , [ octal ] ] | "x" , hex , [ hex ] ) ;
comment       = "/*" , { any character } , "*/" | "//" , { any character but line end } ;
""",
    "SHAPES AND LAYOUTS": """
shape         = element type , "[" , [ dimension , { "," , dimension } ] , "]" , [ layout ]
              | "token" , "[" , "]" | "opaque" , "[" , "]"
              | "(" , [ shape , { "," , shape } ] , ")"
              | "b(" , shape , ")" ;
dimension     = number | "<=" , number | "?" ;
layout        = "{" , [ number , { "," , number } ] , [ ":" , detail ] , "}" ;
detail        = [ "D(" , level , { "," , level } , ")" ] ,
                [ "T" , tile , { tile } ] ,
                [ "L(" , number , ")" ] ,
                [ "#(" , element type , ")" ] , [ "*(" , element type , ")" ] ,
                [ "E(" , number , ")" ] , [ "S(" , number , ")" ] ,
                [ "SC" , split , { split } ] , [ "M(" , number , ")" ] ;
tile          = "(" , ( number | "*" ) , { "," , ( number | "*" ) } , ")" ;
split         = "(" , number , ":" , number , { "," , number } , ")" ;
level         = ( "D" | "C" | "S" | "H" ) , [ "+" ] , [ "~" ] ;
""",
    "LITERALS": """
constant      = scalar | array | tuple | elided ;
scalar        = real | number | "true" | "false"
              | "(" , real , "," , real , ")" ;          (* complex *)
array         = "{" , { ( array | scalar ) , { "," } } , "}" ;
tuple         = "(" , [ constant , { "," , constant } ] , ")" ;
elided        = "{" , "..." , "}" ;
""",
    "ATTRIBUTE VALUES": """
bool          = "true" | "false" ;
ints          = "{" , [ number , { "," , number } ] , "}" ;
bools         = "{" , [ bool , { "," , bool } ] , "}" ;
words         = "{" , [ word , { "," , word } ] , "}" ;
names         = "{" , [ name , { "," , name } ] , "}" ;
float         = real ;
int           = number ;
numbers       = number , { "," , number } ;
computation   = name | body ;
computations  = "{" , [ computation , { "," , computation } ] , "}" ;
window        = "{" , { ( "size" | "stride" | "lhs_dilate" | "rhs_dilate" | "rhs_reversal" ) , "=" , sizes
                | "pad" , "=" , pads } , "}" ;
sizes         = number , { "x" , number } ;
pads          = number , "_" , number , { "x" , number , "_" , number } ;
padding       = number , "_" , number , [ "_" , number ] ,
                { "x" , number , "_" , number , [ "_" , number ] } ;
slice         = "{" , [ range , { "," , range } ] , "}" ;
range         = "[" , number , ":" , number , [ ":" , number ] , "]" ;
dim_labels    = labels , "_" , labels , "->" , labels ;
labels        = label , label , { label } ;
label         = digit | "b" | "f" | "i" | "o" | "?" ;
replica_groups = "{" , [ ints , { "," , ints } ] , "}"
              | "[" , number , "," , number , "]" , "<=" , "[" , number , { "," , number } , "]" ,
                [ "T(" , number , { "," , number } , ")" ] ;
pairs         = "{" , [ ints , { "," , ints } ] , "}" ;  (* of two numbers each *)
shapes        = "{" , [ shape , { "," , shape } ] , "}" ;
aliasing      = "{" , [ alias , { "," , alias } ] , "}" ;
alias         = ints , ":" , "(" , number , "," , ints , [ "," , ( "may-alias" | "must-alias" ) ] , ")" ;
entry_layout  = "{" , "(" , [ shape , { "," , shape } ] , ")" , "->" , shape , "}" ;
map           = "{" , [ word , "=" , ( string | braces ) , { "," , word , "=" , ( string | braces ) } ] , "}" ;
config        = string | braces ;
metadata      = "{" , { word , "=" , ( string | number ) , [ "," ] } , "}" ;
sharding      = "{" , [ kind , { suffix } | sharding , { "," , sharding } ] , "}" ;
kind          = "replicated" | "manual" | "unknown" | "unreduced" | "maximal" , "device=" , number
              | "devices=" , "[" , numbers , "]" , ( numbers | "<=" , "[" , numbers , "]" ,
                [ "T(" , numbers , ")" ] ) ;
suffix        = "last_tile_dim_replicate" | "last_tile_dims=" , words
              | ( "shard_as" | "shard_like" ) , number | "metadata=" , metadata ;
braces        = balanced text in braces, brackets and parentheses ;
verbatim      = braces ;
flags         = bool | bools ;
literal       = shape , constant ;
""",
}

_NOTES = {
    "FILES": """A module without a header is named after its entry.  Without ENTRY the last computation is the entry;
without ROOT the last instruction of a computation is its root.  Names of instructions are unique in their
computation, names of computations in the module; both are defined before they are used.  The parameters of a
signature are read and ignored, its result must be the shape of the root.  A single instruction is a module whose
operands, which carry their shapes, become parameters.  The result shape may be left out for the opcodes marked with
a star below.  The file may be compressed with gzip, its lines may begin with the prefixes of log files, and instead
of text it may hold a protocol buffer: HloModuleProto, HloProto or HloSnapshot, in binary or in text form.""",
    "LEXICAL RULES": """Text is UTF-8; blanks, line ends and comments may stand between any two tokens.  The percent
sign of names is optional and no part of them.  Strings may hold line ends.""",
    "SHAPES AND LAYOUTS": """Dimensions <=N are dynamic with the bound N, ? is dynamic without bound.  The size of a
bounded dimension is known at run time: a program takes arrays of any size up to the bound, and gives results of the
size that they have.  Elements that a dimension gains by set-dimension-size are zeros, and so is what a slice, dynamic
slice or gather of a part of a dimension reads beyond its size.  Not supported for dynamic sizes: an fft along such a
dimension, the window of a convolution or what its groups divide, scatter updates with a window of another size than the
operand, index vectors, a bitcast that moves elements, and collectives among several devices.  A layout lists
the dimensions from minor to major; then follow tiles, the alignment of the padding at the end, index and pointer
types of former sparse arrays, bits per element, the memory space, split points and the bytes of dynamic shape
information.  Where an array has no layout it is row-major.  A brace after a shape begins a layout only before a number
or a colon.
Per-dimension level types D(...) are read and dropped.""",
    "LITERALS": """Arrays are nested as deep as the shape has dimensions; commas between their values are optional.
Integers stand for floats and 0 and 1 for pred as well.  An elided literal has lost its values; it reads as zeros that
print as {...} again.""",
    "ATTRIBUTE VALUES": """Attributes stand in any order, each at most once.""",
}

EXAMPLES: dict[str, str] = {
    "A module with two computations": """
HloModule mean, entry_computation_layout={(f32[8]{0})->f32[]}

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}

ENTRY main {
  x = f32[8]{0} parameter(0)
  zero = f32[] constant(0)
  total = f32[] reduce(x, zero), dimensions={0}, to_apply=add
  count = f32[] constant(8)
  ROOT mean = f32[] divide(total, count)
}
""",
    "The form with signatures, percent signs, metadata and a table of stack frames": """
HloModule frames

FileNames
1 "model.py"

FunctionNames
1 "forward"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=4 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY %main (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  ROOT %y = f32[4]{0} negate(%x), metadata={op_name="jit(forward)/neg" stack_frame_id=1}
}
""",
    "A loop": """
HloModule loop

below {
  state = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  n = s32[] constant(10)
  ROOT less = pred[] compare(i, n), direction=LT
}

step {
  state = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[2] get-tuple-element(state), index=1
  twice = f32[2] add(x, x)
  ROOT result = (s32[], f32[2]) tuple(next, twice)
}

ENTRY main {
  start = (s32[], f32[2]) parameter(0)
  ROOT end = (s32[], f32[2]) while(start), condition=below, body=step
}
""",
    "Windows, paddings, slices, literals": """
HloModule forms

ENTRY main {
  image = f32[1,8,8,3]{3,2,1,0} parameter(0)
  kernel = f32[3,3,3,16]{3,2,1,0} parameter(1)
  features = f32[1,4,4,16]{3,2,1,0} convolution(image, kernel),
    window={size=3x3 stride=2x2 pad=0_1x0_1}, dim_labels=b01f_01io->b01f
  part = f32[1,2,2,16]{3,2,1,0} slice(features), slice={[0:1], [0:4:2], [0:4:2], [0:16]}
  zero = f32[] constant(0)
  wide = f32[1,4,4,16]{3,2,1,0} pad(part, zero), padding=0_0x1_1x1_1x0_0
  table = f32[2,3]{1,0} constant({ { 1, 2.5, -inf }, { nan, 1e-3, 0 } })
  flags = pred[2]{0} constant({true, 0})
  roots = c64[2]{0} constant({(0, 1), (0, -1)})
  ROOT all = (f32[1,4,4,16]{3,2,1,0}, f32[2,3]{1,0}, pred[2]{0}, c64[2]{0}) tuple(wide, table, flags, roots)
}
""",
    "Collectives and shardings": """
HloModule sharded, num_partitions=4

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = f32[4,8] parameter(0), sharding={devices=[2,2]<=[4]}
  ROOT y = f32[4,8] all-reduce(x), channel_id=1, replica_groups=[1,4]<=[4], use_global_device_ids=true, to_apply=sum
}
""",
    "A body in place of a name, and a single instruction as a module": """
ENTRY main {
  x = f32[8] parameter(0)
  zero = f32[] constant(0)
  ROOT total = f32[] reduce(x, zero), dimensions={0}, to_apply={
    a = f32[] parameter(0)
    b = f32[] parameter(1)
    ROOT sum = f32[] add(a, b)
  }
}

// -----

add(f32[10] x, f32[10] y)
""",
}


def escape(text: str) -> str:
    """Text for roff: backslashes, hyphens, and dots and quotes at the start of a line."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in text.split("\n"))


def _verbatim(text: str) -> list[str]:
    return [".PP", ".nf", ".RS 2", escape(text.strip("\n")), ".RE", ".fi"]


def _form(row: Attribute) -> str:
    """``name=kind``, with the words themselves where there are few."""
    return f"{row.name}={'|'.join(row.choices) if 0 < len(row.choices) <= 6 else row.kind}"


def _attributes(rows: list[Attribute]) -> str:
    """Attributes with the kinds of their values, the compulsory ones in bold."""
    words = []
    for row in rows:
        text = escape(_form(row))
        words.append(f"\\fB{text}\\fR" if row.required else text)
    return ", ".join(words)


def _opcode_table() -> list[str]:
    """One entry per set of attributes: the opcodes that have it."""
    groups: dict[tuple[str, tuple[Attribute, ...]], list[str]] = {}
    for name, opcode in SPELLED.items():
        count = "any number of" if opcode.arity is None else str(opcode.arity)
        arity = f"{count} operand{'s' * (opcode.arity != 1)}"
        shown = tuple(a for a in opcode.attributes if name not in ("parameter", "constant"))
        groups.setdefault((arity, shown), []).append(name + ("*" if "inferable" in opcode.traits else ""))
    lines: list[str] = []
    for (arity, rows), names in groups.items():
        text = _attributes(list(rows))
        lines += [".TP", f"\\fB{escape(' '.join(names))}\\fR", escape(arity) + (f"; {text}" if text else "") + "."]
    return lines


def page() -> str:
    """The manual page hlo(5)."""
    lines = [f'.TH "HLO" "5" "" "hlotool {__version__}" "hlotool manual"', ".SH NAME"]
    lines += ["hlo \\- text format of HLO, the graph language of XLA", ".SH DESCRIPTION"]
    lines.append(
        escape(
            "HLO text describes a program as computations of instructions on arrays.  This page is the grammar of the "
            "format as hlotool reads it, in the notation of ISO 14977; a comma joins, a bar separates choices, "
            "brackets are optional parts and braces repeat.  The format has no version number; what XLA printed over "
            "the years is read."
        )
    )
    for title, rules in GRAMMAR.items():
        lines += [f".SH {title}", *_verbatim(rules), ".PP", escape(" ".join(_NOTES[title].split()))]
        if title == "SHAPES AND LAYOUTS":
            types = " ".join(name for name, row in ELEMENT_TYPES.items() if row.kind not in ("tuple", "buffer"))
            lines += [".PP", escape(f"Element types: {types}.")]
    lines += [".SH MODULE ATTRIBUTES", ".PP", "In the order in which they are printed, with the kinds of their values:"]
    lines += [".PP", _attributes(list(HEADER_ATTRIBUTES.values())) + "."]
    lines += [".SH ATTRIBUTES OF EVERY INSTRUCTION", ".PP", _attributes(list(COMMON_ATTRIBUTES.values())) + "."]
    lines += [".SH OPCODES", ".PP"]
    lines.append(
        escape(
            "Attributes in bold are compulsory; the shape of the opcodes with a star may be left out.  Any opcode "
            "without a start of its own can also be written OPCODE-start, OPCODE-update and OPCODE-done, which stands "
            "for async-start and so on around a computation of that one operation."
        )
    )
    lines += _opcode_table()
    lines.append(".SH EXAMPLES")
    for title, text in EXAMPLES.items():
        lines += [f".SS {escape(title)}", *_verbatim(text)]
    lines += [".SH SEE ALSO", "\\fBhlotool\\fR(1), \\fBhlotool\\-fmt\\fR(1), \\fBhlotool\\-verify\\fR(1)"]
    return "\n".join(lines) + "\n"
