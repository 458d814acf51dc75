"""A tree of operations to a module of HLO: functions become computations, their attributes those of the module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from hlotool.ir import (
    Aliasing,
    Computation,
    Diagnostic,
    Instruction,
    Literal,
    Location,
    Module,
    ParseError,
    Shape,
    UnsupportedError,
    Verbatim,
)
from hlotool.ir.builder import binary_computation
from hlotool.ir.shape_inference import ShapeError
from hlotool.ir.shape_inference import check as check_shape
from hlotool.text.lexer import NAME
from hlotool.text.stablehlo.dynamism import FOLDABLE, folded
from hlotool.text.stablehlo.operations import OPERATIONS, near
from hlotool.text.stablehlo.quantised import through_floats
from hlotool.text.stablehlo.scope import Refusal, Scope, Unknown, fits, kept, known_shape, may_say_sizes, stored
from hlotool.text.stablehlo.sharding import Mesh, mesh_of, tiles_of
from hlotool.text.stablehlo.tree import Block, FunctionType, Mark, Number, Operation, QuantisedShape, attribute_text

__all__ = ["Part", "Program", "convert_module", "convert_tests", "raise_diagnostics"]

Place: TypeAlias = Callable[[int, int], Location | None]
Part: TypeAlias = tuple[Block, Place, Callable[[int], Any], Sequence[Diagnostic]]
"""The tree of a text: its operations, places, locations, and what was wrong with reading it."""
_ENDS = ("func.return", "stablehlo.return", "sdy.return")
_MOST_ERRORS = 100
_DEVICES = {"mhlo.num_replicas": "replica_count", "mhlo.num_partitions": "num_partitions"}
_DEEPEST = 100
_SIZE = "get-dimension-size"
_KNOWN = ("constant", "iota")


class Program:
    """A module that is being made of the functions of a text."""

    def __init__(self, functions: dict[str, Operation], place: Place, metadata: Callable[[int], Any]) -> None:
        self.functions = functions
        self.place = place
        self.metadata = metadata
        self.meshes: dict[str, Mesh] = {}
        self.devices = 1, 1  # replicas and partitions that it runs programs on
        self.exchanges = 0  # which make what these give known to all of them
        self.has_open_sizes = False  # whether sizes are left open, which follow from those of the arguments
        self.computations: list[Computation] = []
        self.diagnostics: list[Diagnostic] = []
        self._made: dict[tuple[Any, ...], Computation | None] = {}
        self._opened: list[str] = []
        self._binary: dict[tuple[str, str], Computation] = {}
        self._depth = 0
        self._checking = False  # whether what is made is thrown away: nobody will verify it

    # ---- computations

    def keep(self, computation: Computation) -> Computation:
        """A computation of the module, after those that it calls."""
        self.computations.append(computation)
        return computation

    def binary(self, opcode: str, kind: str) -> Computation:
        """The computation of one opcode on two scalars."""
        found = self._binary.get((opcode, kind))
        if found is None:
            found = self._binary[opcode, kind] = self.keep(binary_computation(opcode, kind))
        return found

    def computation(self, outer: Scope, name: str, block: Block) -> Computation:
        """The computation of a region: its arguments are the parameters."""
        scope = Scope(self, name, outer)
        for number, argument in enumerate(block.arguments):
            shape = stored(argument.type)
            scope.values[argument] = scope.builder.parameter(number, shape, f"arg{number}")
        results = self.body(scope, block)
        scope.computation.root = results[0] if len(results) == 1 else scope.builder.tuple(results)
        return self.keep(scope.computation)

    def body(self, scope: Scope, block: Block) -> list[Instruction]:
        """The operations of a block; what its last one gives back.  Unknown where an error stands in the way."""
        self._depth += 1
        if self._depth > _DEEPEST:
            self._depth -= 1
            raise Refusal(f"regions are nested more than {_DEEPEST} levels deep", code="HLO0104")
        broken = block.broken
        try:
            for operation in block.operations[:-1]:
                broken |= not self.operation(scope, operation)
            last = block.operations[-1] if block.operations else None
            if last is None or last.name not in _ENDS:
                if last is not None:
                    broken |= not self.operation(scope, last)
                if not broken:
                    raise Refusal("the region does not end with a return")
                raise Unknown
            results = [scope.get(value) for value in last.operands]
            _drop_sizes(scope, results)
        finally:
            self._depth -= 1
        if broken:
            raise Unknown
        return results

    def operation(self, scope: Scope, operation: Operation) -> bool:
        """One operation; whether it could be made.  What is wrong is among the diagnostics."""
        scope.values.update(dict.fromkeys(operation.results))
        plain = scope.plain
        plain.location = self.place(operation.start, operation.end)
        plain.metadata = operation.metadata() if operation.metadata is not None else None
        try:
            row = OPERATIONS.get(operation.name)
            if row is None:
                raise Refusal(f"unknown operation '{operation.name[:60]}'", near(operation.name), "HLO0108")
            if row.operands is not None and row.operands != len(operation.operands):
                count = f"{row.operands} operand{'s' * (row.operands != 1)}"
                raise Refusal(f"{operation.name} takes {count}, not {len(operation.operands)}")
            if row.regions >= 0 and row.regions != len(operation.regions):
                raise Refusal(f"{operation.name} has {row.regions} regions, not {len(operation.regions)}")
            types = [value.type for value in (*operation.operands, *operation.results)]
            if row.floats and any(isinstance(type_, QuantisedShape) for type_ in types):
                made = through_floats(row.convert, scope, operation)
            else:
                made = row.convert(scope, operation)
            if len(made) != len(operation.results):
                raise Refusal(f"{operation.name} gives {len(made)} results, not {len(operation.results)}")
            if self.diagnostics or self._checking:  # nobody will verify the module
                for instruction in made:
                    check_shape(
                        instruction.opcode, instruction.shape, [one.shape for one in instruction.operands],
                        instruction.attributes,
                    )  # fmt: skip
            own = kept(operation)
            if len(operation.operands) > 1 or operation.name == "stablehlo.dynamic_iota":
                scope.sizes += [one for one in map(scope.values.get, operation.operands) if one and not one.users]
            for value, instruction in zip(operation.results, made, strict=True):
                self._check(operation, stored(value.type), instruction.shape)
                scope.values[value] = self._known_size(scope, instruction)
            if own:
                last = scope.computation._last
                for instruction in made or ([last] if last is not None else []):
                    instruction.attributes = {**own, **instruction.attributes} if instruction.operands else own
        except Unknown:
            return False
        except (Refusal, ShapeError) as failure:
            self.report(failure, operation)
            return False
        except (ValueError, IndexError, KeyError, OverflowError) as failure:
            self.report(Refusal(f"{operation.name} does not fit its operands ({failure})"), operation)
            return False
        return True

    def _known_size(self, scope: Scope, instruction: Instruction) -> Instruction:
        """Integers that follow from sizes, as constants: regions and functions that take them know sizes by them."""
        shape = instruction.shape
        if (
            not self.has_open_sizes
            or instruction.opcode not in FOLDABLE
            or instruction.opcode in _KNOWN
            or not may_say_sizes(shape)
            or any(one.opcode not in _KNOWN for one in instruction.operands if instruction.opcode != _SIZE)
        ):
            return instruction
        values = folded(instruction)
        if values is None:
            return instruction
        known = scope.builder.constant(values, shape.element_type)
        scope.sizes += [known, instruction]  # where nothing but sizes needs them, they go again
        return known

    def knows(self, name: str) -> bool:
        """Whether there is an operation of this name."""
        return name in OPERATIONS

    def converted(self, scope: Scope, name: str, operation: Operation) -> Sequence[Instruction]:
        """The results of an operation as if it were `name`."""
        return OPERATIONS[name].convert(scope, operation)

    @staticmethod
    def _check(operation: Operation, written: Shape, made: Shape) -> None:
        """The result is of the written type, as far as its sizes are written."""
        if not fits(written, made):
            raise Refusal(f"{operation.name} gives {made}, not {written}")

    def report(self, failure: Refusal | ShapeError, operation: Operation) -> None:
        """Note what is wrong with an operation."""
        message = failure.message if isinstance(failure, Refusal) else str(failure)
        hint = failure.hint if isinstance(failure, Refusal) else None
        code = failure.code if isinstance(failure, Refusal) else "HLO0200"
        place = self.place(operation.start, operation.end)
        self.diagnostics.append(Diagnostic(message, place, hint, code))
        if len(self.diagnostics) >= _MOST_ERRORS:
            raise_diagnostics(self.diagnostics)

    # ---- functions

    def result_count(self, name: str) -> int:
        """How many results a function has."""
        type_ = self.functions[name].attributes.get("function_type")
        return len(type_.results) if isinstance(type_, FunctionType) else 1

    def function(
        self, name: str, shapes: Sequence[Shape] | None, entry: bool = False, known: Sequence[Literal | None] = ()
    ) -> Computation:
        """The computation of a function for arguments of `shapes` (None: as it says itself); made once for each.

        `known` are the values of arguments that say sizes: it is made for these values, too.
        """
        operation = self.functions.get(name)
        if operation is None:
            from hlotool.text.lexer import did_you_mean

            raise Refusal(f"there is no function @{name[:60]}", did_you_mean(name, self.functions) if name else None)
        if not operation.regions:
            raise Refusal(f"the function @{name[:60]} has no body")
        if name in self._opened:
            raise Refusal(f"the function @{name[:60]} calls itself, which HLO cannot")
        block = operation.regions[0].block if operation.regions[0].blocks else Block()
        if len(operation.regions[0].blocks) != 1:
            raise Refusal(f"the function @{name[:60]} has several blocks", unsupported=True)
        if shapes is not None and len(shapes) != len(block.arguments):
            raise Refusal(f"@{name[:60]} takes {len(block.arguments)} arguments, not {len(shapes)}")
        written = [stored(argument.type) for argument in block.arguments]
        given = [
            own if known_shape(own) or shapes is None else shape
            for own, shape in zip(written, shapes or written, strict=True)
        ]
        values = tuple(None if one is None else one.value().tobytes() for one in known)
        key = (name, entry, values, *(shape.without_layout() for shape in given))
        if key not in self._made:
            self._made[key] = None
            self._opened.append(name)
            try:
                self._made[key] = self._function(name, operation, block, given, entry, known)
            except Refusal as failure:
                self.report(failure, operation)
            except Unknown:
                pass
            finally:
                self._opened.pop()
        found = self._made[key]
        if found is None:
            raise Unknown
        return found

    def check_others(self) -> None:
        """Errors of functions that nobody called; what has no counterpart in HLO is none where it is not used."""
        before, known = len(self.diagnostics), len(self.computations)
        made = {key[0] for key in self._made}
        self._checking = True
        for name, operation in self.functions.items():
            if name in made or not operation.regions:
                continue
            with suppress(Unknown):
                try:
                    self.function(name, None)
                except Refusal as failure:
                    self.report(failure, operation)
        self._checking = False
        del self.computations[known:]
        wrong = [one for one in self.diagnostics[before:] if one.code != UnsupportedError.code]
        self.diagnostics[before:] = wrong

    def _function(
        self,
        name: str,
        operation: Operation,
        block: Block,
        given: Sequence[Shape],
        entry: bool,
        known: Sequence[Literal | None] = (),
    ) -> Computation:
        scope = Scope(self, _identifier(name))
        rows = operation.attributes.get("arg_attrs") or []
        for number, (argument, shape) in enumerate(zip(block.arguments, given, strict=True)):
            attributes = rows[number] if number < len(rows) and isinstance(rows[number], dict) else {}
            scope.plain.location = self.place(operation.start, operation.end)
            place = attributes.get("loc")
            scope.plain.metadata = self.metadata(place) if isinstance(place, int) else None
            parameter = scope.builder.parameter(number, shape, self._argument_name(argument.name, scope.plain, scope))
            sharding = self.sharding(attributes)
            if sharding is not None and entry:
                parameter.attributes["sharding"] = Verbatim(sharding)
            scope.values[argument] = parameter
            value = known[number] if number < len(known) else None
            if value is not None:
                size = scope.values[argument] = scope.builder.constant(value)
                scope.sizes.append(size)
        scope.plain.metadata = None
        results = self.body(scope, block)
        type_ = operation.attributes.get("function_type")
        if isinstance(type_, FunctionType) and len(type_.results) != len(results):
            raise Refusal(f"@{name[:60]} gives {len(results)} results, not {len(type_.results)}")
        if isinstance(type_, FunctionType):
            for instruction, shape in zip(results, type_.results, strict=True):
                self._check(operation, stored(shape), instruction.shape)
        scope.computation.root = results[0] if len(results) == 1 else scope.builder.tuple(results)
        return self.keep(scope.computation)

    def _argument_name(self, name: str, plain: Instruction, scope: Scope) -> str:
        """The name of a parameter: that of its location (what frameworks call it), else that of the text."""
        taken = {one.name for one in scope.computation}
        for candidate in (plain.metadata.op_name if plain.metadata is not None else "", name, f"arg{len(taken)}"):
            found = _identifier(candidate) if candidate and not candidate[0].isdigit() else ""
            if found and found not in taken and len(found) < 200:
                return found
        return ""

    def sharding(self, attributes: dict[str, Any]) -> str | None:
        """What the attributes of an argument or a result say about devices."""
        plain, named = attributes.get("mhlo.sharding"), attributes.get("sdy.sharding")
        if isinstance(plain, str) and plain:
            return plain
        return tiles_of(named, self.meshes) if isinstance(named, Mark) else None


def _drop_sizes(scope: Scope, results: Sequence[Instruction]) -> None:
    """Erase what was only computed to say sizes, which are parts of shapes now."""
    sizes = list(scope.sizes)
    while sizes:
        one = sizes.pop()
        if one.parent is scope.computation and not one.users and one not in results and one.opcode in FOLDABLE:
            sizes += one.operands
            scope.computation.erase(one)


def _identifier(name: str) -> str:
    """A name that HLO text can hold."""
    import re

    if re.fullmatch(NAME, name, re.ASCII):
        return name
    made = re.sub(r"[^A-Za-z0-9_.\-]", "_", name, flags=re.ASCII)
    return made if re.fullmatch(NAME, made, re.ASCII) else f"_{made}"


def raise_diagnostics(found: Sequence[Diagnostic]) -> None:
    """ParseError with all errors; UnsupportedError where all of them are about what has no counterpart."""
    if not found:
        return
    ordered = sorted(found, key=lambda d: (d.location.line, d.location.column) if d.location else (0, 0))
    first = ordered[0]
    where = f"{first.location.file}:{first.location.line}:{first.location.column}: " if first.location else ""
    more = f" (and {len(ordered) - 1} more)" if len(ordered) > 1 else ""
    lacking = all(one.code == UnsupportedError.code for one in ordered)
    raise (UnsupportedError if lacking else ParseError)(f"{where}{first.message}{more}", ordered)


def convert_module(
    top: Block,
    place: Place,
    metadata: Callable[[int], Any],
    errors: Sequence[Diagnostic] = (),
    function: str | None = None,
    arguments: Sequence[Shape] | None = None,
) -> Module:
    """The module of a tree.  `errors` are those of reading it, which are raised with the ones found here.

    `function` is the entry where it is not ``main`` (errors in what it does not call are left alone then), `arguments`
    the shapes of its arguments where it leaves sizes open.  ParseError with all diagnostics; UnsupportedError where the
    program is right but has no counterpart.
    """
    holder, operations = _module_of(top)
    program = Program({}, place, metadata)
    program.diagnostics += errors
    entry, chosen = _entry(program, operations, function, arguments)
    raise_diagnostics(program.diagnostics)
    assert entry is not None
    module = Module(_identifier(str(holder.attributes.get("sym_name") or "module")) if holder else "module")
    for computation in program.computations:
        module.add(computation, entry=computation is entry)
    module.remove_unreachable()
    if len(chosen) == 1:
        _aliases(module, program.functions[chosen[0]], entry, program)
    for name, count in zip(_DEVICES.values(), program.devices, strict=True):
        if count > 1:
            module.attributes[name] = count
    if holder is not None:
        _attributes(module, holder)
    return module


def convert_tests(parts: Sequence[Part]) -> Module | None:
    """The programs of several trees (see `convert_module`) as one, which runs them one after another.

    None where one of them takes arguments, or is for several devices.  Errors are those of `convert_module`, for all.
    """
    programs: list[tuple[Program, Computation | None]] = []
    several = False
    for top, place, metadata, errors in parts:
        holder, operations = _module_of(top)
        program = Program({}, place, metadata)
        program.diagnostics += errors
        entry, _ = _entry(program, operations, None, None)
        programs.append((program, entry))
        counts = (holder.attributes.get(key) for key in _DEVICES) if holder is not None else ()
        several |= program.devices != (1, 1)
        several |= any(isinstance(count, Number) and int(count.value) > 1 for count in counts)
    entries = [entry for _, entry in programs if entry is not None]
    if several or any(entry.parameters for entry in entries):
        return None
    raise_diagnostics([one for program, _ in programs for one in program.diagnostics])
    together = Scope(programs[0][0], "main")
    results: list[Instruction] = []
    for entry in entries:
        call = together.builder.call(entry, ())
        results += together.several(call, len(call.shape.elements)) if call.shape.is_tuple else [call]
    together.computation.root = together.builder.tuple(results)
    module = Module("tests")
    for program, _ in programs:
        for computation in program.computations:
            module.add(computation)
    module.add(together.computation, entry=True)
    module.remove_unreachable()
    return module


def _entry(
    program: Program, operations: Sequence[Operation], function: str | None, arguments: Sequence[Shape] | None
) -> tuple[Computation | None, list[str]]:
    """The computation that a program begins with, and the functions that it is of; None where an error is in the way,
    which is among the diagnostics then."""
    functions = program.functions
    for operation in operations:
        _declare(operation, program)
    program.has_open_sizes = _leaves_sizes_open(operations)
    entry: Computation | None = None
    chosen: list[str] = []
    try:
        chosen = _chosen(program, function)
        if len(chosen) == 1:
            shapes = _given(program, chosen[0], arguments)
            entry = program.function(chosen[0], shapes, entry=True)
        elif chosen:
            entry = _all_of(program, chosen)
    except Unknown:
        pass
    except Refusal as failure:
        where = functions[chosen[0]] if chosen else (operations[0] if operations else Operation("", [], {}, [], 0, 0))
        program.report(failure, where)
    if function is None:
        program.check_others()
    return entry, chosen


def _leaves_sizes_open(operations: Sequence[Operation]) -> bool:
    """Whether some array has a dimension of unknown size."""
    stack = list(operations)
    while stack:
        operation = stack.pop()
        values = list(operation.results)
        for region in operation.regions:
            for block in region.blocks:
                values += block.arguments
                stack += block.operations
        if any(value.type is not None and not known_shape(value.type) for value in values):
            return True
    return False


def _module_of(top: Block) -> tuple[Operation | None, list[Operation]]:
    modules = [operation for operation in top.operations if operation.name == "builtin.module"]
    if len(modules) == 1 and len(top.operations) == 1:
        regions = modules[0].regions
        inside = regions[0].blocks[0].operations if regions and regions[0].blocks else []
        nested = [one for one in inside if one.name == "builtin.module"]
        return (modules[0], inside) if not nested else (modules[0], [
            two for one in inside for two in (
                one.regions[0].blocks[0].operations if one.name == "builtin.module" and one.regions else [one]
            )
        ])  # fmt: skip
    return None, top.operations


def _declare(operation: Operation, program: Program) -> None:
    """A function or a mesh of the module."""
    try:
        name = operation.attributes.get("sym_name")
        if operation.name == "func.func":
            if not isinstance(name, str):
                raise Refusal("a function has a name")
            if name in program.functions:
                raise Refusal(f"the function @{name} is defined twice", code="HLO0206")
            program.functions[name] = operation
        elif operation.name == "sdy.mesh":
            mesh = operation.attributes.get("mesh")
            if isinstance(mesh, Mark) and isinstance(name, str):
                program.meshes[name] = mesh_of(mesh)
        elif operation.name == "builtin.module":
            raise Refusal(
                "several modules in one text", "lines '// -----' separate modules that belong to different programs"
            )
        else:
            known = operation.name in OPERATIONS
            what = f"{operation.name} outside of a function" if known else f"unknown operation '{operation.name[:60]}'"
            raise Refusal(what, None if known else near(operation.name), "HLO0100" if known else "HLO0108")
    except Refusal as failure:
        program.report(failure, operation)


def _chosen(program: Program, function: str | None) -> list[str]:
    """The function that is the entry; several where they are tests, which take and give nothing."""
    functions = program.functions
    if function is not None:
        if function not in functions:
            from hlotool.text.lexer import did_you_mean

            hint = did_you_mean(function, functions) or f"there are {', '.join(list(functions)[:20])}"
            raise Refusal(f"there is no function @{function}", hint)
        return [function]
    if "main" in functions:
        return ["main"]
    if not functions:
        if not program.diagnostics:
            raise Refusal("the text has no functions", code="HLO0101")
        return []
    with_body = [name for name, operation in functions.items() if operation.regions]
    if len(with_body) == 1:
        return with_body
    called = {name for operation in functions.values() for name in _callees(operation)}
    public = [n for n in with_body if functions[n].attributes.get("sym_visibility") != "private" and n not in called]
    if len(public) == 1:
        return public
    types = [functions[name].attributes.get("function_type") for name in public]
    if public and all(isinstance(type_, FunctionType) and not type_.operands for type_ in types):
        return public
    names = ", ".join(f"@{name}" for name in public[:20])
    raise Refusal(f"which function is the entry: {names}?", "name one @main, or choose: hlotool import --function NAME")


def _callees(operation: Operation) -> list[str]:
    found: list[str] = []
    stack = [operation]
    while stack:
        one = stack.pop()
        for key in ("callee", "decomposition"):
            name = one.attributes.get(key)
            found += [name.name] if name is not None and hasattr(name, "name") else []
        stack += [inner for region in one.regions for block in region.blocks for inner in block.operations]
    return found


def _all_of(program: Program, names: Sequence[str]) -> Computation:
    """An entry that calls functions without arguments, one after another; it gives all of their results."""
    scope = Scope(program, "main")
    results: list[Instruction] = []
    missing = False
    for name in names:
        try:
            computation = program.function(name, ())
        except Unknown:
            missing = True
            continue
        call = scope.builder.call(computation, ())
        count = program.result_count(name)
        results += [call] if count == 1 else scope.several(call, count)
    if missing:
        raise Unknown
    scope.computation.root = scope.builder.tuple(results)
    return program.keep(scope.computation)


def _given(program: Program, name: str, arguments: Sequence[Shape] | None) -> list[Shape] | None:
    if arguments is None:
        return None
    type_ = program.functions[name].attributes.get("function_type")
    written = type_.operands if isinstance(type_, FunctionType) else ()
    if len(written) != len(arguments):
        raise Refusal(f"@{name} takes {len(written)} arguments, {len(arguments)} shapes are given")
    for number, (own, shape) in enumerate(zip(written, arguments, strict=True)):
        if own.element_type != shape.element_type or own.rank != shape.rank or any(
            a not in (-1, b) for a, b in zip(own.dimensions, shape.dimensions, strict=True)
        ):  # fmt: skip
            raise Refusal(f"argument {number} of @{name} is {own}, which {shape} does not fit")
    return list(arguments)


def _aliases(module: Module, operation: Operation, entry: Computation, program: Program) -> None:
    """Arguments whose memory results use, or may use; shardings of results."""
    rows = operation.attributes.get("arg_attrs") or []
    aliases: list[Aliasing] = []
    donors: list[int] = []
    together = program.result_count(str(operation.attributes["sym_name"])) != 1
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            continue
        output = row.get("tf.aliasing_output")
        if isinstance(output, Number):
            aliases.append(Aliasing((int(output.value),) if together else (), number, (), "may-alias"))
        if row.get("jax.buffer_donor") is True:
            donors.append(number)
    if aliases:
        module.attributes["input_output_alias"] = tuple(sorted(aliases, key=lambda one: one.output))
    if donors:
        module.attributes["buffer_donor"] = Verbatim(f"{{ {', '.join(f'({number}, {{}})' for number in donors)} }}")
    results = [row if isinstance(row, dict) else {} for row in operation.attributes.get("res_attrs") or []]
    shardings = [program.sharding(row) for row in results]
    root = entry.root
    if shardings and all(one is not None for one in shardings) and root.opcode != "parameter":
        if root.opcode == "tuple" and together:
            root.attributes["sharding"] = Verbatim(f"{{{', '.join(str(one) for one in shardings)}}}")
        elif not together and "sharding" not in root.attributes:
            root.attributes["sharding"] = Verbatim(str(shardings[0]))


def _attributes(module: Module, holder: Operation) -> None:
    """How many devices, and what frameworks say about the module."""
    for key, name in _DEVICES.items():
        value = holder.attributes.get(key)
        if isinstance(value, Number) and int(value.value) > 1:
            module.attributes[name] = int(value.value)
    frontend = holder.attributes.get("mhlo.frontend_attributes")
    if isinstance(frontend, dict) and frontend:
        module.attributes["frontend_attributes"] = {
            key: value if isinstance(value, str) else attribute_text(value) for key, value in sorted(frontend.items())
        }
