"""A plug-in pass that makes many right rewrites and a wrong one: what ``hlotool bisect`` has to find.

``planted{kind=add-subtract,at=7}`` puts a copy in the place of every instruction of a kind; the seventh, or the first
behind it that can be wrong in that way, is.  The decision about that one says so, for the tests alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from planted_passes import KINDS as EDITS

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module, clone_instruction
from hlotool.passes.framework.graph import made_from, replace_with

__all__ = ["KINDS", "WRONG", "Planted", "varied_module"]

WRONG = "planted"
"""The reason of the wrong rewrite."""


def _shifted_pad(instruction: Instruction) -> bool:
    """What is padded in front is padded behind."""
    rows = list(instruction.attributes["padding"])
    for axis, row in enumerate(rows):
        if row.low != row.high:
            rows[axis] = type(row)(row.high, row.low, row.interior)
            instruction.attributes["padding"] = tuple(rows)
            return True
    return False


def _turned(instruction: Instruction) -> bool:
    """The parts of a concatenation in another order."""
    operands = list(instruction.operands)
    if len(operands) < 2 or any(one.shape != operands[0].shape for one in operands):
        return False
    instruction.set_operands(operands[::-1])
    return True


def _lost_reverse(instruction: Instruction) -> bool:
    instruction.replace_all_uses(instruction.operands[0])
    return True


def _other_iota(instruction: Instruction) -> bool:
    sizes = instruction.shape.dimensions
    if len(sizes) != 2 or sizes[0] != sizes[1]:
        return False
    instruction.attributes["iota_dimension"] = 1 - instruction.attributes["iota_dimension"]
    return True


KINDS: dict[str, tuple[frozenset[str], Callable[[Instruction], bool]]] = {
    "add-subtract": (frozenset({"add"}), EDITS["add-subtract"]),
    "multiply-add": (frozenset({"multiply"}), EDITS["multiply-add"]),
    "reduce-init": (frozenset({"reduce"}), EDITS["reduce-init"]),
    "dropped-convert": (frozenset({"convert"}), EDITS["dropped-convert"]),
    "transposed-operand": (frozenset({"dot"}), EDITS["transposed-operand"]),
    "shifted-slice": (frozenset({"slice"}), EDITS["shifted-slice"]),
    "max-min": (frozenset({"maximum"}), EDITS["max-min"]),
    "lost-negate": (frozenset({"negate"}), EDITS["lost-negate"]),
    "lost-function": (frozenset({"tanh", "exponential"}), EDITS["lost-function"]),
    "broadcast-dimension": (frozenset({"broadcast"}), EDITS["broadcast-dimension"]),
    "wrong-constant": (frozenset({"constant"}), EDITS["wrong-constant"]),
    "swapped-select": (frozenset({"select"}), EDITS["swapped-select"]),
    "swapped-divide": (frozenset({"divide"}), EDITS["swapped-divide"]),
    "contraction": (frozenset({"dot"}), EDITS["contraction"]),
    "reduced-axis": (frozenset({"reduce"}), EDITS["reduced-axis"]),
    "compare-direction": (frozenset({"compare"}), EDITS["compare-direction"]),
    "shifted-pad": (frozenset({"pad"}), _shifted_pad),
    "turned-concatenate": (frozenset({"concatenate"}), _turned),
    "lost-reverse": (frozenset({"reverse"}), _lost_reverse),
    "other-iota": (frozenset({"iota"}), _other_iota),
}
"""The opcodes that are rewritten, and the edit of a copy that makes it wrong; False where it cannot."""


def _renamed(edited: Instruction, old: str) -> Instruction:
    """Another instruction in the place of one whose opcode was overwritten, of which its computation does not know."""
    assert edited.parent is not None
    new = made_from(edited, edited.opcode, edited.shape, edited.operands, **edited.attributes)
    edited.opcode = old
    edited.parent.add(new, before=edited)
    replace_with(edited, new)
    return new


@dataclass(frozen=True, slots=True)
class Planted:
    """Puts copies in the place of instructions, of which one is wrong."""

    name: ClassVar[str] = "planted"
    kind: str = "add-subtract"
    at: int = 1

    def run(self, module: Module, log: DecisionLog) -> bool:
        opcodes, edit = KINDS[self.kind]
        count, done = 0, False
        for computation in module.callees_first():
            for instruction in list(computation):
                if instruction.opcode not in opcodes or computation is not module.entry or instruction.is_root:
                    continue
                if not log.allow():
                    return count > 0
                copy = clone_instruction(instruction, list(instruction.operands))
                copy.attributes = dict(copy.attributes)
                computation.add(copy, before=instruction)
                count += 1
                replace_with(instruction, copy)
                wrong = not done and count >= self.at and edit(copy)
                done |= wrong
                if copy.opcode != instruction.opcode:
                    copy = _renamed(copy, instruction.opcode)
                log.rewrite(self.kind, instruction, copy, WRONG if wrong else "")
        return count > 0


_HEAD = "HloModule varied\n\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n"
_BLOCK = """
w.{n} = f32[16,16] parameter({p})
d.{n} = f32[16,16] dot(x, w.{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
t.{n} = f32[16,16] tanh(d.{n})
one.{n} = f32[] constant(0.75)
b.{n} = f32[16,16] broadcast(one.{n}), dimensions={{}}
m.{n} = f32[16,16] multiply(t.{n}, b.{n})
g.{n} = f32[16,16] negate(w.{n})
x.{n} = f32[16,16] maximum(m.{n}, g.{n})
l.{n} = f32[16,8] slice(x.{n}), slice={{[0:16],[4:12]}}
r.{n} = f32[16,8] reverse(l.{n}), dimensions={{1}}
k.{n} = f32[16,16] concatenate(r.{n}, l.{n}), dimensions={{1}}
z.{n} = f32[] constant(0)
c.{n} = pred[16,16] compare(k.{n}, w.{n}), direction=LT
s.{n} = f32[16,16] select(c.{n}, k.{n}, t.{n})
q.{n} = f32[16] reduce(s.{n}, z.{n}), dimensions={{1}}, to_apply=add
e.{n} = f32[16,16] broadcast(q.{n}), dimensions={{0}}
i.{n} = f32[16,16] iota(), iota_dimension=0
j.{n} = f32[16,16] exponential(t.{n})
v.{n} = f32[16,16] divide(i.{n}, j.{n})
h.{n} = f32[12,16] slice(v.{n}), slice={{[2:14],[0:16]}}
p.{n} = f32[16,16] pad(h.{n}, z.{n}), padding=1_3x0_0
f.{n} = s32[16,16] convert(p.{n})
o.{n} = f32[16,16] convert(f.{n})
u.{n} = f32[16,16] add(o.{n}, e.{n})
y.{n} = f32[16,16] add({y}, u.{n})
"""


def varied_module(instructions: int) -> str:
    """A module of about that many instructions, with something for every kind; blocks do not hang on each other."""
    size = _BLOCK.count(" = ")
    lines = ["x = f32[16,16] parameter(0)"]
    value = "x"
    for n in range(max(1, instructions // size)):
        lines += _BLOCK.strip().format(n=n, p=n + 1, y=value).split("\n")
        value = f"y.{n}"
    lines.append(f"ROOT result = f32[16,16] negate({value})")
    body = "\n".join(f"  {line}" for line in lines)
    return f"{_HEAD}\nENTRY main {{\n{body}\n}}\n"
