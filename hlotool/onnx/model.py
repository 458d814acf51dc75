"""Reading models: the file, and whether it is a model at all.

What is checked here is what every lowering relies on: operator sets that are known, names that are given once, nodes
in an order in which each reads what is there.  All errors are collected; they name nodes, as ONNX has no lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from hlotool.ir import Diagnostic, ParseError
from hlotool.lazy_dataclass import dataclass
from hlotool.onnx.library import onnx

__all__ = ["Model", "check_names", "graphs_of", "inputs_of", "label", "opset_of", "ordered", "read_model"]

_MOST_ERRORS = 20


@dataclass(frozen=True, slots=True)
class Model:
    """A model as it was read.

    `opsets` are the versions of operator sets by domain ("" is ai.onnx), `functions` the functions that the model
    brings along by domain, name and overload, `folder` where external data lie (None: nowhere).
    """

    name: str
    proto: Any
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str, str], Any]
    folder: Path | None


def read_model(source: str | Path | bytes, name: str = "", folder: str | Path | None = None) -> Model:
    """The model in a file, or in the bytes of one; ParseError with all that is wrong in it.

    External data lie in `folder`: by default, that of the file.
    """
    if isinstance(source, bytes):
        data, name = source, name or "<model>"
    else:
        path, name = Path(source), name or str(source)
        folder = path.parent if folder is None else folder
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ParseError(f"cannot read {name}: {error.strerror or error}") from error
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except Exception as error:  # the decoder's own, whose class depends on how protobuf was built
        raise _failed(name, [f"this is no model in ONNX, or it is cut off: {error}"]) from error
    broken = next(_undecodable(proto), None)
    if broken is not None:
        raise _failed(name, [f"{broken!r} is not in UTF-8, as all text of a model is: the file is broken"])
    return model_of(proto, name, None if folder is None else Path(folder))


def _undecodable(message: Any) -> Iterator[bytes]:
    """Texts that are not in UTF-8, which protobuf hands out as bytes."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            texts = [value] if isinstance(value, (str, bytes)) else value
            yield from (one for one in texts if isinstance(one, bytes))
        elif field.type == field.TYPE_MESSAGE:
            for one in [value] if hasattr(value, "ListFields") else value:
                yield from _undecodable(one)


def model_of(proto: Any, name: str = "<model>", folder: Path | None = None) -> Model:
    """A ModelProto, checked."""
    problems: list[str] = []
    if not proto.HasField("graph"):
        raise _failed(name, ["there is no graph in it: this is no model in ONNX, or it is cut off"])
    opsets = opsets_of(proto.opset_import)
    if not opsets:
        opsets[""] = 1
    known = {"": onnx.defs.onnx_opset_version()}
    for domain, newest in known.items():
        if opsets.get(domain, 1) > newest:
            problems.append(
                f"operator set {opsets[domain]} of ai.onnx is newer than onnx {onnx.__version__}, which knows up to "
                f"{newest}: update the package onnx"
            )
        elif opsets.get(domain, 1) < 1:
            problems.append(f"operator set {opsets[domain]} of ai.onnx: versions begin with 1")
    functions: dict[tuple[str, str, str], Any] = {}
    for one in proto.functions:
        key = (domain_of(one.domain), one.name, one.overload)
        if key in functions:
            problems.append(f"the function {one.name} is defined twice")
        functions[key] = one
    problems += check_names(proto.graph, frozenset())
    if problems:
        raise _failed(name, problems)
    return Model(name, proto, opsets, functions, folder)


def opsets_of(imports: Iterable[Any]) -> dict[str, int]:
    """The versions of operator sets by domain."""
    return {domain_of(one.domain): one.version for one in imports}


def domain_of(name: str) -> str:
    """The domain as schemas have it: that of ONNX's own operators has no name."""
    return "" if name == "ai.onnx" else name


def opset_of(domain: str, opsets: Mapping[str, int]) -> int:
    """The version of an operator set; 1 of one that the model does not import."""
    return opsets.get(domain, 1)


