"""Modules of HLO as text of StableHLO: functions for the entry and what is called, regions for the rest.

The text is in the generic form with short names of values, which every version of MLIR's tools reads.  Constructs
without a counterpart are refused, all at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from hlotool.ir import (
    Computation,
    Diagnostic,
    Instruction,
    Module,
    Shape,
    UnsupportedError,
    Verbatim,
)
from hlotool.ir.window import window_of
from hlotool.text.lexer import escape
from hlotool.text.stablehlo.export_attributes import (
    Refused,
    collective,
    integers_text,
    kept,
    list_text,
    named,
    number_text,
    padding_text,
    table_text,
)
from hlotool.text.stablehlo.tree import attribute_text, type_text

__all__ = ["export_stablehlo"]

_VERSIONS = {
    "API_VERSION_STATUS_RETURNING": 2, "API_VERSION_STATUS_RETURNING_UNIFIED": 3, "API_VERSION_TYPED_FFI": 4,
}  # fmt: skip


class Writer:
    """The lines of a module."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.lines: list[str] = []
        self.refused: list[Diagnostic] = []
        self.functions: dict[Computation, str] = {}
        self.taken: dict[str, int] = {}  # names of values in the function, and how often they were wanted

    def name(self, wanted: str = "value") -> str:
        """A name of a value that is not taken in the function: that of an instruction, or one like it."""
        count = self.taken.get(wanted, 0)
        self.taken[wanted] = count + 1
        if not count:
            return f"%{wanted}"
        return self.name(f"{wanted}_{count}")

    def put(self, depth: int, text: str) -> None:
        self.lines.append(f"{'  ' * depth}{text}")

    # ---- computations

    def body(self, computation: Computation, names: dict[Instruction, str], depth: int, end: str) -> None:
        """The instructions of a computation; the values of its root are what the block gives."""
        for instruction in computation:
            if instruction in names:
                continue
            try:
                self.instruction(instruction, names, depth)
            except Refused as refusal:
                place = instruction.location
                self.refused.append(Diagnostic(f"{instruction.name}: {refusal}", place, code=UnsupportedError.code))
                names[instruction] = self.name(instruction.name)
        values, types = self.results(computation, names)
        self.put(depth, f'"{end}"({", ".join(values)}) : ({", ".join(types)}) -> ()')

    def results(self, computation: Computation, names: dict[Instruction, str]) -> tuple[list[str], list[str]]:
        """The values that a computation gives: the operands of a tuple at its root, or the root."""
        root = computation.root
        if root.opcode == "tuple" and self.unpacked(computation):
            return [names[one] for one in root.operands], [type_text(one.shape) for one in root.operands]
        return [names[root]], [type_text(root.shape)]

    def unpacked(self, computation: Computation) -> bool:
        """Whether the tuple at the root stands for several results: one result alone is no tuple."""
        root = computation.root
        return root.opcode == "tuple" and len(root.operands) != 1 and not root.users and not _has_own_attributes(root)

    def block(
        self, computation: Computation, depth: int, arguments: Sequence[str], names: dict[Instruction, str]
    ) -> None:
        """A region with a block; `arguments` are its arguments with their types."""
        if arguments:
            self.put(depth, f"^bb0({', '.join(arguments)}):")
        self.body(computation, names, depth + 1, "stablehlo.return")

    def applied(self, computation: Computation, depth: int) -> None:
        """A region whose arguments are the parameters."""
        names: dict[Instruction, str] = {}
        arguments: list[str] = []
        for parameter in computation.parameters:
            names[parameter] = self.name(parameter.name)
            arguments.append(f"{names[parameter]}: {type_text(parameter.shape)}")
        self.block(computation, depth, arguments, names)

    def taken_apart(self, computation: Computation, shape: Shape, depth: int, values: Sequence[str] | None) -> None:
        """A region for a computation of one parameter: the elements of its tuple are the block's arguments, or the
        `values` that are there already."""
        (parameter,) = computation.parameters
        names: dict[Instruction, str] = {}
        shapes = shape.elements if shape.is_tuple else (shape,)
        own = list(values) if values is not None else [self.name(parameter.name) for _ in shapes]
        if shape.is_tuple:
            for user in parameter.users:
                if user.opcode != "get-tuple-element":
                    raise Refused(f"{computation.name} uses its parameter as a tuple")
                names[user] = own[user.attributes["index"]]
            if parameter.is_root:
                raise Refused(f"{computation.name} gives its parameter, a tuple")
            names[parameter] = ""
        else:
            names[parameter] = own[0]
        arguments = [] if values is not None else [
            f"{name}: {type_text(one)}" for name, one in zip(own, shapes, strict=True)
        ]
        self.block(computation, depth, arguments, names)

    # ---- instructions

    def instruction(self, instruction: Instruction, names: dict[Instruction, str], depth: int) -> None:
        shape = instruction.shape
        opcode = instruction.opcode
        if opcode == "tuple" and instruction.is_root and self.unpacked(instruction.parent):  # type: ignore[arg-type]
            names[instruction] = ""
            return
        if opcode == "tuple" and not instruction.is_root and all(map(_takes_apart, instruction.users)):
            names[instruction] = ""
            return
        if instruction.control_predecessors:
            raise Refused("it has control predecessors")
        own = _WRITERS.get(opcode)
        if own is not None:
            own(self, instruction, names, depth)
            return
        operands = [names[one] for one in instruction.operands]
        shapes = [one.shape for one in instruction.operands]
        name, attributes = named(instruction)
        self.operation(instruction, name, operands, shapes, [shape], attributes, names, depth)

    def operation(
        self,
        instruction: Instruction,
        name: str,
        operands: Sequence[str],
        shapes: Sequence[Shape],
        results: Sequence[Shape],
        attributes: dict[str, str],
        names: dict[Instruction, str],
        depth: int,
        regions: Sequence[Callable[[int], None]] = (),
        gives: Sequence[Shape] | None = None,
    ) -> list[str]:
        """A line, or several with regions.  With `gives` the operation has several results, which users take as the
        elements of the tuple that the instruction is."""
        made = list(results if gives is None else gives)
        value = self.name(instruction.name)
        attributes = attributes | kept(instruction)
        inside = ", ".join(f"{key} = {text}" if text else key for key, text in sorted(attributes.items()))
        properties = f" {{{inside}}}" if inside else ""
        left = f"{value}{f':{len(made)}' if len(made) > 1 else ''} = " if made else ""
        types = f"({', '.join(map(type_text, shapes))}) -> {_types(made)}"
        head = f'{left}"{name}"({", ".join(operands)})'
        if regions:
            self.put(depth, f"{head} ({{")
            for number, region in enumerate(regions):
                if number:
                    self.put(depth, "}, {")
                region(depth)
            self.put(depth, f"}}){properties} : {types}")
        else:
            self.put(depth, f"{head}{properties} : {types}")
        values = [value] if len(made) == 1 else [f"{value}#{n}" for n in range(len(made))]
        if gives is None:
            names[instruction] = value
        else:
            self.together(instruction, values, names, depth)
        return values

    def together(
        self, instruction: Instruction, values: Sequence[str], names: dict[Instruction, str], depth: int
    ) -> None:
        """Results as the elements of a tuple: its users read them, and where one wants the tuple, it is made."""
        whole = instruction.is_root
        for user in instruction.users:
            if user.opcode == "get-tuple-element" and not _has_own_attributes(user):
                names[user] = values[user.attributes["index"]]
            else:
                whole = True
        names[instruction] = ""
        if whole:
            shapes = instruction.shape.elements
            made = self.name()
            types = f"({', '.join(map(type_text, shapes))}) -> {type_text(instruction.shape)}"
            self.put(depth, f'{made} = "stablehlo.tuple"({", ".join(values)}) : {types}')
            names[instruction] = made

    def spread(
        self,
        instruction: Instruction,
        name: str,
        attributes: dict[str, str],
        names: dict[Instruction, str],
        depth: int,
        regions: Sequence[Callable[[int], None]] = (),
    ) -> None:
        """An operation that gives one array, or a tuple of arrays as several results."""
        operands = [names[one] for one in instruction.operands]
        shapes = [one.shape for one in instruction.operands]
        gives = list(instruction.shape.elements) if instruction.shape.is_tuple else None
        self.operation(
            instruction, name, operands, shapes, [instruction.shape], attributes, names, depth, regions, gives
        )

    # ---- functions

    def function(self, computation: Computation, name: str, visibility: str, entry: bool) -> None:
        names: dict[Instruction, str] = {}
        arguments: list[str] = []
        self.taken = {}
        for parameter in computation.parameters:
            names[parameter] = self.name(parameter.name)
            rows: dict[str, str] = {}
            if "sharding" in parameter.attributes:
                rows["mhlo.sharding"] = attribute_text(parameter.attributes["sharding"].text)
            if entry:
                rows |= self.donated(parameter)
            inside = ", ".join(f"{key} = {text}" for key, text in sorted(rows.items()))
            own = f" {{{inside}}}" if inside else ""
            arguments.append(f"{names[parameter]}: {type_text(parameter.shape)}{own}")
        root = computation.root
        shapes = [one.shape for one in root.operands] if self.unpacked(computation) else [root.shape]
        self.put(1, f"func.func {visibility} @{name}({', '.join(arguments)}) -> {_types(shapes)} {{")
        self.body(computation, names, 2, "func.return")
        self.put(1, "}")

    def donated(self, parameter: Instruction) -> dict[str, str]:
        rows: dict[str, str] = {}
        for alias in self.module.attributes.get("input_output_alias", ()):
            if alias.operand == parameter.parameter_number and not alias.index:
                rows["tf.aliasing_output"] = f"{alias.output[0] if alias.output else 0} : i32"
        donors = self.module.attributes.get("buffer_donor")
        if isinstance(donors, Verbatim) and f"({parameter.parameter_number}, {{}})" in donors.text:
            rows["jax.buffer_donor"] = "true"
        return rows


