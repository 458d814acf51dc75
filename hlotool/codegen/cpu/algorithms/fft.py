"""fft: FFT, IFFT, RFFT and IRFFT over the last one to three dimensions, any length, single and double precision.

Every dimension is a step, or a few.  Real transforms of even length are complex ones of half the length with one more
sweep.
"""

from __future__ import annotations

from math import prod

from hlotool.codegen.cpu.algorithms.fft_complex import Axis, transform_axis, transform_dimensions
from hlotool.codegen.cpu.algorithms.fft_steps import Buffer, Code, Steps
from hlotool.codegen.cpu.algorithms.fourier import conjugate, product
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.llvm.arguments import empty_kernel
from hlotool.codegen.llvm.control import begin_loop
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Index, Vector, choose, either, equal, zeros
from hlotool.codegen.machine import Machine
from hlotool.ir import Instruction, UnsupportedError

__all__ = ["emit_fft"]


def emit_fft(name: str, instruction: Instruction, machine: Machine, in_place: bool = False) -> Kernel:
    """The kernel of ``fft(operand), fft_type=, fft_length=``; inverse transforms are normalised."""
    source, result = instruction.operands[0].shape, instruction.shape
    kinds = {"f32": "float", "c64": "float", "f64": "double", "c128": "double"}
    lengths, fft_type = tuple(instruction.attributes["fft_length"]), instruction.attributes["fft_type"]
    if source.element_type not in kinds or not 1 <= len(lengths) <= 3:
        raise UnsupportedError(f"{instruction.name}: fft of {source} over {len(lengths)} dimensions")
    if result.size == 0 or source.size == 0:
        return empty_kernel(name, machine)
    steps = Steps(name, machine, kinds[source.element_type])
    outer, count = prod(result.dimensions[: -len(lengths)]), len(lengths)
    *leading, n = lengths
    lines = outer * prod(leading)
    sign = -1 if fft_type in ("FFT", "RFFT") else 1
    scale = 1.0 if sign < 0 else 1.0 / prod(lengths)
    operand, target = (0, 0), (1, 0)
    spectrum = (outer, *leading, n // 2 + 1)
    if fft_type == "RFFT":
        half = target if count == 1 else steps.reserve(prod(spectrum) * steps.complex_bytes)
        _real_forward(steps, operand, half, lines, n)
        transform_dimensions(steps, half, target, spectrum, count - 1, sign=sign, scale=scale)
    elif fft_type == "IRFFT":
        half = operand if count == 1 else steps.reserve(prod(spectrum) * steps.complex_bytes)
        transform_dimensions(steps, operand, half, spectrum, count - 1, sign=sign, scale=1.0)
        _real_inverse(steps, half, target, lines, n, scale)
    else:
        transform_dimensions(steps, operand, target, (outer, *lengths), count, sign=sign, scale=scale)
    return finish_kernel(steps.unit, steps.steps, steps.scratch)


def _real_forward(steps: Steps, source: Buffer, target: Buffer, count: int, n: int) -> None:
    """Real lines of n to n / 2 + 1 coefficients."""
    bins, half = n // 2 + 1, n // 2
    if n % 2 == 0 and n >= 4:
        packed = steps.reserve(count * half * steps.complex_bytes)
        transform_axis(steps, Axis(source=source, target=packed, outer=count, n=half, sign=-1))
        _halves(steps, packed, target, count, half)
        return
    wide, spectrum = (steps.reserve(count * n * steps.complex_bytes) for _ in range(2))

    def widen(code: Code, line: Index, j: Index) -> None:
        into, place = code.line(wide), line * n + j
        real = code.at(source, line * n + j).load(code.kind, align=BITS[code.kind] // 8)
        into.put(place, (real, zeros(code.f, code.kind)))

    def cut(code: Code, line: Index, k: Index) -> None:
        into, place = code.line(target), line * bins + k
        into.put(place, code.line(spectrum).get(line * n + k))

    steps.each_value("widen", count, n, widen)
    transform_axis(steps, Axis(source=wide, target=spectrum, outer=count, n=n, sign=-1))
    steps.each_value("cut", count, bins, cut)


def _real_inverse(steps: Steps, source: Buffer, target: Buffer, count: int, n: int, scale: float) -> None:
    """n / 2 + 1 coefficients to real lines of n; imaginary parts that must be zero are not read."""
    bins, half = n // 2 + 1, n // 2
    if n % 2 == 0 and n >= 4:
        packed = steps.reserve(count * half * steps.complex_bytes)
        _halves(steps, source, packed, count, half, scale)
        transform_axis(steps, Axis(source=packed, target=target, outer=count, n=half, sign=-1))
        return
    whole, lines = (steps.reserve(count * n * steps.complex_bytes) for _ in range(2))

    def extend(code: Code, line: Index, k: Index) -> None:
        mirrored = k > half
        place = choose(mirrored, n - k, k)
        real, imaginary = code.line(source).get(line * bins + place)
        flipped = either(mirrored, -imaginary, imaginary)
        alone = equal(k, 0)
        if n % 2 == 0:
            alone = alone | equal(k, half)
        part = either(alone, zeros(code.f, code.kind), flipped)
        into = line * n + k
        code.line(whole).put(into, (real, part))

    def keep_real(code: Code, line: Index, j: Index) -> None:
        place = line * n + j
        real, _ = code.line(lines).get(place)
        code.at(target, place).store(real, align=BITS[code.kind] // 8)

    steps.each_value("extend", count, n, extend)
    transform_axis(steps, Axis(source=whole, target=lines, outer=count, n=n, sign=1, scale=scale))
    steps.each_value("real", count, n, keep_real)


def _halves(
    steps: Steps, source: Buffer, target: Buffer, count: int, half: int, inverse: float | None = None
) -> None:
    """Between the spectrum X of a real line (half + 1) and the transform Z of its even + i odd elements (half).

    X[k] = E + w^k O and Z[k] = E + i O, with E and O the even and odd parts under k -> half - k, conjugated.  The
    `inverse` direction has a factor, and gives Z back to front: the forward transform of that is the inverse of Z.
    """
    roots = steps.roots(2 * half, -1)
    source_size, target_size = (half, half + 1) if inverse is None else (half + 1, half)
    factor = 0.5 if inverse is None else inverse

    def line(code: Code, task: Index) -> None:
        f = code.f
        spectrum, into = code.line(source, task * (2 * source_size)), code.line(target, task * (2 * target_size))
        if inverse is None:
            real, imaginary = spectrum.get(0)
            into.put(0, (real + imaginary, zeros(f, code.kind)))
            into.put(half, (real - imaginary, zeros(f, code.kind)))
        else:
            low, high = spectrum.get(0)[0], spectrum.get(half)[0]
            into.put(0, ((low + high) * factor, (low - high) * factor))

        def sweep(first: int, stop: int, lanes: int) -> None:
            loop = begin_loop(f, first, stop, lanes)
            k = loop.index
            number = spectrum.get(k, lanes)
            other = spectrum.get(half - lanes + 1 - k, lanes)
            mirror = conjugate((_reversed(other[0]), _reversed(other[1])))
            even = (number[0] + mirror[0]) * factor, (number[1] + mirror[1]) * factor
            odd = (number[0] - mirror[0]) * factor, (number[1] - mirror[1]) * factor
            turn = product(roots.row(f, lanes), roots.spread(f, k, lanes))
            if inverse is None:
                turned = product((odd[1], -odd[0]), turn)
                result = even[0] + turned[0], even[1] + turned[1]
            else:  # Z[half - k], of which X[half - k] is the conjugate of `mirror`
                turned = product(conjugate(odd), turn)
                result = even[0] - turned[1], turned[0] - even[1]
            into.put(k, result)
            loop.end()

        whole = 1 + (half - 1) // steps.lanes * steps.lanes
        if whole > 1:
            sweep(1, whole, steps.lanes)
        if whole < half:
            sweep(whole, half, 1)

    steps.each_task("halves", count, count * half * 1.0, line)


def _reversed(x: Vector) -> Vector:
    return x if x.lanes == 1 else x.shuffle(range(x.lanes - 1, -1, -1))
