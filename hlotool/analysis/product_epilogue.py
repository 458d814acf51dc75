"""What may be computed together with a product: the instructions behind it that read its result where it is made.

The kernel of a dot or a convolution makes its result block by block.  An *epilogue* is what reads the result: it runs
over each block while that is still in the caches, so that the result itself need not be written.  In HLO both are one
fusion of kind ``kOutput`` with one product in its body, whose operands are parameters.

A product's result is a matrix, ``rows`` x ``columns`` in row-major order.  An epilogue reads it element by element (at
the place that it writes itself) or row by row (anywhere in the row, as a softmax or an LSTM cell does); for the latter
a task must hold whole rows.  What it computes may be the part of an array that a dynamic-update-slice writes, as the
steps of a scan do with the array of all their results.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from hlotool.analysis.contraction import matrix_views
from hlotool.analysis.costs import costs_of
from hlotool.analysis.fusibility import is_fusible, is_variadic_reduce
from hlotool.analysis.product_prologue import is_prologue_member, is_streamed, members_of, prologues
from hlotool.ir import Computation, ConvDimensionNumbers, Instruction, Shape, Window, byte_size
from hlotool.lazy_dataclass import dataclass

__all__ = ["PRODUCTS", "Misfit", "Reading", "fused_product", "reading", "result_matrix", "streams_of",
           "updates_of"]  # fmt: skip

PRODUCTS = frozenset({"convolution", "dot"})
"""Opcodes whose kernels take epilogues."""

_MEMBERS = frozenset({
    "bitcast", "broadcast", "constant", "copy", "dynamic-slice", "iota", "parameter", "reduce", "reshape", "slice",
    "tuple",
})  # fmt: skip
"""What an epilogue may hold beside elementwise instructions: nothing that reads other arrays against their order."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why instructions are no epilogue of a product: a rule of `decision_codes`, and words.

    With `form` the code generator could not have it; else it would merely not be worth it.
    """

    rule: str
    reason: str
    form: bool = True


@dataclass(frozen=True, slots=True)
class Reading:
    """How an epilogue reads the product: element by element, or anywhere in its `whole_rows`.

    `against` is why it had better not: a matter of cost alone, for those who make fusions.  One that is there is
    computed all the same.
    """

    whole_rows: bool
    against: Misfit | None = None


def result_matrix(product: Instruction) -> tuple[int, int] | None:
    """Rows (of all items of a batch) and columns of the product's result; None where it is no row-major matrix.

    Here is where another kind of product says what its rows are.
    """
    if not product.shape.is_static or not product.shape.size:
        return None
    if product.opcode == "convolution":
        return _pixels(product)
    view = matrix_views(product)
    if view is None or view.k == 0:
        return None
    return prod(view.batch) * view.m, view.n


def _pixels(convolution: Instruction) -> tuple[int, int] | None:
    """Pixels and features of a convolution's result: without groups or holes, features side by side."""
    get = convolution.attributes.get
    numbers: ConvDimensionNumbers = convolution.attributes["dim_labels"]
    grouped = (get("feature_group_count") or 1) * (get("batch_group_count") or 1) > 1
    holes = any(d.base_dilation > 1 for d in get("window", Window()).dimensions)
    sizes = convolution.shape.dimensions
    empty = any(not operand.shape.size for operand in convolution.operands)
    if grouped or holes or empty or numbers.output_feature != len(sizes) - 1:
        return None
    return prod(sizes[:-1]), sizes[-1]


def fused_product(fusion: Instruction) -> tuple[Instruction, Reading] | None:
    """The product of a fusion that is a product with what makes its operands, with an epilogue, or with both, as the
    code generator takes it; else None."""
    if fusion.opcode != "fusion" or fusion.attributes["kind"] != "kOutput":
        return None
    body: Computation = fusion.attributes["calls"]
    products = [i for i in body if i.opcode in PRODUCTS]
    if len(products) != 1:
        return None
    (product,), made = products, prologues(products[0])
    if made and (product.opcode != "dot" or not all(map(is_prologue_member, members_of(product.operands)))):
        return None
    if made and (view := matrix_views(product)) is not None and view.rhs.lines:
        return None  # panels are for kernels to read as they are
    if product.is_root and not made:
        return None
    how = reading(body, products, product)
    return (product, how) if isinstance(how, Reading) else None


def streams_of(fusion: Instruction, product: Instruction) -> list[Instruction]:
    """The operands of a product's fusion that its epilogue reads."""
    ahead = members_of([product.operands[number] for number in prologues(product)])
    behind = _read_behind(fusion.attributes["calls"], product, ahead)
    return [fusion.operands[parameter.parameter_number] for parameter in behind]


def _read_behind(body: Computation, product: Instruction, ahead: Collection[Instruction]) -> list[Instruction]:
    """The parameters that something else in `body` reads than the product and what is `ahead` of it."""
    return [p for p in body.parameters if any(user is not product and user not in ahead for user in p.users)]


def updates_of(body: Computation) -> list[Instruction]:
    """The results of `body` that are arrays of its caller with a part written anew, which an epilogue can compute."""
    return [
        output for output in (body.root.operands if body.root.opcode == "tuple" else [body.root])
        if output.opcode == "dynamic-update-slice" and output.operands[0].opcode == "parameter"
        and output.shape.is_static and output.shape.rank and output.operands[1].shape.size
        and all(user is body.root and times == 1 for user, times in output.users.items())
    ]  # fmt: skip


