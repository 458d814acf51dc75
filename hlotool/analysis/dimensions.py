"""Which dimensions of a module have one size: what follows from another size of a parameter.

Every dimension of every array is a variable; what an operation says makes two variables one, or one the sum or product
of others, or fixes it.  What an operation does with sizes that is not known here fixes all that it touches, so that
nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from hlotool.ir import Computation, Instruction, Module, Shape
from hlotool.ir.attributes import WindowDimension
from hlotool.lazy_dataclass import dataclass

__all__ = ["Conflict", "Dimensions"]

_ALIKE = frozenset(
    {"copy", "opt-barrier", "reverse", "sort", "map", "all-reduce", "reduce-precision", "convert", "cholesky", "domain"}
)
_FREE = frozenset(
    {"iota", "rng", "parameter", "constant", "partition-id", "replica-id", "after-all", "get-dimension-size"}
)
_PASSED = frozenset({"tuple", "get-tuple-element", "while", "call", "conditional", "fusion"})


@dataclass(frozen=True, slots=True)
class Conflict:
    """An instruction that cannot have the sizes that follow, and why."""

    instruction: Instruction
    message: str


class Dimensions:
    """The variables of a module and what its operations say of them."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.first: dict[Instruction, list[int]] = {}  # of each leaf of a value, its first variable
        self.old: list[int] = []
        self._parent: list[int] = []
        self._fixed: dict[int, Conflict] = {}
        self._sums: list[tuple[Instruction, int, list[int]]] = []
        self._products: list[tuple[Instruction, list[int], list[int]]] = []
        for one in module.instructions():
            self.first[one] = [self._variables(leaf) for leaf in one.shape.leaves()]
        for one in module.instructions():
            self._say(one)

    def variables(self, one: Instruction, leaf: int = 0) -> list[int]:
        """The variables of the dimensions of a leaf of a value."""
        shape = list(one.shape.leaves())[leaf]
        return [self.find(self.first[one][leaf] + n) for n in range(shape.rank)]

    def solve(self, given: dict[int, int]) -> tuple[dict[int, int], list[Conflict]]:
        """The new sizes of variables, where some are `given`, and what contradicts them."""
        sizes: dict[int, int] = {}
        for variable, size in given.items():
            root = self.find(variable)
            if sizes.setdefault(root, size) != size:
                place = next(one for one in self.module.instructions() if self._has(one, root))
                return sizes, [Conflict(place, f"a dimension is to have {sizes[root]} and {size} elements")]
        while self._follow(sizes):
            pass
        return sizes, self._conflicts(sizes)

    def find(self, variable: int) -> int:
        root = variable
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[variable] != root:
            self._parent[variable], variable = root, self._parent[variable]
        return root

    # ---- sizes

    def _new(self, sizes: dict[int, int], variable: int) -> int:
        root = self.find(variable)
        return sizes.get(root, self.old[root])

    def _follow(self, sizes: dict[int, int]) -> bool:
        """Sizes that follow from those that are known to be other than before."""
        before = len(sizes)
        for _, result, parts in self._sums:
            if any(self.find(part) in sizes for part in parts):
                sizes.setdefault(self.find(result), sum(self._new(sizes, part) for part in parts))
        for _, ours, theirs in self._products:
            for whole, parts in ((ours, theirs), (theirs, ours)):
                if len(whole) == 1 and any(self.find(part) in sizes for part in parts):
                    sizes.setdefault(self.find(whole[0]), prod(self._new(sizes, part) for part in parts))
        return len(sizes) > before or self._split(sizes)

    def _split(self, sizes: dict[int, int]) -> bool:
        """What was merged from dimensions, and is taken apart into dimensions of the same sizes, is taken apart into
        those: true where two variables became one."""
        merged: dict[int, list[list[int]]] = {}
        for _, ours, theirs in self._products:
            for whole, parts in ((ours, theirs), (theirs, ours)):
                if len(whole) == 1 and self.find(whole[0]) in sizes:
                    merged.setdefault(self.find(whole[0]), []).append(parts)
        joined = False
        for groups in merged.values():
            known = next((group for group in groups if any(self.find(part) in sizes for part in group)), None)
            for group in groups if known is not None else ():
                assert known is not None
                alike = [self.old[part] for part in group] == [self.old[part] for part in known]
                for a, b in zip(known, group, strict=True) if alike and group is not known else ():
                    joined |= self._join_sized(a, b, sizes)
        return joined

    def _join_sized(self, a: int, b: int, sizes: dict[int, int]) -> bool:
        x, y = self.find(a), self.find(b)
        if x == y or (x in sizes and y in sizes and sizes[x] != sizes[y]):
            return False
        size = sizes.get(x, sizes.get(y))
        self._join(a, b)
        if size is not None:
            sizes[self.find(a)] = size
        return True

    def _conflicts(self, sizes: dict[int, int]) -> list[Conflict]:
        found: list[Conflict] = []
        for variable, conflict in self._fixed.items():
            if self._is_other(sizes, variable):
                found.append(conflict)
        for one, result, parts in self._sums:
            touched = any(self.find(v) in sizes for v in (result, *parts))
            if touched and self._new(sizes, result) != sum(self._new(sizes, part) for part in parts):
                found.append(Conflict(one, "the sizes of its operands do not add up to that of its result"))
        for one, ours, theirs in self._products:
            touched = any(self.find(v) in sizes for v in (*ours, *theirs))
            new = [[self._new(sizes, v) for v in side] for side in (ours, theirs)]
            if touched and prod(new[0]) != prod(new[1]):
                old = [[self.old[v] for v in side] for side in (ours, theirs)]
                message = f"of {old[0]} to {old[1]}, which dimensions change with the size cannot be told"
                found.append(Conflict(one, message))
        unique: dict[Instruction, Conflict] = {}
        for conflict in found:
            unique.setdefault(conflict.instruction, conflict)
        return list(unique.values())

    def _is_other(self, sizes: dict[int, int], variable: int) -> bool:
        root = self.find(variable)
        return root in sizes and sizes[root] != self.old[variable]

    def _has(self, one: Instruction, root: int) -> bool:
        return any(root in self.variables(one, leaf) for leaf in range(len(self.first[one])))

    # ---- what operations say

    def _variables(self, shape: Shape) -> int:
        start = len(self.old)
        self.old += shape.dimensions
        self._parent += range(start, start + shape.rank)
        return start

    def _join(self, a: int, b: int) -> None:
        x, y = self.find(a), self.find(b)
        if x != y:
            self._parent[max(x, y)] = min(x, y)

    def _equal(self, one: Instruction, other: Instruction) -> None:
        """Two values with the same sizes."""
        for a, b, shape in zip(self.first[one], self.first[other], one.shape.leaves(), strict=True):
            for n in range(shape.rank):
                self._join(a + n, b + n)

    def _fix(self, one: Instruction, variables: Sequence[int], message: str) -> None:
        for variable in variables:
            self._fixed.setdefault(variable, Conflict(one, message))

    def _fix_all(self, one: Instruction) -> None:
        """An operation of which it is not known here what the sizes mean."""
        message = f"what the sizes of {one.written} depend on is not known"
        for value in (one, *one.operands):
            for start, shape in zip(self.first[value], value.shape.leaves(), strict=True):
                self._fix(one, range(start, start + shape.rank), message)

    def _say(self, one: Instruction) -> None:
        opcode = one.opcode
        rule = _RULES.get(opcode)
        if opcode in _FREE:
            if opcode == "constant" and not (one.shape.is_array and (one.literal.is_splat and one.shape.size > 1)):
                for start, shape in zip(self.first[one], one.shape.leaves(), strict=True):
                    self._fix(one, range(start, start + shape.rank), "a constant has the elements that it has")
        elif opcode in _PASSED:
            self._pass(one)
        elif rule is not None:
            rule(self, one)
        elif one.has("elementwise") or opcode in _ALIKE:
            self._alike(one)
        else:
            self._fix_all(one)

    def _alike(self, one: Instruction) -> None:
        """All arrays have the same sizes; scalars may stand beside them."""
        values = [value for value in (one, *one.operands) if not value.shape.is_scalar and not value.shape.is_token]
        leaves = [start for value in values for start in self.first[value]]
        shapes = [shape for value in values for shape in value.shape.leaves()]
        for start, shape in zip(leaves, shapes, strict=True):
            for n in range(shape.rank):
                self._join(leaves[0] + n, start + n)

    def _pass(self, one: Instruction) -> None:
        match one.opcode:
            case "tuple":
                starts = [start for operand in one.operands for start in self.first[operand]]
                self._leaves(starts, self.first[one], one.shape)
            case "get-tuple-element":
                (source,) = one.operands
                before = source.shape.elements[: one.attributes["index"]]
                skipped = sum(len(list(shape.leaves())) for shape in before)
                self._leaves(self.first[source][skipped : skipped + len(self.first[one])], self.first[one], one.shape)
            case "while":
                body, condition = one.attributes["body"], one.attributes["condition"]
                for value in (body.parameters[0], body.root, condition.parameters[0], one.operands[0]):
                    self._equal(one, value)
            case "conditional":
                for operand, branch in zip(one.operands[1:], one.called, strict=True):
                    self._equal(operand, branch.parameters[0])
                    self._equal(one, branch.root)
            case _:
                callee: Computation = one.called[0]
                for operand, parameter in zip(one.operands, callee.parameters, strict=True):
                    self._equal(operand, parameter)
                self._equal(one, callee.root)

    def _leaves(self, ours: Sequence[int], theirs: Sequence[int], shape: Shape) -> None:
        for a, b, leaf in zip(ours, theirs, shape.leaves(), strict=True):
            for n in range(leaf.rank):
                self._join(a + n, b + n)

    # ---- rules of single opcodes

    def _broadcast(self, one: Instruction) -> None:
        for n, dimension in enumerate(one.attributes["dimensions"]):
            self._join(self.first[one.operands[0]][0] + n, self.first[one][0] + dimension)

    def _transpose(self, one: Instruction) -> None:
        for n, dimension in enumerate(one.attributes["dimensions"]):
            self._join(self.first[one.operands[0]][0] + dimension, self.first[one][0] + n)

    def _reduce(self, one: Instruction) -> None:
        count = len(one.operands) // 2
        reduced = set(one.attributes["dimensions"])
        rank = one.operands[0].shape.rank
        kept = [n for n in range(rank) if n not in reduced]
        for operand in one.operands[:count]:
            for n in range(rank):
                self._join(self.first[one.operands[0]][0] + n, self.first[operand][0] + n)
        for start in self.first[one]:
            for n, dimension in enumerate(kept):
                self._join(start + n, self.first[one.operands[0]][0] + dimension)

    def _dot(self, one: Instruction) -> None:
        a, b = (self.first[operand][0] for operand in one.operands)
        values = one.attributes
        batch = values.get("lhs_batch_dims", ()), values.get("rhs_batch_dims", ())
        inner = values.get("lhs_contracting_dims", ()), values.get("rhs_contracting_dims", ())
        for x, y in [*zip(*batch, strict=True), *zip(*inner, strict=True)]:
            self._join(a + x, b + y)
        used = [{*batch[side], *inner[side]} for side in range(2)]
        free = [
            (a, b)[side] + n for side in range(2) for n in range(one.operands[side].shape.rank) if n not in used[side]
        ]
        for n, variable in enumerate([*(a + x for x in batch[0]), *free]):
            self._join(self.first[one][0] + n, variable)

    def _slice(self, one: Instruction) -> None:
        operand = one.operands[0]
        for n, part in enumerate(one.attributes["slice"]):
            pair = self.first[operand][0] + n, self.first[one][0] + n
            if (part.start, part.limit, part.stride) == (0, operand.shape.dimensions[n], 1):
                self._join(*pair)
            else:
                self._fix(one, pair, f"it takes elements [{part.start}:{part.limit}:{part.stride}] of dimension {n}")

    def _pad(self, one: Instruction) -> None:
        for n, part in enumerate(one.attributes["padding"]):
            pair = self.first[one.operands[0]][0] + n, self.first[one][0] + n
            if (part.low, part.high, part.interior) == (0, 0, 0):
                self._join(*pair)
            else:
                self._fix(one, pair, f"the padding of dimension {n} may depend on its size")

    def _concatenate(self, one: Instruction) -> None:
        (dimension,) = one.attributes["dimensions"]
        start = self.first[one][0]
        for operand in one.operands:
            for n in range(one.shape.rank):
                if n != dimension:
                    self._join(start + n, self.first[operand][0] + n)
        self._sums.append((one, start + dimension, [self.first[o][0] + dimension for o in one.operands]))

    def _reshape(self, one: Instruction) -> None:
        operand = one.operands[0]
        a, b = operand.shape.dimensions, one.shape.dimensions
        x, y = self.first[operand][0], self.first[one][0]
        same = 0
        while same < min(len(a), len(b)) and a[same] == b[same]:
            self._join(x + same, y + same)
            same += 1
        if min((*a[same:], *b[same:]), default=1) < 1:
            self._fix_all(one)
            return
        ones = [x + n for n in range(same, len(a)) if a[n] == 1] + [y + n for n in range(same, len(b)) if b[n] == 1]
        self._fix(one, ones, "it puts in or takes out a dimension of one element")
        left, right = ([n for n in range(same, len(sizes)) if sizes[n] != 1] for sizes in (a, b))
        for ours, theirs in _groups([a[n] for n in left], [b[n] for n in right]):
            before, after = [x + left[n] for n in ours], [y + right[n] for n in theirs]
            if len(before) == len(after) == 1:
                self._join(before[0], after[0])
            else:
                self._products.append((one, before, after))

    def _dynamic_slice(self, one: Instruction) -> None:
        self._part(one, one, one.operands[0], one.attributes["dynamic_slice_sizes"])

    def _dynamic_update_slice(self, one: Instruction) -> None:
        self._equal(one, one.operands[0])
        self._part(one, one.operands[1], one.operands[0], one.operands[1].shape.dimensions)

    def _part(self, one: Instruction, part: Instruction, whole: Instruction, sizes: Sequence[int]) -> None:
        """A part of an array at a place that is computed: all of a dimension, or a fixed part of a fixed whole."""
        for n, size in enumerate(sizes):
            pair = self.first[whole][0] + n, self.first[part][0] + n
            if size == whole.shape.dimensions[n] and size != 1:
                self._join(*pair)
            else:
                self._fix(one, pair, f"it takes {size} of {whole.shape.dimensions[n]} elements of dimension {n}")

    def _gather(self, one: Instruction) -> None:
        operand, indices = one.operands
        values = one.attributes
        gone = {*values["collapsed_slice_dims"], *values.get("operand_batching_dims", ())}
        kept = [n for n in range(operand.shape.rank) if n not in gone]
        offsets = values["offset_dims"]
        x, y, z = self.first[operand][0], self.first[indices][0], self.first[one][0]
        for place, n in zip(offsets, kept, strict=True):
            if values["slice_sizes"][n] == operand.shape.dimensions[n] and values["slice_sizes"][n] != 1:
                self._join(x + n, z + place)
            else:
                self._fix(one, (x + n, z + place), f"it takes {values['slice_sizes'][n]} elements of dimension {n}")
        for n in values["collapsed_slice_dims"]:
            self._fix(one, (x + n,), f"its indices are for {operand.shape.dimensions[n]} elements of dimension {n}")
        for n, m in zip(
            values.get("operand_batching_dims", ()), values.get("start_indices_batching_dims", ()), strict=True
        ):
            self._join(x + n, y + m)
        vector = values["index_vector_dim"]
        self._fix(one, [y + vector] if vector < indices.shape.rank else [], "it is the length of an index")
        rows = [n for n in range(one.shape.rank) if n not in offsets]
        for place, n in zip(rows, (n for n in range(indices.shape.rank) if n != vector), strict=True):
            self._join(z + place, y + n)

    def _convolution(self, one: Instruction) -> None:
        labels, values = one.attributes["dim_labels"], one.attributes
        x, y = (self.first[operand][0] for operand in one.operands)
        z = self.first[one][0]
        groups = [values.get(f"{kind}_group_count", 1) for kind in ("feature", "batch")]
        pairs = [(x + labels.input_batch, z + labels.output_batch)]
        features = [(x + labels.input_feature, y + labels.kernel_input_feature)]
        features += [(y + labels.kernel_output_feature, z + labels.output_feature)]
        if labels.text is not None or groups[1] != 1:
            self._fix_all(one)
            return
        for a, b in [*pairs, *(features if groups[0] == 1 else ())]:
            self._join(a, b)
        message = "windows and padding may depend on the size"
        for a, b in features if groups[0] != 1 else ():
            self._fix(one, (a, b), "features are in groups")
        for start, places in ((x, labels.input_spatial), (y, labels.kernel_spatial), (z, labels.output_spatial)):
            self._fix(one, [start + n for n in places], message)

    def _windowed(self, one: Instruction) -> None:
        if not one.shape.is_array:
            self._fix_all(one)
            return
        plain = WindowDimension(1)
        for n, part in enumerate(one.attributes["window"].dimensions):
            pair = self.first[one.operands[0]][0] + n, self.first[one][0] + n
            if part == plain:
                self._join(*pair)
            else:
                self._fix(one, pair, f"the windows along dimension {n} may depend on its size")


