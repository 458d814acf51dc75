"""rng, rng-bit-generator and rng-get-and-update-state.

Which numbers `rng` draws HLO leaves open, so that what is looked at is whether they lie where they should.
"""

from __future__ import annotations

import numpy as np

from hlotool.ir import ELEMENT_TYPES, Instruction, array, tuple_shape
from semantics.sample import Sample, family, types_of
from semantics.values import anything, integer_range


@family("rng-bit-generator", "u32 u64")
def bits(s: Sample, opcode: str, kind: str) -> Instruction:
    algorithm = s.rng.choice(("rng_three_fry", "rng_philox", "rng_default"))
    words = 2 if algorithm == "rng_three_fry" else s.rng.choice((2, 3))
    state = s.operand(kind, (words * 64 // ELEMENT_TYPES[kind].bits,), anything)
    drawn = s.rng.choice(types_of("signed unsigned narrow float"))
    shape = tuple_shape([state.shape, array(drawn, s.sizes())])
    return s.builder.add(opcode, shape, [state], {"algorithm": algorithm})


@family("rng", "pred signed unsigned narrow float")
def rng(s: Sample, opcode: str, kind: str) -> Instruction:
    """Whether every number lies in [a, b); a normal one is finite."""
    b, row, sizes = s.builder, ELEMENT_TYPES[kind], s.sizes()
    shape = array(kind, sizes)
    if row.is_float and kind != "f8e8m0fnu" and s.rng.random() < 0.4:
        ends = [b.scalar_constant(s.rng.choice((0, -2, 1)), kind), b.scalar_constant(s.rng.choice((0, 1, 0.5)), kind)]
        drawn = b.add(opcode, shape, ends, {"distribution": "rng_normal"})
        return b.unary("is-finite", drawn)
    if row.kind == "pred":
        low, high = 0, 1
    elif row.is_integer:
        least, most = integer_range(kind)
        low, high = s.rng.choice(((least, most), (max(least, -3), min(most, 1)), (most - 1, most)))
    else:
        low, high = s.rng.choice(((0, 1), (-1, 1), (1, 1.0625), (-512, 1024)))
    ends = [b.scalar_constant(np.asarray(v).astype(row.dtype), kind) for v in (low, high)]
    drawn = b.add(opcode, shape, ends, {"distribution": "rng_uniform"})
    wide = [b.broadcast(end, (), shape) if sizes else end for end in ends]
    above = b.compare(drawn, wide[0], "GE")
    return b.binary("and", above, b.compare(drawn, wide[1], "LE" if row.kind == "pred" else "LT"))


@family("rng-get-and-update-state", "u64")
def state(s: Sample, opcode: str, kind: str) -> Instruction:
    """The high word of a state that no run has brought near 2**64 (the low one is another in every run)."""
    drawn = s.builder.add(opcode, array(kind, (2,)), [], {"delta": s.rng.choice((1, 7, 1 << 20))})
    return s.builder.slice(drawn, (1,), (2,))
