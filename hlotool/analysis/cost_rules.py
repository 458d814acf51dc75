"""Cost rules: opcode -> flops and transcendentals of one instruction.  The conventions are those of `analysis.cost`."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, prod

from hlotool.analysis.contraction import dot_dimensions
from hlotool.analysis.traffic import UnknownSize, elements
from hlotool.evaluate.xla_annotations import IDENTITY_TARGETS, SINK_TARGETS
from hlotool.ir import OPCODES, UNBOUNDED, Instruction, Shape, WindowDimension
from hlotool.ir.elementwise import ELEMENTWISE_OPCODES
from hlotool.lazy_dataclass import dataclass

__all__ = ["ANNOTATIONS", "APPLYING", "RULES", "Cost", "Rule", "meetings"]


@dataclass(frozen=True, slots=True)
class Cost:
    """Lower bounds that are exact when `is_exact`.

    `unknown` instructions are missing from the numbers; `loops` of unknown trip count were counted as one trip.
    """

    flops: int = 0
    transcendentals: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    unknown: int = 0
    loops: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.transcendentals + other.transcendentals,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
            self.unknown + other.unknown,
            self.loops + other.loops,
        )

    def times(self, count: int) -> Cost:
        """The cost of doing this `count` times; what is unknown stays unknown once."""
        return Cost(
            self.flops * count,
            self.transcendentals * count,
            self.bytes_read * count,
            self.bytes_written * count,
            self.unknown,
            self.loops,
        )

    @property
    def bytes(self) -> int:
        """Read and written."""
        return self.bytes_read + self.bytes_written

    @property
    def is_exact(self) -> bool:
        return not self.unknown and not self.loops

    def arithmetic(self) -> Cost:
        """The same without bytes: what a fused instruction adds."""
        return Cost(self.flops, self.transcendentals, 0, 0, self.unknown, self.loops)


Rule = Callable[[Instruction, Cost, Cost], tuple[int, int]]
"""Flops and transcendentals of an instruction, given what one application of its first and last function costs."""


def _leaf(shape: Shape) -> Shape:
    """The first array of a shape."""
    while shape.elements:
        shape = shape.elements[0]
    return shape


def _is_complex(shape: Shape) -> bool:
    return shape.element_type in ("c64", "c128")


def _each_transcendental(instruction: Instruction, one: Cost, two: Cost) -> tuple[int, int]:
    return 0, elements(_leaf(instruction.shape))


def _each(instruction: Instruction, one: Cost, two: Cost) -> tuple[int, int]:
    """As many per element of the result as the row of the opcode says."""
    row = ELEMENTWISE_OPCODES[instruction.opcode]
    return elements(instruction.shape) * (row.complex_flops if _is_complex(instruction.shape) else row.flops), 0


def _dot(instruction: Instruction, one: Cost, two: Cost) -> tuple[int, int]:
    """2 x results x contracted elements (8 for complex numbers)."""
    lhs = instruction.operands[0].shape
    contracted = [lhs.dimensions[d] for d in dot_dimensions(instruction).lhs_contracting]
    if UNBOUNDED in contracted:
        raise UnknownSize
    return (8 if _is_complex(instruction.shape) else 2) * elements(instruction.shape) * prod(contracted), 0


def _ragged_dot(instruction: Instruction, one: Cost, two: Cost) -> tuple[int, int]:
    """2 x rows x columns x contracted elements: every row belongs to one group."""
    return _dot(instruction, one, two)


def _convolution(instruction: Instruction, one: Cost, two: Cost) -> tuple[int, int]:
    """2 x batch x output features x input features per group x pairs of base and window elements that meet.

    As in XLA positions that fall into the padding or between dilated elements do not count.
    """
    base, kernel = instruction.operands[0].shape, instruction.operands[1].shape
    labels, window = instruction.attributes["dim_labels"], instruction.attributes.get("window")
    if UNBOUNDED in (*base.dimensions, *kernel.dimensions, *instruction.shape.dimensions):
        raise UnknownSize
    features = kernel.dimensions[labels.kernel_input_feature]
    results = instruction.shape.dimensions[labels.output_feature]
    batch = instruction.shape.dimensions[labels.output_batch]
    pairs = 1
    for number, dimension in enumerate(labels.input_spatial):
        positions = instruction.shape.dimensions[labels.output_spatial[number]]
        one_dimension = window.dimensions[number] if window is not None else WindowDimension(1)
        pairs *= meetings(one_dimension, base.dimensions[dimension], positions)
    return (8 if _is_complex(instruction.shape) else 2) * batch * results * features * pairs, 0


def meetings(window: WindowDimension, base: int, positions: int) -> int:
    """Pairs (position, window element) that look at an element of the base, along one dimension."""
    reach = (base - 1) * window.base_dilation
    outer, inner = (window.size, window.window_dilation), (positions, window.stride)
    if outer[0] > inner[0]:
        outer, inner = inner, outer
    if outer[0] > _MOST_STEPS:
        raise UnknownSize
    starts = (step * outer[1] - window.padding_low for step in range(outer[0]))
    return sum(_hits(start, inner[1], inner[0], reach, window.base_dilation) for start in starts)


def _hits(start: int, step: int, count: int, reach: int, dilation: int) -> int:
    """How many of start + n * step with 0 <= n < count are multiples of `dilation` between 0 and `reach`."""
    first, last = max(0, -(start // step)), min(count - 1, (reach - start) // step)
    common = gcd(step, dilation)
    if last < first or start % common:
        return 0
    period = dilation // common
    if period > 1:
        solution = -start // common * pow(step // common, -1, period) % period
        first += (solution - first) % period
    return max(0, (last - first) // period + 1)


def _reduce(instruction: Instruction, one: Cost, two: Cost) -> tuple[int, int]:
    """(elements - results) applications of the reducer: the first value of each result is there already."""
    given, kept = elements(instruction.operands[0].shape), elements(_leaf(instruction.shape))
    count = max(0, given - kept)
    return count * one.flops, count * one.transcendentals


def _reduce_window(instruction: Instruction, one: Cost, two: Cost) -> tuple[int, int]:
    """(window elements - 1) applications per result."""
    window = instruction.attributes.get("window")
    inside = prod(d.size for d in window.dimensions) if window is not None else 1
    count = max(0, inside - 1) * elements(_leaf(instruction.shape))
    return count * one.flops, count * one.transcendentals


def _select_and_scatter(instruction: Instruction, one: Cost, two: Cost) -> tuple[int, int]:
    """Per source element (window elements - 1) selections and one scatter."""
    window = instruction.attributes.get("window")
    inside = prod(d.size for d in window.dimensions) if window is not None else 1
    source = elements(instruction.operands[1].shape)
    select, scatter = max(0, inside - 1) * source, source
    return (
        select * one.flops + scatter * two.flops,
        select * one.transcendentals + scatter * two.transcendentals,
    )


def _map(instruction: Instruction, one: Cost, two: Cost) -> tuple[int, int]:
    count = elements(instruction.shape)
    return count * one.flops, count * one.transcendentals


def _scan(instruction: Instruction, one: Cost, two: Cost) -> tuple[int, int]:
    """One application per place along the dimension."""
    along = instruction.operands[0].shape
    if instruction.attributes["num_carries"] == len(instruction.operands):
        along = _leaf(instruction.shape)
    (axis,) = instruction.attributes["dimensions"]
    length = along.dimensions[axis]
    return length * one.flops, length * one.transcendentals


def _scatter(instruction: Instruction, one: Cost, two: Cost) -> tuple[int, int]:
    """One application per update."""
    count = elements(instruction.operands[-1].shape)
    return count * one.flops, count * one.transcendentals


def _sort(instruction: Instruction, one: Cost, two: Cost) -> tuple[int, int]:
    """n ceil(log2 n) comparisons for each of the sorted vectors."""
    shape = instruction.operands[0].shape
    size = shape.dimensions[instruction.attributes["dimensions"][0]]
    count = elements(shape) * max(0, size - 1).bit_length()
    return count * one.flops, count * one.transcendentals


def _topk(instruction: Instruction, one: Cost, two: Cost) -> tuple[int, int]:
    """A heap of k for each vector: n ceil(log2 (k + 1)) comparisons."""
    return elements(instruction.operands[0].shape) * instruction.attributes["k"].bit_length(), 0


def _cholesky(instruction: Instruction, one: Cost, two: Cost) -> tuple[int, int]:
    """n^3 / 3 for each matrix, and n square roots."""
    size = instruction.shape.dimensions[-1]
    matrices = elements(instruction.shape) // max(1, size * size)
    factor = 4 if _is_complex(instruction.shape) else 1
    return matrices * factor * size**3 // 3, matrices * size


def _triangular_solve(instruction: Instruction, one: Cost, two: Cost) -> tuple[int, int]:
    """n^2 for each vector of the right-hand side."""
    size = instruction.operands[0].shape.dimensions[-1]
    return (4 if _is_complex(instruction.shape) else 1) * elements(instruction.operands[1].shape) * size, 0


def _fft(instruction: Instruction, one: Cost, two: Cost) -> tuple[int, int]:
    """5 n log2 n for each complex transform of n points, half of it for a real one (Cooley and Tukey)."""
    lengths = instruction.attributes["fft_length"]
    points = prod(lengths)
    if not points:
        return 0, 0
    real = instruction.attributes["fft_type"] in ("RFFT", "IRFFT")
    wide = instruction.operands[0].shape if instruction.attributes["fft_type"] == "RFFT" else instruction.shape
    whole = elements(wide) * 5 * max(0, points - 1).bit_length()
    return whole // 2 if real else whole, 0


def _batch_norm(per_element: int) -> Rule:
    """Some flops per element, a division and a square root per feature."""

    def rule(instruction: Instruction, one: Cost, two: Cost) -> tuple[int, int]:
        operand = instruction.operands[0].shape
        features = operand.dimensions[instruction.attributes["feature_index"]]
        return per_element * elements(operand) + 2 * features, features

    return rule


def _all_reduce(instruction: Instruction, one: Cost, two: Cost) -> tuple[int, int]:
    """(devices - 1) applications per element; two devices where the groups do not say."""
    groups = instruction.attributes.get("replica_groups")
    sizes = [len(group) for group in groups.groups] if groups is not None else []
    count = max(0, max(sizes, default=2) - 1) * sum(elements(o.shape) for o in instruction.operands)
    return count * one.flops, count * one.transcendentals


def _unknown(instruction: Instruction, one: Cost, two: Cost) -> tuple[int, int]:
    raise UnknownSize


RULES: dict[str, Rule] = {
    **{name: _each_transcendental if row.transcendental else _each for name, row in ELEMENTWISE_OPCODES.items()},
    "rng": _each_transcendental,
    "rng-bit-generator": lambda instruction, one, two: (0, elements(instruction.shape.elements[1])),
    "dot": _dot,
    "ragged-dot": _ragged_dot,
    "scaled-dot": _dot,
    "convolution": _convolution,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
    "map": _map,
    "scan": _scan,
    "scatter": _scatter,
    "sort": _sort,
    "topk": _topk,
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
    "fft": _fft,
    "batch-norm-training": _batch_norm(7),  # sum; centre, square, sum; normalise, scale, shift
    "batch-norm-inference": _batch_norm(4),  # centre, normalise, scale, shift
    "batch-norm-grad": _batch_norm(11),  # centre and normalise, two sums with a product, five for the input's gradient
    "all-reduce": _all_reduce,
    "all-reduce-start": _all_reduce,
    "reduce-scatter": _all_reduce,
    "custom-call": _unknown,
}
"""Opcode -> flops and transcendentals of one instruction; opcodes that are not here compute nothing themselves."""

_MOST_STEPS = 1 << 20  # a window larger than this in both ways is not worth counting
APPLYING = frozenset(
    row.name for row in OPCODES.values() if any(a.name in ("to_apply", "select") for a in row.attributes)
)
"""Opcodes that apply functions to elements."""

ANNOTATIONS = IDENTITY_TARGETS | SINK_TARGETS
"""Targets of custom calls that compute nothing."""
