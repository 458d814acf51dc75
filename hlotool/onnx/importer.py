"""A model as a module: its nodes are lowered one after the other, in one trace.

Sizes have to be known: those of the model's inputs are in the file, or given.  What else decides about the program
(the shape that a reshape asks for) is computed while lowering (`hlotool.onnx.static`); where it depends on the values
of an input, these must be given, and the module is for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy

import hlotool.onnx.ops  # noqa: F401  # fills the table
from hlotool.ir import Diagnostic, HloError, InputError, Module, ParseError, UnsupportedError, array
from hlotool.ir.attributes import Metadata
from hlotool.lazy_dataclass import dataclass
from hlotool.numpy.array import Array
from hlotool.numpy.dtypes import hlo_type
from hlotool.numpy.trace import STATE, Trace, finish, module_of, tracing
from hlotool.onnx.bounds import as_they_are, dynamic_axes, lowered
from hlotool.onnx.library import onnx
from hlotool.onnx.lowering import Context, Nothing, Refused, Value, find
from hlotool.onnx.model import Model, domain_of, graphs_of, inputs_of, label, opset_of, opsets_of, ordered
from hlotool.onnx.static import Statics
from hlotool.onnx.tensors import array_of, dense_of, dtype_of_tensor

__all__ = ["Imported", "has_body", "import_model"]

_ODD = re.compile(r"[^A-Za-z0-9_.\-]")
_DEEPEST = 100  # functions that call functions
_MISFITS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)  # of lowerings given what ONNX forbids


@dataclass(frozen=True, slots=True)
class Imported:
    """A module, and how its parameters and results are the model's.

    `inputs` are the names of the model's inputs, each with the numbers of its parameters (one, or as many as a sequence
    has elements); `outputs` the names of its outputs, each with the number of its result, a list of those of a
    sequence, or None for an optional that is empty.  `values` names the inputs whose values the module depends on.
    """

    module: Module
    inputs: Mapping[str, tuple[int, ...]]
    outputs: Mapping[str, Any]
    values: tuple[str, ...]


class _Missing:
    """What a node that could not be lowered would have given."""


_MISSING = _Missing()


def import_model(
    model: Model,
    sizes: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Any] | None = None,
) -> Imported:
    """The module of a model.

    `sizes` are those of dimensions by name, `shapes` those of whole inputs.  `values` are arrays for inputs (lists of
    these for sequences, None for an empty optional): they say the input's shape, and what they hold where the program
    depends on it.

    UnsupportedError names all nodes that are not supported, InputError what has to be given, ParseError what is wrong
    in the model.
    """
    graph = model.proto.graph
    values = {name: _typed(name, one, graph) for name, one in (values or {}).items()}
    walk = _Walk(model, values)
    walk.check_operators()
    weights = {one.name for one in graph.initializer} | {one.values.name for one in graph.sparse_initializer}
    inputs = [one for one in graph.input if one.name not in weights]
    _check_given(inputs, {*(shapes or {}), *values}, "input")
    name = _identifier(graph.name or "model")
    taken: dict[str, tuple[int, ...]] = {}
    with tracing(name) as trace:
        env: dict[str, Value] = {}
        wanted = _Sizes(sizes or {}, shapes or {}, values)
        used: set[str] = set()
        for one in inputs:
            before = len(trace.builder.computation.parameters)
            env[one.name] = walk.parameters(trace, one.name, wanted.of(one.name, one.type), used)
            taken[one.name] = tuple(range(before, len(trace.builder.computation.parameters)))
        wanted.check()
        walk.graph(graph, env, model.opsets, {}, top=True)
        walk.raise_problems()
        flat: list[Array] = []
        outputs = {one.name: _numbered(env[one.name], flat) for one in graph.output}
        traced = finish(trace, flat)
    for instruction in list(traced.computation):
        if instruction.opcode == "constant" and not instruction.users and instruction is not traced.computation.root:
            traced.computation.erase(instruction)
    return Imported(module_of(traced.computation), taken, outputs, tuple(walk.statics.used))


def _typed(name: str, value: Any, graph: Any) -> Any:
    """An array for an input in the input's type, where it is one of bits of types that archives do not have."""
    type_ = next((one.type.tensor_type for one in graph.input if one.name == name), None)
    if type_ is None or not type_.elem_type or value is None or isinstance(value, (list, tuple)):
        return value
    found, wanted = numpy.asarray(value), dtype_of_tensor(type_.elem_type)
    if found.dtype == wanted or wanted.kind in "OSU":
        return found
    if wanted.isbuiltin != 1 and found.dtype == numpy.dtype(f"u{wanted.itemsize}"):
        return found.view(wanted)
    raise InputError(f"the input {name} is of {wanted}, not {found.dtype}")