def reading(
    body: Computation,
    sources: Sequence[Instruction],
    product: Instruction,
    whole_rows: bool = False,
    others: Sequence[Shape] = (),
) -> Reading | Misfit:
    """How `body` reads `sources`, instructions in it that are or stand for the result of `product`.

    With `whole_rows` they were computed from whole rows of it.  `others` are arrays that the kernel of both would read
    and write beside those of `body`.
    """
    matrix = result_matrix(product)
    if matrix is None:
        return Misfit("product-form", "its result is no matrix of known size")
    rows, columns = matrix
    made = prologues(product) if product.parent is body else ()
    ahead = members_of([product.operands[number] for number in made])
    same = dict.fromkeys(sources, not whole_rows)  # whether read at its own place, or else anywhere in the row
    updates = updates_of(body)
    for instruction in body:
        if instruction in same or instruction is product or instruction in ahead:
            continue
        if instruction in updates and not any(o in same for o in (instruction.operands[0], *instruction.operands[2:])):
            continue
        if not _is_member(instruction):
            return Misfit("product-reader", f"a {instruction.opcode} does not go along with it")
        used = [o for o in instruction.operands if o in same]
        if not used or instruction.opcode == "tuple":
            continue
        if all(same[o] for o in used) and _keeps_place(instruction, used):
            same[instruction] = True
        elif _keeps_row(instruction, used, rows):
            same[instruction] = False
        else:
            return Misfit("product-reader", f"{instruction.opcode} reads it neither element by element nor row by row")
    root = body.root
    outputs = root.operands if root.opcode == "tuple" else [root]
    parts = [output.operands[1] if output in updates else output for output in outputs]
    leaves = [leaf for part in parts for leaf in part.shape.leaves()]
    reduces = any(i.opcode == "reduce" for i in body)
    if all(same.values()) and not reduces and all(leaf.size == rows * columns for leaf in leaves):
        read = [p.shape for p in _read_behind(body, product, ahead) if p not in sources]
        large = [shape for shape in (*read, *leaves, *others) if shape.is_array and shape.size == rows * columns]
        costs = costs_of(product)
        if len(large) <= costs.streams or product.shape.byte_size <= costs.streamed_bytes:
            return Reading(False)
        view = matrix_views(product) if product.opcode == "dot" and not is_streamed(product, made) else None
        if view is not None and view.k <= costs.streamed_terms:
            whole = _whole_rows(product, rows, columns)
            if isinstance(whole, Reading) and whole.against is None:
                return whole
        reason = f"it goes through {len(large)} other arrays as large, in pieces of rows"
        return Reading(False, Misfit("product-streams", reason, form=False))
    if any(_row_rank(leaf, rows) is None for leaf in leaves):
        return Misfit("product-reader", "its readers have results of other rows")
    if is_streamed(product, made):
        return Misfit("product-rows", "its operands are computed for one result after the other")
    return _whole_rows(product, rows, columns)


def _is_member(instruction: Instruction) -> bool:
    if instruction.opcode in ("parameter", "tuple", "get-tuple-element") or is_variadic_reduce(instruction):
        return True
    return is_fusible(instruction) and (instruction.opcode in _MEMBERS or instruction.has("elementwise"))


def _whole_rows(product: Instruction, rows: int, columns: int) -> Reading | Misfit:
    """Whether tasks can hold whole rows of the product, and what speaks against it."""
    costs, row = costs_of(product), columns * byte_size(product.shape.element_type)
    if row > costs.row_bytes:
        return Misfit("product-rows", f"tasks would hold whole rows of {row} bytes")
    if columns == 1 and rows > 1:
        return Misfit("product-rows", "its rows are single elements")
    items = prod(product.operands[1].shape.dimensions[d] for d in product.attributes.get("rhs_batch_dims", ()))
    if rows < min(costs.shared_rows, product.operands[1].shape.size // items * rows // costs.row_work):
        return Reading(True, Misfit("product-rows", f"{rows} rows are too few to share among threads", form=False))
    operand = product.operands[1].shape.byte_size // items
    if operand > costs.repeated_bytes and rows > 1:
        reason = f"every block of rows would read {operand} bytes again"
        return Reading(True, Misfit("product-rows", reason, form=False))
    return Reading(True)


def _keeps_place(instruction: Instruction, used: list[Instruction]) -> bool:
    """Whether an element is computed from those of `used` at the same row-major position."""
    if instruction.has("elementwise"):
        return all(o.shape.dimensions == instruction.shape.dimensions for o in used)
    return instruction.opcode in ("bitcast", "copy", "reshape")


def _keeps_row(instruction: Instruction, used: list[Instruction], rows: int) -> bool:
    """Whether an element in row `r` is computed from elements of `used` in row `r`."""
    shape = next(instruction.shape.leaves())
    rank = _row_rank(shape, rows)
    ranks = [_row_rank(next(o.shape.leaves()), rows) for o in used]
    if rank is None or None in ranks:
        return False
    own = ranks[0] or 0
    get = instruction.attributes.get
    match instruction.opcode:
        case "bitcast" | "copy" | "reshape" | "get-tuple-element":
            return True
        case "slice":
            source = used[0].shape.dimensions
            return all((s.start, s.limit, s.stride) == (0, source[d], 1) for d, s in enumerate(get("slice", ())[:own]))
        case "reduce":
            inputs = instruction.operands[: len(instruction.operands) // 2]
            return all(o in inputs for o in used) and all(d >= own for d in get("dimensions", ()))
        case "broadcast":
            placed = tuple(get("dimensions", ()))[:own]
            return placed == tuple(range(own)) and shape.dimensions[:own] == used[0].shape.dimensions[:own]
        case _ if instruction.has("elementwise"):
            return all(o.shape.dimensions == shape.dimensions for o in used)
        case _:
            return False


def _row_rank(shape: Shape, rows: int) -> int | None:
    """How many leading dimensions count the rows; None where none do."""
    count = 1
    for rank, size in enumerate((*shape.dimensions, 0)):
        if count == rows:
            return rank
        count *= size
    return None