def label(node: Any, number: int | None = None) -> str:
    """A node as messages name it: by its operator and name, or else its first output or place."""
    kind = f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
    if node.name:
        return f"{kind} {node.name!r}"
    made = next((one for one in node.output if one), None)
    return f"{kind} that gives {made!r}" if made is not None else f"{kind} (node {number})"


def graphs_of(node: Any) -> Iterator[Any]:
    """The graphs among the attributes of a node."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from attribute.graphs


def inputs_of(node: Any) -> set[str]:
    """What a node reads, and what graphs in it read of those around them."""
    found = {one for one in node.input if one}
    for graph in graphs_of(node):
        inside = {one.name for one in graph.input} | {one.name for one in graph.initializer}
        inside |= {one.values.name for one in graph.sparse_initializer}
        read = {one.name for one in graph.output}
        for each in graph.node:
            inside.update(each.output)
            read |= inputs_of(each)
        found |= read - inside
    return found


def check_names(graph: Any, outside: Set[str]) -> list[str]:
    """What is wrong with the names in a graph: given twice, read and not given, in a circle."""
    problems: list[str] = []
    givers: dict[str, str] = {}

    def give(name: str, giver: str) -> None:
        if name in givers:
            problems.append(f"{name!r} is given twice, by {givers[name]} and by {giver}")
        else:
            givers[name] = giver

    for one in graph.input:
        give(one.name, "an input of the graph")
    initial = [one.name for one in graph.initializer] + [one.values.name for one in graph.sparse_initializer]
    if len(set(initial)) != len(initial):
        twice = sorted({name for name in initial if initial.count(name) > 1})
        problems.append(f"weights of the same name: {', '.join(map(repr, twice))}")
    for name in dict.fromkeys(initial):
        if name not in givers:  # old files list weights among the inputs, too
            givers[name] = "a weight"
    for number, node in enumerate(graph.node):
        for name in node.output:
            if name:
                give(name, label(node, number))
    visible = givers.keys() | outside
    for number, node in enumerate(graph.node):
        lost = sorted(inputs_of(node) - visible)
        if lost:
            problems.append(f"{label(node, number)} reads {', '.join(map(repr, lost))}, which nothing gives")
        for inner in graphs_of(node):
            problems += [] if lost else check_names(inner, visible)
    problems += [
        f"the output {one.name!r} is given by no node" for one in graph.output if one.name not in visible
    ]
    if not problems:
        _, circle = ordered(graph.node)
        if circle:
            problems.append(f"nodes in a circle, each of which reads what the next gives: {' -> '.join(circle)}")
    return problems


def ordered(nodes: Iterable[Any]) -> tuple[list[Any], list[str]]:
    """Nodes so that each comes after those that it reads, else as they were; and the labels of a circle if one is."""
    given = list(nodes)
    makers = {name: number for number, node in enumerate(given) for name in node.output if name}
    before = [sorted({makers[name] for name in inputs_of(node) if name in makers}) for node in given]
    if all(all(one < number for one in needed) for number, needed in enumerate(before)):
        return given, []  # as the format has it
    state = [0] * len(given)  # 1 while what it reads is looked at, 2 when it is in the result
    result: list[Any] = []
    for first in range(len(given)):
        path = [first] if not state[first] else []
        while path:
            here = path[-1]
            state[here] = 1
            missing = next((one for one in before[here] if state[one] != 2), None)
            if missing is None:
                state[here] = 2
                result.append(given[here])
                path.pop()
            elif state[missing] == 1:
                circle = path[path.index(missing) :]
                return given, [label(given[one], one) for one in (*circle, missing)]
            else:
                path.append(missing)
    return result, []


def _failed(name: str, problems: list[str]) -> ParseError:
    shown = [Diagnostic(f"{name}: {one}", code=ParseError.code) for one in problems[:_MOST_ERRORS]]
    more = len(problems) - len(shown)
    text = f"{name}: {problems[0]}" + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else "")
    if more > 0:
        shown.append(Diagnostic(f"and {more} more errors", code=ParseError.code))
    return ParseError(text, shown)
