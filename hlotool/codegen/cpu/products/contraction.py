"""The kernels of dots, alone and in fusions, and of convolutions in fusions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from hlotool.analysis.contraction import MatrixView, matrix_views
from hlotool.analysis.product_epilogue import fused_product, updates_of
from hlotool.analysis.product_prologue import is_streamed, prologues
from hlotool.codegen.cpu.fusions.fusion import emit_outputs
from hlotool.codegen.cpu.products.dot import emit_dot
from hlotool.codegen.cpu.products.epilogue import Epilogue
from hlotool.codegen.cpu.products.prologue import Prologue
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.machine import Machine
from hlotool.codegen.nests.outputs import Output, output_leaves
from hlotool.ir import Instruction, UnsupportedError

__all__ = ["emit_fused_product", "emit_product", "epilogue_of"]


def emit_product(name: str, dot: Instruction, machine: Machine, in_place: Collection[int] = ()) -> Kernel:
    """The kernel of a dot."""
    return emit_dot(name, _view(dot), machine)


def emit_fused_product(name: str, fusion: Instruction, machine: Machine, in_place: Collection[int] = ()) -> Kernel:
    """The kernel of a fusion of a product and its epilogue.

    The outputs may share memory with operands that the epilogue reads at the element being written: the product's own
    result is elsewhere.  Arrays that it updates, but not `in_place`, are copied ahead of the product.
    """
    epilogue, slots = epilogue_of(fusion, machine)
    product, computed = epilogue.product, prologues(epilogue.product)
    if is_streamed(product, computed):
        from hlotool.codegen.cpu.products.streamed import emit_streamed

        kernel = emit_streamed(name, epilogue, slots[-1])
    elif product.opcode == "convolution":
        from hlotool.codegen.cpu.products.conv import convolution_spec, emit_conv

        kernel = emit_conv(name, convolution_spec(product), machine, slots, epilogue)
    else:
        lhs, rhs = (Prologue(o, epilogue.slots) if n in computed else None for n, o in enumerate(product.operands))
        kernel = emit_dot(name, _view(product), machine, slots, None if product.is_root else epilogue, (lhs, rhs))
    copied = [
        [Output(output.region.operands[0], 0, output.slot, output.shape)]
        for number, output in enumerate(epilogue.outputs) if output.region is not None and number not in in_place
    ]  # fmt: skip
    if not copied:
        return kernel
    ahead = emit_outputs(f"ahead_{name}", copied, epilogue.slots, slots[-1], machine)
    return replace(
        kernel, declarations={**ahead.declarations, **kernel.declarations}, library={**ahead.library, **kernel.library},
        definitions=(*ahead.definitions, *kernel.definitions), steps=(*ahead.steps, *kernel.steps),
    )


def epilogue_of(fusion: Instruction, machine: Machine) -> tuple[Epilogue, tuple[int, int, int, int]]:
    """The epilogue of a fusion with a product, and the slots of the product's operands, its result and scratch memory.

    The result has a slot of its own only if it is an output too.
    """
    found = fused_product(fusion)
    if found is None:
        raise UnsupportedError(f"{fusion.name}: this is no fusion of a product and what follows it")
    product, form = found
    slots, count = [], 0
    for operand in fusion.operands:
        slots.append(count)
        count += sum(1 for _ in operand.shape.leaves())
    outputs = []
    updates = updates_of(fusion.attributes["calls"])
    for value, leaf, shape in output_leaves(fusion.attributes["calls"].root):
        outputs.append(Output(value, leaf, count, shape, value if value in updates else None))
        count += 1
    epilogue = Epilogue(
        product=product, outputs=tuple(outputs), slots=tuple(slots), whole_rows=form.whole_rows, machine=machine
    )
    lhs, rhs = (slots[o.parameter_number] if o.opcode == "parameter" else -1 for o in product.operands)
    return epilogue, (lhs, rhs, count if epilogue.kept is None else epilogue.kept.slot, count)


def _view(dot: Instruction) -> MatrixView:
    """UnsupportedError when the dimensions do not collapse (the dot-decomposer pass sees to that)."""
    view = matrix_views(dot)
    if view is None:
        raise UnsupportedError(f"{dot.name}: the dimensions of this dot do not collapse; run the dot-decomposer pass")
    return view