def _groups(a: Sequence[int], b: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """The smallest groups of dimensions, in order, that have the same number of elements on both sides."""
    i = j = 0
    while i < len(a) or j < len(b):
        ours: list[int] = []
        theirs: list[int] = []
        left, right = 1, 1
        while True:
            if left <= right and i < len(a) and (not ours or left < right):
                ours.append(i)
                left, i = left * a[i], i + 1
            elif j < len(b) and (not theirs or right < left):
                theirs.append(j)
                right, j = right * b[j], j + 1
            elif left < right and i < len(a):
                ours.append(i)
                left, i = left * a[i], i + 1
            else:
                break
        yield ours, theirs


_RULES: dict[str, Callable[[Dimensions, Instruction], None]] = {
    "broadcast": Dimensions._broadcast,
    "transpose": Dimensions._transpose,
    "reduce": Dimensions._reduce,
    "dot": Dimensions._dot,
    "slice": Dimensions._slice,
    "pad": Dimensions._pad,
    "concatenate": Dimensions._concatenate,
    "reshape": Dimensions._reshape,
    "dynamic-slice": Dimensions._dynamic_slice,
    "dynamic-update-slice": Dimensions._dynamic_update_slice,
    "gather": Dimensions._gather,
    "convolution": Dimensions._convolution,
    "reduce-window": Dimensions._windowed,
}
