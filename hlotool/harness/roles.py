"""What a program does with its parameters, as far as made-up values need to know it.

Weights are as small as sums over them are long, so that activations neither grow nor vanish from layer to layer; what
is under a root or a logarithm, or divides, is positive; matrices to be factored can be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from hlotool.ir import Computation, Instruction, Module, element_type
from hlotool.lazy_dataclass import dataclass

__all__ = ["NORMAL", "RANGES", "Role", "roles_of"]

Place = tuple[Instruction, int]
"""An array leaf of an instruction's value."""

_Callers = Mapping[Computation, Sequence[Instruction]]


@dataclass(frozen=True, slots=True)
class Role:
    """What made-up values are to be like.

    `values` is ``normal``; ``positive`` (0.5 to 1.5); ``fraction`` (-0.9 to 0.9); ``step`` (0.01 to 0.03: of time or
    descent, a scalar that enters a loop); ``definite`` (symmetric and positive definite); or ``dominant`` (far from
    singular, and so are its triangles).  `scale` is a factor of normal numbers; integers are from `least` on, less
    than `below`.
    """

    values: str = "normal"
    scale: float = 1.0
    least: int = 0
    below: int = 8


NORMAL = Role()

RANGES = {"positive": (0.5, 1.5), "fraction": (-0.9, 0.9), "step": (0.01, 0.03)}
"""Of values that lie evenly between two numbers."""

_MOVES = frozenset(
    [
        "bitcast", "broadcast", "concatenate", "convert", "copy", "dynamic-slice", "gather", "get-tuple-element",
        "opt-barrier", "pad", "reduce-precision", "reshape", "reverse", "select", "slice", "transpose", "tuple",
    ]
)  # fmt: skip
_POSITIVE: Mapping[str, tuple[int, ...]] = {"log": (0,), "sqrt": (0,), "rsqrt": (0,), "power": (0,), "divide": (1,)}
_ARITHMETIC = frozenset(["add", "cbrt", "divide", "maximum", "minimum", "multiply", "power", "reduce", "rsqrt", "sqrt"])
_FRACTIONS = frozenset(["asin", "acos", "atanh"])
_SYMMETRIC = frozenset(["add", "divide", "multiply", "select", "subtract"])


def roles_of(module: Module, values: Sequence[Instruction] | None = None) -> dict[Place, Role]:
    """For each array leaf of `values` (the entry's parameters) that has a role of its own; others are normal."""
    values = module.entry.parameters if values is None else values
    graph = _Graph(module, values)
    positive = graph.sources(_POSITIVE, _MOVES | _ARITHMETIC)
    fractions = graph.sources(dict.fromkeys(_FRACTIONS, (0,)), _MOVES)
    definite = graph.sources({"cholesky": (0,)}, _MOVES | _SYMMETRIC)
    definite |= graph.sources({"custom-call": (0,)}, _MOVES | _SYMMETRIC, "potrf")
    definite |= graph.reaching(_matrices_of_forms(graph.instructions), _MOVES | _SYMMETRIC)
    dominant = graph.sources({"triangular-solve": (0,)}, _MOVES | {"select"})
    dominant |= graph.sources({"custom-call": (0,)}, _MOVES, "trsm")
    found: dict[Place, Role] = {}
    for parameter in values:
        leaves = [leaf for leaf in parameter.shape.leaves() if leaf.is_array]
        for number, leaf in enumerate(leaves):
            place = (parameter, number)
            row = element_type(leaf.element_type)
            square = leaf.rank >= 2 and leaf.dimensions[-1] == leaf.dimensions[-2]
            if row.is_integer:
                if not leaf.dimensions and _becomes_a_float(place, graph.callers):
                    found[place] = Role(least=1, below=4)
                elif not leaf.dimensions or _enters_a_loop(place, graph.callers):
                    found[place] = Role(least=1)
            elif not (row.is_float or row.is_complex):
                continue
            elif square and place in definite:
                found[place] = Role("definite")
            elif square and place in dominant:
                found[place] = Role("dominant")
            elif row.is_float and place in fractions:
                found[place] = Role("fraction")
            elif row.is_float and place in positive:
                found[place] = Role("positive")
            elif row.is_float and not leaf.dimensions and _enters_a_loop(place, graph.callers):
                found[place] = Role("step")
            elif (terms := _terms(place, graph.callers)) > 1:
                found[place] = Role(scale=terms**-0.5)
    return found