def _check_given(inputs: Iterable[Any], given: Iterable[str], what: str) -> None:
    names = [one.name for one in inputs]
    unknown = sorted(set(given) - set(names))
    if unknown:
        said = ", ".join(map(repr, unknown))
        raise InputError(f"the model has no {what} {said}; it has {', '.join(names) or 'none'}")


def _identifier(name: str) -> str:
    """A name as HLO may have it."""
    found = _ODD.sub("_", name)
    return found if found[:1].isalpha() or found[:1] == "_" else f"_{found}"


def _numbered(value: Value, flat: list[Array]) -> Any:
    """The structure of a value with the numbers of its arrays, which are added to `flat`."""
    if isinstance(value, Nothing) or value is None:
        return None
    if isinstance(value, list):
        return [_numbered(one, flat) for one in value]
    flat.append(value)
    return len(flat) - 1


class _Sizes:
    """The shapes of inputs: from the file, and what was given."""

    def __init__(
        self, sizes: Mapping[str, int], shapes: Mapping[str, Sequence[int]], values: Mapping[str, Any]
    ) -> None:
        self.sizes, self.shapes, self.values = sizes, shapes, values
        self.used: set[str] = set()
        self.open: list[str] = []

    def of(self, name: str, type_: Any) -> Any:
        """HLO's shape of an input, a list of shapes, or Nothing."""
        kind = type_.WhichOneof("value")
        given = self.values.get(name)
        if kind == "tensor_type":
            return self._array(name, type_.tensor_type, given)
        if name not in self.values:
            self.open.append(f"{name}, a {(kind or 'value').removesuffix('_type')}, of which there must be a value")
            return Nothing()
        if kind == "optional_type":
            if given is None:
                return Nothing()
            inner = type_.optional_type.elem_type
            return self.of(name, inner)
        if kind == "sequence_type" and isinstance(given, (list, tuple)):
            return [self._given(one) for one in given]
        raise UnsupportedError(f"the input {name} is a {(kind or 'value').removesuffix('_type')}")

    def _given(self, value: Any) -> Any:
        found = numpy.asarray(value)
        if found.dtype.kind in "OSU":
            raise UnsupportedError("strings among the inputs")
        return array(hlo_type(found.dtype), found.shape)

    def _array(self, name: str, type_: Any, given: Any) -> Any:
        dtype = dtype_of_tensor(type_.elem_type)
        if dtype.kind in "OSU":
            raise UnsupportedError(f"the input {name} holds strings")
        declared: list[Any] | None = None
        if type_.HasField("shape"):
            declared = [
                one.dim_value if one.HasField("dim_value") else one.dim_param or "?" for one in type_.shape.dim
            ]
        wanted = tuple(numpy.shape(given)) if given is not None else self.shapes.get(name)
        if wanted is not None:
            fits = declared is None or (
                len(declared) == len(wanted)
                and all(not isinstance(one, int) or one == size for one, size in zip(declared, wanted, strict=True))
            )
            if not fits:
                raise InputError(f"the input {name} has the dimensions {_shown(declared)}, not {_shown(wanted)}")
            return array(hlo_type(dtype), tuple(wanted))
        if declared is None:
            self.open.append(f"{name}, whose number of dimensions is not in the file ({name}=2,3)")
            return array(hlo_type(dtype), ())
        found = []
        for one in declared:
            if isinstance(one, str) and one in self.sizes:
                self.used.add(one)
                one = self.sizes[one]
            elif isinstance(one, str):
                hint = f"{one}=SIZE" if one != "?" else f"{name}={','.join(['SIZE'] * len(declared))}"
                self.open.append(f"{name}{_shown(declared)} ({hint})")
                one = 1
            found.append(one)
        return array(hlo_type(dtype), tuple(found))

    def check(self) -> None:
        """InputError unless all sizes are known, and all that were given are some."""
        unused = sorted(self.sizes.keys() - self.used)
        if unused:
            raise InputError(f"no input has a dimension {', '.join(map(repr, unused))}")
        if self.open:
            message = f"sizes of inputs have to be given: {'; '.join(dict.fromkeys(self.open))}"
            hint = "hlotool import FILE --set NAME=SIZE gives HLO for these; hlotool run takes the sizes of --inputs"
            raise InputError(message, [Diagnostic(message, hint=hint, code=InputError.code)])


