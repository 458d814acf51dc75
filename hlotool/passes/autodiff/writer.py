"""What rules write derivatives with: formulas in ordinary arithmetic, zeros, sums over what was broadcast."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hlotool.ir import ELEMENT_TYPES, Computation, Instruction, Module, Shape, UnsupportedError, array
from hlotool.ir.builder import Builder, binary_computation
from hlotool.ir.errors import Diagnostic

__all__ = [
    "Path", "Term", "Writer", "differentiable", "leaf_shape", "leaves", "real_type", "refusal",
]  # fmt: skip

Path = tuple[int, ...]
"""Where a leaf lies in a value: the indices of the tuples around it; empty in an array."""


def leaves(shape: Shape) -> Iterator[tuple[Path, Shape]]:
    """The leaves of a shape, depth first."""
    if not shape.is_tuple:
        yield (), shape
        return
    for index, element in enumerate(shape.elements):
        for path, leaf in leaves(element):
            yield (index, *path), leaf


def leaf_shape(shape: Shape, path: Path) -> Shape:
    for index in path:
        shape = shape.elements[index]
    return shape


def differentiable(shape: Shape) -> bool:
    """Whether values of this shape can have tangents: arrays of floats and of complex numbers."""
    return ELEMENT_TYPES[shape.element_type].kind in ("float", "complex")


def real_type(element_type: str) -> str:
    """The type of the parts of complex numbers; of floats the type itself."""
    return {"c64": "f32", "c128": "f64"}.get(element_type, element_type)


def refusal(instruction: Instruction, reason: str, hint: str | None = None) -> UnsupportedError:
    """The error for an instruction that has no derivative, with the places in the text and in the user's program."""
    metadata = instruction.metadata
    where = ""
    if metadata is not None and metadata.source_file:
        where = f" ({metadata.source_file}:{metadata.source_line})"
    named = instruction.attributes.get("custom_call_target")
    what = instruction.written + (f' "{named}"' if named else "")
    names = instruction.name or ", ".join(instruction.origins) or "?"
    message = f"no derivative of {what} {names}{where}: {reason}"
    return UnsupportedError(message, [Diagnostic(message, instruction.location, hint, UnsupportedError.code)])


class Writer:
    """Writes derivatives with `build`; computations that they need are put in `module`.

    `fetch` gives a value of the program where derivatives are written: it may be another computation.
    """

    def __init__(
        self, module: Module, build: Builder, fetch: Callable[[Instruction], Instruction] | None = None
    ) -> None:
        self.module, self.build = module, build
        self._fetch = fetch
        self._sums: dict[str, Computation] = {}
        self._splats: dict[tuple[object, Shape], Instruction] = {}

    def primal(self, value: Instruction) -> Instruction:
        """A value of the program."""
        return value if self._fetch is None else self._fetch(value)

    def term(self, value: Instruction) -> Term:
        """A value of the program in formulas; it is fetched when a formula needs it."""
        return Term(self, value.shape, lambda: self.primal(value))

    def written(self, value: Instruction) -> Term:
        """A value that was written here, in formulas."""
        return Term(self, value.shape, lambda: value)

    def splat(self, number: complex, shape: Shape) -> Instruction:
        """A number in every element; the same number and shape give the same instruction."""
        shape = array(shape.element_type, shape.dimensions)
        key = number, shape
        found = self._splats.get(key)
        if found is None or found.parent is None:
            kind = ELEMENT_TYPES[shape.element_type].kind
            value = complex(number) if kind == "complex" else number.real if kind == "float" else int(number.real)
            found = self._splats[key] = self.build.splat(value, shape)
        return found

    def zeros(self, shape: Shape) -> Instruction:
        return self.splat(0.0, shape)

    def sum_computation(self, element_type: str) -> Computation:
        """The addition of two scalars."""
        found = self._sums.get(element_type)
        if found is None:
            found = self.module.add(binary_computation("add", element_type, f"sum_{element_type}"))
            self._sums[element_type] = found
        return found

    def sum_over(self, value: Instruction, dimensions: Iterable[int]) -> Instruction:
        """The sum over dimensions; none: the value itself."""
        over = tuple(dimensions)
        if not over:
            return value
        element_type = value.shape.element_type
        zero = self.zeros(array(element_type))
        return self.build.reduce(value, zero, over, self.sum_computation(element_type))

    def add(self, a: Instruction, b: Instruction) -> Instruction:
        return self.build.binary("add", a, b)


class Term:
    """A value in a formula: ``g * (1 - y * y)``.  Numbers stand for arrays full of them."""

    __slots__ = ("_make", "_value", "at", "shape")

    def __init__(self, at: Writer, shape: Shape, make: Callable[[], Instruction]) -> None:
        self.at, self.shape, self._make = at, shape, make
        self._value: Instruction | None = None

    @property
    def value(self) -> Instruction:
        if self._value is None:
            self._value = self._make()
        return self._value

    def _of(self, other: Term | complex) -> Term:
        return other if isinstance(other, Term) else self.at.written(self.at.splat(other, self.shape))

    def _with(self, opcode: str, left: Term, right: Term) -> Term:
        return self.at.written(self.at.build.binary(opcode, left.value, right.value))

    def __add__(self, other: Term | complex) -> Term:
        return self._with("add", self, self._of(other))

    def __radd__(self, other: complex) -> Term:
        return self._with("add", self._of(other), self)

    def __sub__(self, other: Term | complex) -> Term:
        return self._with("subtract", self, self._of(other))

    def __rsub__(self, other: complex) -> Term:
        return self._with("subtract", self._of(other), self)

    def __mul__(self, other: Term | complex) -> Term:
        return self._with("multiply", self, self._of(other))

    def __rmul__(self, other: complex) -> Term:
        return self._with("multiply", self._of(other), self)

    def __truediv__(self, other: Term | complex) -> Term:
        return self._with("divide", self, self._of(other))

    def __rtruediv__(self, other: complex) -> Term:
        return self._with("divide", self._of(other), self)

    def __pow__(self, other: Term | complex) -> Term:
        return self._with("power", self, self._of(other))

    def __neg__(self) -> Term:
        return self.apply("negate")

    def apply(self, opcode: str) -> Term:
        """A function of one operand: ``x.apply("cosine")``."""
        return self.at.written(self.at.build.unary(opcode, self.value))

    def compare(self, direction: str, other: Term | complex) -> Term:
        return self.at.written(self.at.build.compare(self.value, self._of(other).value, direction))

    def where(self, on_true: Term | complex, on_false: Term | complex) -> Term:
        """Chooses by this predicate; one of the two is a term."""
        some = on_true if isinstance(on_true, Term) else on_false
        assert isinstance(some, Term)
        yes, no = some._of(on_true), some._of(on_false)
        return self.at.written(self.at.build.select(self.value, yes.value, no.value))

    def as_complex(self, sign: int = 1, imaginary: bool = False) -> Term:
        """A real value as the real part of a complex one (or as the imaginary one, times `sign`)."""
        part = self if sign == 1 else -self
        zero = self._of(0.0)
        left, right = (zero, part) if imaginary else (part, zero)
        return self._with("complex", left, right)