def export_stablehlo(module: Module) -> str:
    """The text of a module; UnsupportedError with all constructs that StableHLO has no counterpart of."""
    writer = Writer(module)
    order = module.callees_first()
    taken: set[str] = {"main"}
    for computation in order:
        for instruction in computation.calls:
            if instruction.opcode in ("call", "custom-call"):
                for callee in instruction.called:
                    if callee not in writer.functions:
                        name = callee.name if callee.name not in taken else module.unique_name(callee.name)
                        taken.add(name)
                        writer.functions[callee] = name
    attributes: dict[str, str] = {}
    for key, own in (("replica_count", "mhlo.num_replicas"), ("num_partitions", "mhlo.num_partitions")):
        if key in module.attributes:
            attributes[own] = f"{module.attributes[key]} : i32"
    frontend = module.attributes.get("frontend_attributes")
    if frontend:
        attributes["mhlo.frontend_attributes"] = attribute_text(frontend)
    lost = [key for key in module.attributes if key not in _MODULE]
    for key in lost:
        writer.refused.append(Diagnostic(f"the module has {key}", code=UnsupportedError.code))
    inside = ", ".join(f"{key} = {text}" for key, text in attributes.items())
    name = module.name if not module.name[0].isdigit() else f"_{module.name}"
    writer.put(0, f'module @{_symbol(name)}{f" attributes {{{inside}}}" if inside else ""} {{')
    writer.function(module.entry, "main", "public", entry=True)
    for computation in reversed(order):
        if computation in writer.functions and computation is not module.entry:
            writer.function(computation, _symbol(writer.functions[computation]), "private", entry=False)
    writer.put(0, "}")
    if writer.refused:
        first = writer.refused[0]
        more = f" (and {len(writer.refused) - 1} more)" if len(writer.refused) > 1 else ""
        raise UnsupportedError(f"{first.message}{more}", writer.refused)
    return "\n".join(writer.lines) + "\n"