def _shown(dimensions: Any) -> str:
    return f"[{','.join(map(str, dimensions))}]"


class _Walk:
    """Lowers nodes into the active trace."""

    def __init__(self, model: Model, values: Mapping[str, Any]) -> None:
        self.model = model
        arrays = {name: one for name, one in values.items() if one is not None and not isinstance(one, (list, tuple))}
        self.statics = Statics(arrays)
        self.problems: list[str] = []
        self.depth = 0

    # ---- what is not supported

    def check_operators(self) -> None:
        """Note all nodes with an operator that has neither a lowering nor a function."""
        seen: set[tuple[str, str, str]] = set()

        def look(nodes: Iterable[Any], opsets: Mapping[str, int]) -> None:
            for number, node in enumerate(nodes):
                domain = domain_of(node.domain)
                key = (domain, node.op_type, node.overload)
                version = opset_of(domain, opsets)
                own = self.model.functions.get(key)
                if own is not None:
                    if key not in seen:
                        seen.add(key)
                        look(own.node, opsets_of(own.opset_import))
                elif find(domain, node.op_type, version) is None and not has_body(domain, node.op_type, version):
                    self.problems.append(f"{label(node, number)}: {_why(domain, node.op_type, version)}")
                for inner in graphs_of(node):
                    look(inner.node, opsets)

        look(self.model.proto.graph.node, self.model.opsets)

    def raise_problems(self) -> None:
        """UnsupportedError with all that was found."""
        found = list(dict.fromkeys(self.problems))
        if found:
            text = f"{self.model.name}: {len(found)} node{'s are' if len(found) > 1 else ' is'} not supported"
            raise UnsupportedError(
                f"{text}: {found[0]}" if len(found) == 1 else f"{text}:\n  " + "\n  ".join(found),
                [Diagnostic(one, code=UnsupportedError.code) for one in found],
            )

    # ---- inputs and weights

    def parameters(self, trace: Trace, name: str, shape: Any, used: set[str]) -> Value:
        """Parameters for an input, named as it is."""
        if isinstance(shape, Nothing):
            return shape
        if isinstance(shape, list):
            return [self.parameters(trace, f"{name}.{n}", one, used) for n, one in enumerate(shape)]
        wanted = own = _identifier(name)
        count = 1
        while own in used:
            own, count = f"{wanted}.{count}", count + 1
        used.add(own)
        made = trace.parameter(shape, name=own)
        made._value.metadata = Metadata(op_name=name)
        self.statics.declare(made, name)
        return made

    def weights(self, graph: Any, env: dict[str, Value]) -> None:
        """The constants of a graph."""
        trace = STATE.trace
        assert trace is not None
        folder = self.model.folder
        arrays = [(one.name, array_of(one, folder)) for one in graph.initializer]
        arrays += [(one.values.name, dense_of(one, folder)) for one in graph.sparse_initializer]
        for name, value in arrays:
            strings = value.dtype.kind in "OSU"
            env[name] = value if strings else Array(trace.builder.constant(value), trace)

    # ---- graphs

    def graph(
        self, graph: Any, env: dict[str, Value], opsets: Mapping[str, int], own: Mapping[str, Any], top: bool = False
    ) -> None:
        """Lower the nodes of a graph; `own` are the attributes of the function that it is in."""
        self.weights(graph, env)
        nodes, _ = ordered(graph.node)
        self.nodes(nodes, env, opsets, own, [one.name for one in graph.output] if top else ())

    def nodes(
        self, nodes: Sequence[Any], env: dict[str, Value], opsets: Mapping[str, int], own: Mapping[str, Any],
        results: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """Lower nodes, whose results come into `env`."""
        for number, node in enumerate(nodes):
            before = STATE.origin
            if before is None or not self.depth:
                STATE.origin = Metadata(op_type=node.op_type, op_name=node.name or next(iter(node.output), ""))
            try:
                self.node(node, number, env, opsets, own)
            finally:
                STATE.origin = before

    def node(
        self, node: Any, number: int, env: dict[str, Value], opsets: Mapping[str, int], own: Mapping[str, Any]
    ) -> None:
        """Lower one node; a problem is noted, and what depends on it left out."""
        inputs = [env[name] if name else None for name in node.input]
        if any(one is _MISSING for one in inputs) or self._reads_missing(node, env):
            env.update({name: _MISSING for name in node.output if name})
            return
        try:
            found = self.lowered(node, number, inputs, env, opsets, own)
        except Refused as refusal:
            self.problems.append(f"{label(node, number)}: {refusal}")
            found = [_MISSING] * len(node.output)
        except HloError as error:
            if isinstance(error, (UnsupportedError, ParseError)):
                raise
            message = error.diagnostics[0].message if error.diagnostics else str(error)
            raise ParseError(f"{self.model.name}: {label(node, number)}: {message}") from error
        for name, value in zip(node.output, found, strict=False):
            if name:
                env[name] = value
        lost = [name for n, name in enumerate(node.output) if name and (n >= len(found) or found[n] is None)]
        if lost:
            raise ParseError(f"{self.model.name}: {label(node, number)} has no output for {', '.join(lost)}")

    def _reads_missing(self, node: Any, env: Mapping[str, Value]) -> bool:
        return any(graphs_of(node)) and any(env.get(name) is _MISSING for name in inputs_of(node))

    def lowered(
        self, node: Any, number: int, inputs: list[Value], env: dict[str, Value], opsets: Mapping[str, int],
        own: Mapping[str, Any],
    ) -> list[Value]:  # fmt: skip
        """The results of a node."""
        domain = domain_of(node.domain)
        version = opset_of(domain, opsets)
        given = _attributes(node, own)
        function = self.model.functions.get((domain, node.op_type, node.overload))
        if function is not None:
            return self.function(function, node, inputs, given, opsets_of(function.opset_import))
        lower = find(domain, node.op_type, version)
        if lower is None:
            body = _body(domain, _with_attributes(node, given), version, inputs)
            if body is None:
                raise Refused(_why(domain, node.op_type, version))
            defaults = _schema(domain, node.op_type, version).attributes
            known = {n: one.default_value for n, one in defaults.items() if one.default_value.type}
            inner = {**opsets, **opsets_of(body.opset_import)}
            return self.function(body, node, inputs, {**known, **given}, inner)
        c = Context(
            name=label(node, number),
            version=version,
            wanted=tuple(bool(name) for name in node.output),
            statics=self.statics,
            subgraph=partial(self._subgraph, env, opsets, own),
        )
        attributes = {name: self._attribute(one) for name, one in given.items()}
        try:
            if any(map(dynamic_axes, inputs)) and not as_they_are(node.op_type):
                return lowered(c, node.op_type, lower, inputs, attributes)
            found = lower(c, *inputs, **attributes)
        except _MISFITS as error:
            why = str(error)
            if isinstance(error, HloError):
                raise
            if isinstance(error, TypeError) and lower.__name__ in why and "argument" in why:
                raise Refused(why.partition("() ")[2] or why) from error
            message = f"{self.model.name}: {label(node, number)}: its inputs and attributes do not fit: {why}"
            raise ParseError(message) from error
        return list(found) if isinstance(found, tuple) else [found]

    def function(
        self, function: Any, node: Any, inputs: Sequence[Value], given: Mapping[str, Any], opsets: Mapping[str, int]
    ) -> list[Value]:
        """The results of a function's body."""
        if self.depth >= _DEEPEST:
            raise Refused(f"the function {function.name} calls itself, or functions call each other too deeply")
        env: dict[str, Value] = dict.fromkeys(function.input)
        env.update(zip(function.input, inputs, strict=False))
        defaults = {one.name: one for one in function.attribute_proto}
        self.depth += 1
        before = len(self.problems)
        try:
            self.nodes(ordered(function.node)[0], env, opsets, {**defaults, **given})
        finally:
            self.depth -= 1
        inside = [f"{label(node)}, in its function: {one}" for one in self.problems[before:]]
        self.problems[before:] = inside
        return [env.get(name) for name in function.output]  # some bodies leave out what nobody reads

    def _subgraph(
        self, env: Mapping[str, Value], opsets: Mapping[str, int], own: Mapping[str, Any], graph: Any,
        arguments: Sequence[Value],
    ) -> list[Value]:  # fmt: skip
        """The results of a graph among the attributes of a node, in the active trace."""
        inside = dict(env)
        if len(arguments) != len(graph.input):
            raise Refused(f"the graph {graph.name!r} takes {len(graph.input)} inputs, and gets {len(arguments)}")
        inside.update(zip((one.name for one in graph.input), arguments, strict=True))
        before = len(self.problems)
        self.graph(graph, inside, opsets, own)
        found = [inside[one.name] for one in graph.output]
        if len(self.problems) > before or any(one is _MISSING for one in found):
            raise Refused(f"nodes in its graph {graph.name!r} are not supported")
        return found

    def _attribute(self, attribute: Any) -> Any:
        """The value of an attribute: numbers, text, tuples of these, arrays, graphs."""
        kinds = onnx.AttributeProto
        if attribute.type == kinds.TENSOR:
            return array_of(attribute.t, self.model.folder)
        if attribute.type == kinds.SPARSE_TENSOR:
            return dense_of(attribute.sparse_tensor, self.model.folder)
        if attribute.type == kinds.TENSORS:
            return tuple(array_of(one, self.model.folder) for one in attribute.tensors)
        try:
            found = onnx.helper.get_attribute_value(attribute)
        except ValueError as error:
            raise ParseError(f"{self.model.name}: the attribute {attribute.name}: {error}") from error
        if isinstance(found, bytes):
            return found.decode("utf-8", "replace")
        if attribute.type == kinds.STRINGS:
            return tuple(one.decode("utf-8", "replace") for one in found)
        return tuple(found) if attribute.type in (kinds.INTS, kinds.FLOATS) else found


def _attributes(node: Any, own: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes by name; those that refer to ones of the function around are these."""
    found = {}
    for one in node.attribute:
        if one.ref_attr_name:
            if one.ref_attr_name in own:
                found[one.name] = own[one.ref_attr_name]
        else:
            found[one.name] = one
    return found


def _with_attributes(node: Any, given: Mapping[str, Any]) -> Any:
    """The node with these attributes, where those of a function around it stand for themselves."""
    if not any(one.ref_attr_name for one in node.attribute):
        return node
    found = onnx.NodeProto()
    found.CopyFrom(node)
    del found.attribute[:]
    for name, one in given.items():
        own = found.attribute.add()
        own.CopyFrom(one)
        own.name = name
    return found


def _schema(domain: str, name: str, version: int) -> Any:
    """What onnx knows of an operator; None if nothing."""
    try:
        return onnx.defs.get_schema(name, version, domain)
    except onnx.defs.SchemaError:
        return None


def has_body(domain: str, name: str, version: int) -> bool:
    """Whether onnx defines an operator by a function."""
    schema = _schema(domain, name, version)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def _body(domain: str, node: Any, version: int, inputs: Sequence[Value]) -> Any:
    """The function that onnx defines an operator by; None where there is none for this node."""
    schema = _schema(domain, node.op_type, version)
    if schema is None:
        return None
    data = b""
    if schema.has_function:
        fitting = [one for one in schema.function_opset_versions if one <= version]
        data = schema.get_function_with_opset_version(max(fitting)) if fitting else b""
    elif schema.has_context_dependent_function:
        fitting = [one for one in schema.context_dependent_function_opset_versions if one <= version]
        types = [_type_of(one).SerializeToString() for one in inputs]
        if fitting:
            data = schema.get_context_dependent_function_with_opset_version(
                max(fitting), node.SerializeToString(), types
            )
    if not data:
        return None
    found = onnx.FunctionProto()
    found.ParseFromString(data)
    return found


def _type_of(value: Value) -> Any:
    """The type of a value as ONNX writes it."""
    if isinstance(value, Array):
        number = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        return onnx.helper.make_tensor_type_proto(number, value.shape)
    if isinstance(value, list) and value:
        return onnx.helper.make_sequence_type_proto(_type_of(value[0]))
    return onnx.TypeProto()


def _why(domain: str, name: str, version: int) -> str:
    if _schema(domain, name, version) is None:
        versions = f"version {version} of " if domain in ("", "ai.onnx.ml") else ""
        return f"there is no operator {name} in {versions}{domain or 'ai.onnx'}"
    return f"the operator {domain + '.' if domain else ''}{name} is not supported"