# ---- where a value goes


def _leaf_at(shape_of: Instruction, index: int) -> tuple[int, int]:
    """First and last array leaf of an element of a tuple."""
    sizes = [sum(leaf.is_array for leaf in e.leaves()) for e in shape_of.shape.elements]
    return sum(sizes[:index]), sum(sizes[: index + 1])


def _leaf_count(instruction: Instruction) -> int:
    return sum(leaf.is_array for leaf in instruction.shape.leaves())


def _forward(place: Place) -> Iterator[tuple[Instruction, int, Place | None]]:
    """(user, operand number, leaf that it passes the value on as) for users of a leaf; into computations too."""
    value, leaf = place
    for user in value.users:
        for number, operand in enumerate(user.operands):
            if operand is not value:
                continue
            if user.opcode == "tuple":
                before = sum(_leaf_count(o) for o in user.operands[:number])
                yield user, number, (user, before + leaf)
            elif user.opcode == "get-tuple-element":
                first, last = _leaf_at(value, user.attributes["index"])
                if first <= leaf < last:
                    yield user, number, (user, leaf - first)
            elif user.opcode == "while":
                yield user, number, (user.attributes["body"].parameters[0], leaf)
                yield user, number, (user, leaf)
            elif user.opcode in ("call", "fusion"):
                (called,) = user.called
                yield user, number, (called.parameters[number], leaf)
            elif user.opcode == "conditional":
                if number:
                    yield user, number, (user.called[number - 1].parameters[0], leaf)
            elif user.opcode == "opt-barrier":
                yield user, number, (user, leaf)
            else:
                yield user, number, (user, 0) if user.opcode in _MOVES else None


def _returned(place: Place, caller: Instruction) -> Iterator[Place]:
    """What a leaf of the root of a computation becomes where that is called."""
    value, leaf = place
    if caller.opcode in ("call", "fusion", "conditional"):
        yield caller, leaf
    elif caller.opcode == "while":
        body: Computation = caller.attributes["body"]
        if value.parent is body:
            yield body.parameters[0], leaf
            yield caller, leaf


def _reached(place: Place, callers: _Callers) -> Iterator[tuple[Instruction, int]]:
    """(user, operand number) of all that a leaf comes to unchanged, nearest first.

    From a computation that it came into it goes back to where it came from, of several callers; of the callers of
    those all count.
    """
    start: tuple[Place, Instruction | None] = (place, None)
    pending, seen = [start], {start}
    while pending:
        after: list[tuple[Place, Instruction | None]] = []
        for one, caller in pending:
            for user, number, passed in _forward(one):
                yield user, number
                if passed is not None:
                    after.append((passed, caller if passed[0].parent is user.parent else user))
            computation = one[0].parent
            if one[0].is_root and computation is not None:
                for outer in callers.get(computation, ()) if caller is None else (caller,):
                    after += [(passed, None if passed[0] is outer else outer) for passed in _returned(one, outer)]
        pending = [step for step in dict.fromkeys(after) if step not in seen]
        seen.update(pending)


def _enters_a_loop(place: Place, callers: _Callers) -> bool:
    return any(user.opcode == "while" for user, _ in _reached(place, callers))


def _becomes_a_float(place: Place, callers: _Callers) -> bool:
    """Whether a number serves as nothing else: the argument of a function, say, and no count."""
    users = [
        user
        for user, number in _reached(place, callers)
        if user.opcode not in ("call", "fusion", "tuple") and user.shape.is_array
        and element_type(user.operands[number].shape.element_type).is_integer
    ]  # fmt: skip
    return bool(users) and all(
        user.opcode == "convert" and element_type(user.shape.element_type).is_float for user in users
    )


def _terms(place: Place, callers: _Callers) -> int:
    """How many terms the sums of products have in which a leaf is the weights: the right operand, or beside one that
    is no parameter; 1 where it is first used otherwise."""
    for user, number in _reached(place, callers):
        if user.opcode == "convolution":
            if number != 1:
                return 1
            outputs: int = user.attributes["dim_labels"].kernel_output_feature
            return prod(n for d, n in enumerate(user.operands[1].shape.dimensions) if d != outputs)
        if user.opcode == "dot" and number < 2:
            if number == 0 and _is_given(user.operands[1]):
                return 1
            axes = user.attributes.get(("lhs", "rhs")[number] + "_contracting_dims") or ()
            return prod(user.operands[number].shape.dimensions[axis] for axis in axes)
    return 1