_MODULE = {
    "replica_count", "num_partitions", "frontend_attributes", "input_output_alias", "buffer_donor",
    "entry_computation_layout", "is_scheduled", "allow_spmd_sharding_propagation_to_output",
    "allow_spmd_sharding_propagation_to_parameters",
}  # fmt: skip
"""Attributes of modules that the text says, or that change nothing."""


def _symbol(name: str) -> str:
    plain = name.replace("-", "_").replace(".", "_").isidentifier() and "-" not in name
    return name if plain else f'"{escape(name)}"'


def _takes_apart(user: Instruction) -> bool:
    """Whether an instruction becomes an operation that takes the elements of a tuple instead of the tuple."""
    return user.opcode in ("while", "conditional", "opt-barrier", "outfeed", "send")


def _types(shapes: Sequence[Shape]) -> str:
    return type_text(shapes[0]) if len(shapes) == 1 else f"({', '.join(map(type_text, shapes))})"


def _has_own_attributes(instruction: Instruction) -> bool:
    return "sharding" in instruction.attributes or "frontend_attributes" in instruction.attributes


# ---- operations with regions or several results

Names = dict[Instruction, str]


def _regions(writer: Writer, *computations: Computation) -> list[Callable[[int], None]]:
    def region(computation: Computation) -> Callable[[int], None]:
        return lambda depth: writer.applied(computation, depth)

    return [region(computation) for computation in computations]


