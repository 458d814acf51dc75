"""rng and rng-get-and-update-state: random numbers from a state that lives in the compiled code.

Each kernel keeps a counter in a variable of its own, which every run moves on by what it uses; the first run after
loading always starts at the same place.  HLO leaves open which numbers come: here they are Philox words, turned into
floats by their high bits, into normal ones by the method of Box and Muller ("A note on the generation of random normal
deviates", 1958).
"""

from __future__ import annotations

from math import pi
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.algorithms.rng import philox_words
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.llvm.arguments import begin_tasks, empty_kernel, step_function
from hlotool.codegen.llvm.arrays import load, store
from hlotool.codegen.llvm.control import begin_loop
from hlotool.codegen.llvm.math.elements import Register, broadcast, compute_element, is_complex, kind, round_to, vector
from hlotool.codegen.llvm.math.elementwise import emit_elementwise
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Index, Int, Ptr, Vector, minimum, where
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.machine import Machine
from hlotool.ir import Instruction, UnsupportedError

__all__ = ["emit_rng", "emit_rng_get_and_update_state"]

_FIRST_STATE = 0x7012395
_SEED = 0x9E3779B97F4A7C15
_CHUNK: Annotated[int, Threshold("elements")] = 4096
"""Elements per task."""


def emit_rng_get_and_update_state(
    name: str, instruction: Instruction, machine: Machine, in_place: bool = False
) -> Kernel:
    """The kernel of ``u64[2] rng-get-and-update-state(), delta=``: the 128-bit state, low word first; it moves on."""
    delta = int(instruction.attributes["delta"]) % (1 << 64)
    unit = Unit(machine)
    unit.variable(f"low_{name}", f"i64 {_FIRST_STATE}")
    unit.variable(f"high_{name}", "i64 0")
    f, (out,) = step_function(unit, name, 1)
    low = Ptr(f, f"@low_{name}").add_atomically(delta)
    carry = (low + delta).below(low).number()
    high = Ptr(f, f"@high_{name}").add_atomically(carry)
    out.store(low, align=8)
    out.at("i64", 1).store(high, align=8)
    f.finish()
    return finish_kernel(unit, [Step(name)])


def emit_rng(name: str, instruction: Instruction, machine: Machine, in_place: bool = False) -> Kernel:
    """The kernel of ``rng(a, b), distribution=``: uniform on [a, b), or normal with mean a and deviation b."""
    shape, normal = instruction.shape, instruction.attributes["distribution"] == "rng_normal"
    element_type = shape.element_type
    if is_complex(element_type) or (normal and kind(element_type) != "float"):
        raise UnsupportedError(f"{instruction.name}: {instruction.attributes['distribution']} of {element_type}")
    if shape.size == 0:
        return empty_kernel(name, machine)
    # Every element takes one counter: four words are enough for two 64-bit numbers.
    unit = Unit(machine)
    unit.variable(f"counter_{name}", "i64 0")
    f, (_, _, _, scratch) = step_function(unit, name, 4)
    scratch.store(Ptr(f, f"@counter_{name}").add_atomically(shape.size), align=8)
    f.finish()
    fill = f"fill_{name}"
    f, (first, second, out, scratch) = step_function(unit, fill, 4)
    bounds = load(first, element_type, 0), load(second, element_type, 0)
    base, seed = scratch.load_int(align=8), Int(f, str(_SEED - (1 << 64)))
    lanes = machine.lanes(64)
    task = begin_tasks(f)
    start = task.index * _CHUNK
    stop = minimum(start + _CHUNK, shape.size)
    whole = start + ((stop - start) & -lanes)

    def numbers(begin: Index, end: Index, width: int) -> None:
        loop = begin_loop(f, begin, end, width)
        words = philox_words(name, base, seed, loop.index, width)
        a, b = (vector(broadcast(value, width)) for value in bounds)
        draw = _normal if normal else _uniform
        store(out, element_type, loop.index, draw(element_type, words, a, b))
        loop.end()

    numbers(start, whole, lanes)
    numbers(whole, stop, 1)
    task.end()
    f.finish()
    steps = [Step(name), Step(fill, -(-shape.size // _CHUNK), shape.size * (8.0 if normal else 4.0))]
    return finish_kernel(unit, steps, 64)


def _fraction(words: list[Vector], element: str) -> Vector:
    """Uniform on [0, 1): as many high bits as the type holds exactly."""
    if element == "double":
        wide = words[0].cast("zext", "i64") | words[1].cast("zext", "i64").shl(32)
        return wide.lshr(11).cast("uitofp", "double") * 2.0**-53
    return words[0].lshr(8).cast("uitofp", "float") * 2.0**-24


def _uniform(element_type: str, words: list[Vector], a: Vector, b: Vector) -> Register:
    number_kind = kind(element_type)
    if number_kind == "pred":
        return words[0].cast("trunc", "i1")
    if number_kind == "float":
        drawn = a + (b - a) * _fraction(words, a.element)
        drawn = vector(round_to(element_type, drawn))
        # Rounding may reach the bound that is not part of the interval.
        return where(drawn.lt(b), drawn, a)
    bits = BITS[compute_element(element_type)]
    wide = words[0].cast("zext", "i64") | words[1].cast("zext", "i64").shl(32)
    extent = (b - a).resize("i64", False)
    extent = where(extent.eq(0), 1, extent)
    offset = wide.urem(extent)
    result = a + (offset if bits == 64 else offset.cast("trunc", f"i{bits}"))
    return round_to(element_type, result)


def _normal(element_type: str, words: list[Vector], mean: Vector, deviation: Vector) -> Register:
    part = "f64" if element_type == "f64" else "f32"
    element = compute_element(part)
    # 1 - u is in (0, 1], where the logarithm is finite.
    radius = 1.0 - _fraction(words[:2], element)
    angle = _fraction(words[2:], element) * (2 * pi)
    logarithm = vector(emit_elementwise("log", {}, [part], part, [radius]))
    cosine = vector(emit_elementwise("cosine", {}, [part], part, [angle]))
    result = mean + deviation * ((logarithm * -2.0).sqrt() * cosine)
    return round_to(element_type, result)