def _matrices_of_forms(instructions: Sequence[Instruction]) -> list[Place]:
    """The matrices A of quadratic forms x'Ax: as in conjugate gradients, most of them are to be positive."""
    found: list[Place] = []
    for form in instructions:
        if form.opcode not in ("dot", "multiply"):
            continue
        for vector, product in (form.operands[:2], form.operands[1::-1]):
            if product.opcode == "dot" and vector in product.operands and vector.shape.rank < 2:
                found += [(matrix, 0) for matrix in product.operands if matrix is not vector]
    return found


def _is_given(value: Instruction) -> bool:
    """Whether a value is a parameter or constant, or only moved from one."""
    seen = set()
    while value not in seen:
        seen.add(value)
        if value.opcode in ("parameter", "constant"):
            return True
        if value.opcode in ("call", "fusion"):
            value = value.called[0].root
        elif value.opcode in _MOVES and value.operands:
            value = value.operands[0]
        else:
            return False
    return False


# ---- where a value comes from


class _Graph:
    """Ways back from what wants values of a kind to `values`."""

    def __init__(self, module: Module, values: Sequence[Instruction]) -> None:
        self.values = frozenset(values)
        self.instructions = [i for computation in module.computations.values() for i in computation]
        self.callers: dict[Computation, list[Instruction]] = {}
        """The instructions that call a computation."""
        for instruction in self.instructions:
            for called in instruction.called:
                self.callers.setdefault(called, []).append(instruction)

    def sources(
        self, ends: Mapping[str, tuple[int, ...]], through: frozenset[str], target: str = ""
    ) -> set[Place]:
        """The values that come to an operand of `ends` (calls of a `target`) by way of opcodes of `through`."""
        places = [
            (instruction.operands[number], 0)
            for instruction in self.instructions
            if instruction.opcode in ends and target in str(instruction.attributes.get("custom_call_target") or "")
            for number in ends[instruction.opcode]
            if number < len(instruction.operands) and instruction.operands[number].shape.is_array
        ]
        return self.reaching(places, through)

    def reaching(self, places: Sequence[Place], through: frozenset[str]) -> set[Place]:
        """The values that come to one of `places` by way of opcodes of `through`."""
        pending = list(places)
        seen, found = set(pending), set()
        while pending:
            place = pending.pop()
            if place[0] in self.values:
                found.add(place)
            elif place[0].opcode not in through and place[0].opcode not in ("parameter", "while", "call", "fusion"):
                continue
            for before in self._before(place):
                if before not in seen:
                    seen.add(before)
                    pending.append(before)
        return found

    def _before(self, place: Place) -> Iterator[Place]:
        """Leaves that a value may come from."""
        value, leaf = place
        if value.opcode == "get-tuple-element":
            yield value.operands[0], _leaf_at(value.operands[0], value.attributes["index"])[0] + leaf
        elif value.opcode == "tuple":
            for operand in value.operands:
                count = _leaf_count(operand)
                if leaf < count:
                    yield operand, leaf
                    return
                leaf -= count
        elif value.opcode in ("while", "opt-barrier"):
            yield value.operands[0], leaf
        elif value.opcode in ("call", "fusion"):
            yield value.called[0].root, leaf
        elif value.opcode == "parameter":
            yield from self._given(value, leaf)
        elif value.opcode in ("dynamic-slice", "gather", "pad"):
            yield value.operands[0], 0
        elif value.opcode == "select":
            yield from ((operand, 0) for operand in value.operands[1:])
        elif not (value.opcode == "multiply" and value.operands[0] is value.operands[1]):  # squares are positive
            yield from ((operand, 0) for operand in value.operands)

    def _given(self, parameter: Instruction, leaf: int) -> Iterator[Place]:
        """What callers give for a parameter."""
        computation = parameter.parent
        assert computation is not None
        for caller in self.callers.get(computation, ()):
            if caller.opcode == "while":
                yield caller.operands[0], leaf
            elif caller.opcode in ("call", "fusion"):
                yield caller.operands[parameter.parameter_number], leaf
            elif caller.opcode == "conditional":
                yield caller.operands[1 + caller.called.index(computation)], leaf