def _reduce(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    attributes = {"dimensions": integers_text(one.attributes["dimensions"])}
    writer.spread(one, "stablehlo.reduce", attributes, names, depth, _regions(writer, one.attributes["to_apply"]))


def _windowed(one: Instruction) -> dict[str, str]:
    window = window_of(one, one.operands[0].shape.rank)
    rows = window.dimensions
    if any(row.reversal for row in rows):
        raise Refused("its window is reversed")
    return {
        "window_dimensions": integers_text([r.size for r in rows]),
        "window_strides": integers_text([r.stride for r in rows]),
        "padding": padding_text(window),
    }  # fmt: skip


def _reduce_window(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    rows = window_of(one, one.operands[0].shape.rank).dimensions
    attributes = _windowed(one) | {
        "base_dilations": integers_text([r.base_dilation for r in rows]),
        "window_dilations": integers_text([r.window_dilation for r in rows]),
    }
    regions = _regions(writer, one.attributes["to_apply"])
    writer.spread(one, "stablehlo.reduce_window", attributes, names, depth, regions)


def _select_and_scatter(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    rows = window_of(one, one.operands[0].shape.rank).dimensions
    if any(row.base_dilation != 1 or row.window_dilation != 1 for row in rows):
        raise Refused("its window is dilated")
    regions = _regions(writer, one.attributes["select"], one.attributes["scatter"])
    writer.spread(one, "stablehlo.select_and_scatter", _windowed(one), names, depth, regions)


def _map(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    dimensions = one.attributes.get("dimensions", tuple(range(one.shape.rank)))
    regions = _regions(writer, one.attributes["to_apply"])
    writer.spread(one, "stablehlo.map", {"dimensions": integers_text(dimensions)}, names, depth, regions)


def _sort(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    attributes = {
        "dimension": f"{one.attributes['dimensions'][0]} : i64",
        "is_stable": str(bool(one.attributes.get("is_stable"))).lower(),
    }
    writer.spread(one, "stablehlo.sort", attributes, names, depth, _regions(writer, one.attributes["to_apply"]))


def _scatter(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    values = one.attributes
    keys = (
        "update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims",
        "scatter_dims_to_operand_dims",
    )  # fmt: skip
    rows = [f"{key} = {list_text(values[key])}" for key in keys if values.get(key)]
    rows.append(f"index_vector_dim = {values['index_vector_dim']}")
    attributes = {
        "scatter_dimension_numbers": f"#stablehlo.scatter<{', '.join(rows)}>",
        "indices_are_sorted": str(bool(values.get("indices_are_sorted"))).lower(),
        "unique_indices": str(bool(values.get("unique_indices"))).lower(),
    }
    writer.spread(one, "stablehlo.scatter", attributes, names, depth, _regions(writer, values["to_apply"]))


def _all_reduce(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    regions = _regions(writer, one.attributes["to_apply"])
    writer.spread(one, "stablehlo.all_reduce", collective(one), names, depth, regions)


def _reduce_scatter(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    if one.shape.is_tuple:
        raise Refused("StableHLO scatters one array at a time")
    attributes = collective(one) | {"scatter_dimension": f"{one.attributes['dimensions'][0]} : i64"}
    regions = _regions(writer, one.attributes["to_apply"])
    writer.spread(one, "stablehlo.reduce_scatter", attributes, names, depth, regions)


def _all_gather(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    attributes = collective(one) | {"all_gather_dim": f"{one.attributes['dimensions'][0]} : i64"}
    writer.spread(one, "stablehlo.all_gather", attributes, names, depth)


def _all_to_all(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    if not one.attributes.get("dimensions"):
        raise Refused("StableHLO exchanges parts of arrays, not arrays")
    dimension = one.attributes["dimensions"][0]
    groups = one.attributes["replica_groups"].groups
    if not groups:
        raise Refused("it does not say its groups")
    attributes = collective(one) | {
        "split_dimension": f"{dimension} : i64", "concat_dimension": f"{dimension} : i64",
        "split_count": f"{len(groups[0])} : i64",
    }  # fmt: skip
    writer.spread(one, "stablehlo.all_to_all", attributes, names, depth)


def _batch_norm(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    attributes = {
        "epsilon": f"{number_text(one.attributes['epsilon'])} : f32",
        "feature_index": f"{one.attributes['feature_index']} : i64",
    }
    writer.spread(one, f"stablehlo.{one.opcode.replace('-', '_')}", attributes, names, depth)


def _rng(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    sizes = Shape("s64", (one.shape.rank,))
    value = writer.name()
    inside = f"[{', '.join(map(str, one.shape.dimensions))}]" if one.shape.rank else ""
    type_ = type_text(sizes)
    writer.put(depth, f'{value} = "stablehlo.constant"() {{value = dense<{inside}> : {type_}}} : () -> {type_}')
    operands = [*(names[o] for o in one.operands), value]
    shapes = [*(o.shape for o in one.operands), sizes]
    kind = one.attributes["distribution"].removeprefix("rng_").upper()
    attributes = {"rng_distribution": f"#stablehlo<rng_distribution {kind}>"}
    writer.operation(one, "stablehlo.rng", operands, shapes, [one.shape], attributes, names, depth)


def _rng_bits(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    if not one.shape.is_tuple:
        raise Refused("it does not give its state")
    kind = one.attributes["algorithm"].removeprefix("rng_").upper()
    attributes = {"rng_algorithm": f"#stablehlo<rng_algorithm {kind}>"}
    writer.spread(one, "stablehlo.rng_bit_generator", attributes, names, depth)


def _top_k(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    if not one.attributes.get("largest", True):
        raise Refused("chlo.top_k gives the largest")
    writer.spread(one, "chlo.top_k", {"k": f"{one.attributes['k']} : i64"}, names, depth)


def _barrier(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    (source,) = one.operands
    if not one.shape.is_tuple:
        writer.operation(
            one, "stablehlo.optimization_barrier", [names[source]], [source.shape], [one.shape], {}, names, depth
        )
        return
    values = _elements(writer, source, names, depth)
    shapes = source.shape.elements
    writer.operation(
        one, "stablehlo.optimization_barrier", values, shapes, [one.shape], {}, names, depth, gives=shapes
    )


def _elements(writer: Writer, source: Instruction, names: Names, depth: int) -> list[str]:
    """The elements of a tuple, as values."""
    if source.opcode == "tuple":
        return [names[one] for one in source.operands]
    if not names[source]:
        made = {user.attributes["index"]: user for user in source.users if user.opcode == "get-tuple-element"}
        if set(made) == set(range(len(source.shape.elements))):
            return [names[made[n]] for n in range(len(source.shape.elements))]
        raise Refused(f"it takes {source.name} as a tuple")
    values: list[str] = []
    for index, shape in enumerate(source.shape.elements):
        value = writer.name()
        head = f'{value} = "stablehlo.get_tuple_element"({names[source]}) {{index = {index} : i32}}'
        writer.put(depth, f"{head} : ({type_text(source.shape)}) -> {type_text(shape)}")
        values.append(value)
    return values


def _while(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    (initial,) = one.operands
    shape = one.shape
    condition, body = one.attributes["condition"], one.attributes["body"]
    if shape.is_tuple and (len(shape.elements) == 1 or any(e.is_tuple for e in shape.elements)):
        raise Refused("its state is a tuple of tuples, or of one value")
    values = _elements(writer, initial, names, depth) if shape.is_tuple else [names[initial]]
    shapes = list(shape.elements) if shape.is_tuple else [shape]
    if shape.is_tuple and body.root.opcode != "tuple":
        raise Refused(f"the root of {body.name} is no tuple")
    regions: list[Callable[[int], None]] = [
        lambda inner: writer.taken_apart(condition, shape, inner, None),
        lambda inner: writer.taken_apart(body, shape, inner, None),
    ]
    gives = shapes if shape.is_tuple else None
    writer.operation(one, "stablehlo.while", values, shapes, [shape], {}, names, depth, regions, gives)


def _conditional(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    index, *operands = one.operands
    branches = (
        list(one.attributes["branch_computations"]) if "branch_computations" in one.attributes
        else [one.attributes["true_computation"], one.attributes["false_computation"]]
    )  # fmt: skip
    for branch in branches:
        if one.shape.is_tuple and branch.root.opcode != "tuple":
            raise Refused(f"the root of {branch.name} is no tuple")
    if one.shape.is_tuple and len(one.shape.elements) == 1:
        raise Refused("it gives a tuple of one value")
    inputs: list[list[str]] = []
    for operand in operands:
        inputs.append(_elements(writer, operand, names, depth) if operand.shape.is_tuple else [names[operand]])

    def region(number: int) -> Callable[[int], None]:
        return lambda inner: writer.taken_apart(branches[number], operands[number].shape, inner, inputs[number])

    regions = [region(number) for number in range(len(branches))]
    name = "stablehlo.if" if index.shape.element_type == "pred" else "stablehlo.case"
    gives = list(one.shape.elements) if one.shape.is_tuple else None
    writer.operation(one, name, [names[index]], [index.shape], [one.shape], {}, names, depth, regions, gives)


def _call(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    callee = one.attributes["to_apply"]
    name = _symbol(writer.functions[callee])
    attributes = {"callee": f"@{name}"}
    operation = "func.call"
    if one.attributes.get("is_composite"):
        frontend = one.attributes.get("frontend_attributes", {})
        operation = "stablehlo.composite"
        attributes = {
            "name": attribute_text(frontend.get("composite.name", "")),
            "composite_attributes": frontend.get("composite.attributes", "{}"),
            "decomposition": f"@{name}", "version": f"{frontend.get('composite.version', '0')} : i32",
        }  # fmt: skip
    gives = list(one.shape.elements) if writer.unpacked(callee) else None
    operands = [names[o] for o in one.operands]
    shapes = [o.shape for o in one.operands]
    writer.operation(one, operation, operands, shapes, [one.shape], attributes, names, depth, gives=gives)


def _custom_call(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    values = one.attributes
    for key in ("window", "dim_labels", "feature_group_count", "batch_group_count", "padding_type", "literal",
                "operand_precision", "schedule", "to_apply"):  # fmt: skip
        if key in values:
            raise Refused(f"custom_call has no attribute {key}")
    attributes = {"call_target_name": attribute_text(values["custom_call_target"])}
    if values.get("custom_call_has_side_effect"):
        attributes["has_side_effect"] = "true"
    version = _VERSIONS.get(values.get("api_version", ""), 1)
    config = values.get("backend_config", "")
    if version != 1:
        attributes["api_version"] = f"{version} : i32"
    if config:
        typed = version == 4 and config.startswith("{") and not _is_json(config)
        attributes["backend_config"] = config if typed else attribute_text(config)
    called = values.get("called_computations", ())
    if called:
        attributes["called_computations"] = f"[{', '.join(f'@{_symbol(writer.functions[c])}' for c in called)}]"
    constraints = values.get("operand_layout_constraints")
    shape = one.shape
    results = list(shape.elements) if shape.is_tuple else [shape]
    if constraints is not None:
        attributes["operand_layouts"] = f"[{', '.join(map(_layout, constraints))}]"
        attributes["result_layouts"] = f"[{', '.join(map(_layout, results))}]"
    elif any(r.layout is not None and not r.layout.is_row_major for r in results):
        raise Refused("its result has a layout of its own, its operands have none")
    rows = [
        f"#stablehlo.output_operand_alias<output_tuple_indices = {list_text(a.output)}, operand_index = {a.operand}, "
        f"operand_tuple_indices = {list_text(a.index)}>"
        for a in values.get("output_to_operand_aliasing", ())
    ]
    if rows:
        attributes["output_operand_aliases"] = f"[{', '.join(rows)}]"
    if shape.is_tuple and len(results) == 1:
        raise Refused("it gives a tuple of one value")
    parts = [user for user in one.users if user.opcode == "get-tuple-element" and not _has_own_attributes(user)]
    if shape.is_tuple and results and len(parts) < len(one.users):
        operands = [names[o] for o in one.operands]
        shapes = [o.shape for o in one.operands]
        writer.operation(one, "stablehlo.custom_call", operands, shapes, [shape], attributes, names, depth)
        return
    writer.spread(one, "stablehlo.custom_call", attributes, names, depth)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _layout(shape: Shape) -> str:
    order = shape.layout.minor_to_major if shape.layout is not None else tuple(range(shape.rank - 1, -1, -1))
    inside = f"[{', '.join(map(str, order))}]" if order else ""
    return f"dense<{inside}> : tensor<{len(order)}xindex>"


def _infeed(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    data = one.shape.elements[0]
    shapes = [*(data.elements if data.is_tuple else (data,)), one.shape.elements[1]]
    attributes = {"infeed_config": attribute_text(one.attributes.get("infeed_config", ""))}
    before = one.operands[0]
    made = _several(writer, one, "stablehlo.infeed", [names[before]], [before.shape], shapes, attributes, depth)
    _hand_on(one, data, made, names)


def _several(
    writer: Writer, one: Instruction, name: str, operands: Sequence[str], shapes: Sequence[Shape],
    results: Sequence[Shape], attributes: dict[str, str], depth: int,
) -> list[str]:  # fmt: skip
    """A line whose results are not the elements of the instruction's tuple."""
    value = writer.name(one.name)
    inside = ", ".join(f"{key} = {text}" if text else key for key, text in sorted((attributes | kept(one)).items()))
    types = f"({', '.join(map(type_text, shapes))}) -> {_types(results)}"
    count = f":{len(results)}" if len(results) > 1 else ""
    writer.put(depth, f'{value}{count} = "{name}"({", ".join(operands)}) {{{inside}}} : {types}')
    return [value] if len(results) == 1 else [f"{value}#{n}" for n in range(len(results))]


def _hand_on(one: Instruction, data: Shape, made: Sequence[str], names: Names) -> None:
    """``(data, token)`` to those who take it apart."""
    names[one] = ""
    for user in one.users:
        if user.opcode != "get-tuple-element":
            raise Refused("its result is used as a tuple")
        if user.attributes["index"] == 1:
            names[user] = made[-1]
        elif not data.is_tuple:
            names[user] = made[0]
        else:
            names[user] = ""
            for inner in user.users:
                if inner.opcode != "get-tuple-element":
                    raise Refused("its result is used as a tuple")
                names[inner] = made[inner.attributes["index"]]
    if one.is_root:
        raise Refused("its result is used as a tuple")


def _outfeed(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    data, before = one.operands
    values = _elements(writer, data, names, depth) if data.shape.is_tuple else [names[data]]
    shapes = [*(data.shape.elements if data.shape.is_tuple else (data.shape,)), before.shape]
    attributes = {"outfeed_config": attribute_text(one.attributes.get("outfeed_config", ""))}
    writer.operation(
        one, "stablehlo.outfeed", [*values, names[before]], shapes, [one.shape], attributes, names, depth
    )


def _transfer(one: Instruction) -> dict[str, str]:
    channel = one.attributes.get("channel_id", 0)
    kind = 2 if one.attributes.get("is_host_transfer") else 1
    attributes = {
        "channel_handle": f"#stablehlo.channel_handle<handle = {channel}, type = {kind}>",
        "is_host_transfer": str(bool(one.attributes.get("is_host_transfer"))).lower(),
    }
    pairs = one.attributes.get("frontend_attributes", {}).get("_xla_send_recv_source_target_pairs")
    if pairs:
        import re

        rows = [(int(a), int(b)) for a, b in re.findall(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}", pairs)]
        attributes["source_target_pairs"] = table_text(rows)
    return attributes


def _send(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    done = [user for user in one.users if user.opcode == "send-done"]
    if len(done) != 1 or len(one.users) != 1:
        raise Refused("it is not followed by one send-done")
    data, before = one.operands
    values = _elements(writer, data, names, depth) if data.shape.is_tuple else [names[data]]
    shapes = [*(data.shape.elements if data.shape.is_tuple else (data.shape,)), before.shape]
    operands = [*values, names[before]]
    made = _several(writer, one, "stablehlo.send", operands, shapes, [done[0].shape], _transfer(one), depth)
    (names[done[0]],) = made
    names[one] = ""


def _recv(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    done = [user for user in one.users if user.opcode == "recv-done"]
    if len(done) != 1 or len(one.users) != 1:
        raise Refused("it is not followed by one recv-done")
    (before,) = one.operands
    data = one.shape.elements[0]
    results = [*(data.elements if data.is_tuple else (data,)), before.shape]
    made = _several(writer, one, "stablehlo.recv", [names[before]], [before.shape], results, _transfer(one), depth)
    names[one] = ""
    _hand_on(done[0], data, made, names)


def _dynamic_reshape(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    source, *sizes = one.operands
    rows: list[str] = []
    flat = Shape("s32", (1,))
    for size in sizes:
        value = writer.name()
        writer.put(depth, f'{value} = "stablehlo.reshape"({names[size]}) : (tensor<i32>) -> {type_text(flat)}')
        rows.append(value)
    value, together = writer.name(), Shape("s32", (len(rows),))
    types = f"({', '.join([type_text(flat)] * len(rows))}) -> {type_text(together)}"
    writer.put(depth, f'{value} = "stablehlo.concatenate"({", ".join(rows)}) {{dimension = 0 : i64}} : {types}')
    operands = [names[source], value]
    writer.operation(
        one, "stablehlo.dynamic_reshape", operands, [source.shape, together], [one.shape], {}, names, depth
    )


def _done(writer: Writer, one: Instruction, names: Names, depth: int) -> None:
    raise Refused(f"{one.opcode} without {one.opcode.removesuffix('-done')}")


_WRITERS: dict[str, Callable[[Writer, Instruction, Names, int], None]] = {
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
    "map": _map,
    "sort": _sort,
    "scatter": _scatter,
    "all-reduce": _all_reduce,
    "reduce-scatter": _reduce_scatter,
    "all-gather": _all_gather,
    "all-to-all": _all_to_all,
    "batch-norm-training": _batch_norm,
    "batch-norm-inference": _batch_norm,
    "batch-norm-grad": _batch_norm,
    "rng": _rng,
    "rng-bit-generator": _rng_bits,
    "topk": _top_k,
    "opt-barrier": _barrier,
    "while": _while,
    "conditional": _conditional,
    "call": _call,
    "custom-call": _custom_call,
    "infeed": _infeed,
    "outfeed": _outfeed,
    "send": _send,
    "recv": _recv,
    "send-done": _done,
    "recv-done": _done,
    "dynamic-reshape": _dynamic_reshape,
}
"""Opcodes with regions, or with another number of results than one."""
