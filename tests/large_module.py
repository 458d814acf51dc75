"""Text of modules of any size: transformer blocks in a row."""

from __future__ import annotations

__all__ = ["large_module"]

_HEAD = "HloModule large\n\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n"
_BLOCK = """
w0.{n} = f32[128,128] parameter({p0})
w1.{n} = f32[128,128] parameter({p1})
w2.{n} = f32[128,128] parameter({p2})
w3.{n} = f32[128,128] parameter({p3})
q.{n} = f32[64,128] dot({x}, w0.{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} @attention/q/dot_general
k.{n} = f32[64,128] dot({x}, w1.{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} @attention/k/dot_general
v.{n} = f32[64,128] dot({x}, w2.{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} @attention/v/dot_general
s.{n} = f32[64,64] dot(q.{n}, k.{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}} @attention/scores/dot
c.{n} = f32[] constant(0.125)
cb.{n} = f32[64,64] broadcast(c.{n}), dimensions={{}} @attention/scores/mul
sc.{n} = f32[64,64] multiply(s.{n}, cb.{n}) @attention/scores/mul
e.{n} = f32[64,64] exponential(sc.{n}) @attention/softmax/exp
z.{n} = f32[] constant(0)
r.{n} = f32[64] reduce(e.{n}, z.{n}), dimensions={{1}}, to_apply=add @attention/softmax/reduce_sum
rb.{n} = f32[64,64] broadcast(r.{n}), dimensions={{0}} @attention/softmax/div
p.{n} = f32[64,64] divide(e.{n}, rb.{n}) @attention/softmax/div
o.{n} = f32[64,128] dot(p.{n}, v.{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} @attention/out/dot_general
h.{n} = f32[64,128] add({x}, o.{n}) @add
m.{n} = f32[64,128] dot(h.{n}, w3.{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} @mlp/dot_general
t.{n} = f32[64,128] tanh(m.{n}) @mlp/tanh
y.{n} = f32[64,128] add(h.{n}, t.{n}) @add
"""


def large_module(instructions: int, named: bool = True) -> str:
    """A module of about that many instructions; `named` ones have op_name scopes."""
    size = _BLOCK.count(" = ")
    lines = ["x = f32[64,128] parameter(0)"]
    value = "x"
    for n in range(max(1, instructions // size)):
        numbers = {f"p{i}": 4 * n + i + 1 for i in range(4)}
        for line in _BLOCK.strip().format(n=n, x=value, **numbers).split("\n"):
            text, _, scope = line.partition(" @")
            metadata = f', metadata={{op_name="jit(f)/jit(main)/block_{n}/{scope}"}}' if named and scope else ""
            lines.append(text + metadata)
        value = f"y.{n}"
    lines.append(f"ROOT result = f32[64,128] negate({value})")
    body = "\n".join(f"  {line}" for line in lines)
    return f"{_HEAD}\nENTRY main {{\n{body}\n}}\n"
