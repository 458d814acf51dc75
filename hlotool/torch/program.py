"""A graph of ATen operations as a function of tensors: clusters of it compiled, what is left run eagerly."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Sequence
from statistics import fmean
from threading import Lock
from typing import Any

import torch
from torch import fx

from hlotool.analysis.clusters import Node, Part, Partition, partition
from hlotool.driver import compile_module
from hlotool.driver.fallback import fall_back_in_part
from hlotool.frontends.programs import Program
from hlotool.ir import HloError, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.executable import Executable
from hlotool.text.fingerprint import content_hash
from hlotool.torch.call import function_of
from hlotool.torch.checks import check_of, leave_out_checks
from hlotool.torch.draws import draws, draws_first, operation_of
from hlotool.torch.expansion import expanded
from hlotool.torch.graph import Lowered, attribute_of, lower, reason_against, source_of, subgraph_of
from hlotool.torch.mutations import must_follow, writes, written
from hlotool.torch.places import Leaf
from hlotool.torch.record import Graph, record
from hlotool.torch.refusal import Refused
from hlotool.torch.sharing import sharing
from hlotool.torch.specialise import is_symbolic, specialised

__all__ = ["Compiled", "Constant", "Whole", "compiled_graph", "function_of_graph"]

_MOST_SIZES = 64  # for how many different sizes a graph with symbols is kept compiled
_AT_ONCE = 8
"""For so many different sizes a graph with symbols is compiled as soon as they come.  What comes later runs eagerly
until that took as long as compiling does: each length of a text that grows comes once, and is not worth compiling."""
_MOST_EXECUTABLES = 256
_WORTH = 0.5  # operations that compute count 1, those that only move nothing

_EXECUTABLES: dict[str, Executable] = {}
_LOCK = Lock()

Function = Callable[..., Sequence[Any]]


def function_of_graph(graph_module: fx.GraphModule, name: str, own: int = 0) -> Function:
    """A function of the graph's placeholders that gives its results as a list.

    The first `own` results are for who calls: they share memory with each other and with arguments where they are
    views.

    Graphs whose sizes are symbols are compiled for the sizes of each call, those of the last calls being kept; where
    many come, for those that come often (`_AT_ONCE`).
    """
    if not is_symbolic(graph_module):
        return _guarded(graph_module, name, own)
    known: dict[tuple[Any, ...], Function] = {}
    spent: dict[tuple[Any, ...], float] = {}
    compiling: list[float] = []

    def call(*arguments: Any) -> Sequence[Any]:
        key = tuple([(*a.shape, *a.stride()) if isinstance(a, torch.Tensor) else a for a in arguments])
        function = known.get(key)
        if function is not None:
            return function(*arguments)
        start = time.perf_counter()
        if len(compiling) >= _AT_ONCE and spent.get(key, 0.0) < fmean(compiling):
            found: Sequence[Any] = graph_module.forward(*arguments)
            if not spent:
                record(_run_eagerly(graph_module, name))
            spent[key] = spent.get(key, 0.0) + time.perf_counter() - start
            return found
        if len(known) == _MOST_SIZES:
            del known[next(iter(known))]
        made = specialised(graph_module, arguments)
        function = known[key] = _guarded(made, f"{name}{_sizes(arguments)}", own)
        spent.pop(key, None)
        if len(compiling) < _AT_ONCE:
            compiling.append(time.perf_counter() - start)
        return function(*arguments)

    return call


def _guarded(graph_module: fx.GraphModule, name: str, own: int) -> Function:
    """A graph whose sizes are numbers, compiled for tensors of which PyTorch sees to the types."""
    graph_module, with_views = sharing(graph_module, own)
    return with_views(compiled_graph(graph_module, name, guarded=True).function)


def _run_eagerly(graph_module: fx.GraphModule, name: str) -> Graph:
    """The record of a graph whose sizes come too seldom to be compiled for."""
    reason = f"more than {_AT_ONCE} sizes came, and this one too seldom: compiling is not worth a call"
    cut = _partition(graph_module, {node.name: reason for node in graph_module.graph.nodes})
    count = sum(node.op == "placeholder" for node in graph_module.graph.nodes)
    made = Program(f"{name} for other sizes", f"of {count} inputs", reason=reason, note=cut.report().headline)
    return Graph(made, cut)


def _sizes(arguments: Sequence[Any]) -> str:
    """The numbers among the arguments, which are the sizes that were symbols."""
    return str([a for a in arguments if isinstance(a, int)])


@dataclass(frozen=True, slots=True)
class _Step:
    """A part of a graph: a function of the values in some places, whose results go to others."""

    function: Function
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """A result that is no tensor."""

    value: Any


@dataclass(frozen=True, slots=True)
class Whole:
    """A graph that one executable computes.

    `inputs` are the placeholders that its parameters are.  A result of the graph is the number of the executable's, the
    name of a placeholder, or a `Constant`.
    """

    lowered: Lowered
    executable: Executable
    inputs: tuple[str, ...]
    results: tuple[int | str | Constant, ...]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A graph whose sizes are numbers, compiled: a function of its placeholders, and its record.

    `whole` is there where native code computes all of it.
    """

    function: Function
    graph: Graph
    whole: Whole | None


def compiled_graph(graph_module: fx.GraphModule, name: str, guarded: bool = False) -> Compiled:
    """Compile a graph whose sizes are numbers; `guarded` if PyTorch sees to it that tensors of other types don't come.
    """
    start = time.perf_counter()
    leave_out_checks(graph_module.graph)
    graph_module = draws_first(expanded(graph_module))
    nodes = graph_module.graph.nodes
    placeholders = [node for node in nodes if node.op == "placeholder"]
    cut, built = _built(graph_module, {n.name for n in placeholders if guarded and _is_sure(n)})
    steps: list[_Step] = []
    places: dict[str, int] = {}
    captured: list[Any] = []
    attributes = [node for node in nodes if node.op == "get_attr" and subgraph_of(node) is None]
    for node in (*placeholders, *attributes):
        places[node.name] = len(places)
        if node.op == "get_attr":
            captured.append(attribute_of(graph_module, node.target))
    for part, made in zip(cut.parts, built, strict=True):
        for output in part.outputs:
            places[output] = len(places)
        inputs, outputs = (tuple(places[n] for n in names) for names in (part.inputs, part.outputs))
        steps.append(_Step(made.function, inputs, outputs))
    results = _results(graph_module)
    seconds = time.perf_counter() - start
    program = Program(name, f"of {len(placeholders)} inputs", note=cut.report().headline, compile_seconds=seconds)
    graph = Graph(program, cut)
    record(graph)
    fall_back_in_part(f"a part of {name}", cut.report(), "it runs eagerly")
    ends = [places[r.name] if isinstance(r, fx.Node) else Constant(r) for r in results]
    whole = None if captured else _whole(cut, built, results)
    return Compiled(_runner(steps, captured, ends), graph, whole)


def _is_sure(node: fx.Node) -> bool:
    """Whether guards see to it that a tensor is plain; gradients come as autograd makes them: negated, for example."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or node.name.startswith("tangents"):
        return False
    return value.device.type == "cpu" and not value.is_complex() and not value.is_neg()


def _whole(cut: Partition, built: Sequence[_Built], results: Sequence[Any]) -> Whole | None:
    if len(built) != 1 or built[0].native is None:
        return None
    lowered, executable = built[0].native
    part = cut.parts[0]
    if lowered.written or len(lowered.parameters) != len(part.inputs):
        return None
    if any(not isinstance(r, Leaf) for r in lowered.results):
        return None
    own = {name: number for number, name in enumerate(part.outputs)}
    ends = tuple(own.get(r.name, r.name) if isinstance(r, fx.Node) else Constant(r) for r in results)
    return Whole(lowered, executable, part.inputs, ends)


@dataclass(frozen=True, slots=True)
class _Built:
    """A part that can be run; `native` if it is compiled."""

    function: Function
    native: tuple[Lowered, Executable] | None = None


def _runner(steps: Sequence[_Step], captured: Sequence[Any], results: Sequence[int | Constant]) -> Function:
    """A function that runs the steps in order."""
    if len(steps) == 1 and not captured and list(steps[0].outputs) == list(results):
        inputs, function = steps[0].inputs, steps[0].function
        if inputs == tuple(range(len(inputs))):
            return lambda *arguments: function(*arguments[: len(inputs)])
        return lambda *arguments: function(*[arguments[place] for place in inputs])
    if len(steps) == 1 and not captured and all(isinstance(place, int) for place in results):
        return _single(steps[0], results)
    last: dict[int, int] = {}
    kept = {place for place in results if isinstance(place, int)}
    for number, step in enumerate(steps):
        last.update(dict.fromkeys((*step.inputs, *step.outputs), number))
    ending = [tuple(p for p, n in last.items() if n == number and p not in kept) for number in range(len(steps))]

    def run(*arguments: Any) -> Sequence[Any]:
        values: dict[int, Any] = dict(enumerate((*arguments, *captured)))
        for step, dying in zip(steps, ending, strict=True):
            found = step.function(*[values[place] for place in step.inputs])
            values.update(zip(step.outputs, found, strict=True))
            for place in dying:  # memory that nothing reads any more is for others
                del values[place]
        return [values[place] if isinstance(place, int) else place.value for place in results]

    return run


def _single(step: _Step, results: Sequence[int | Constant]) -> Function:
    """A function that runs one step, some of the results being arguments."""
    inputs, function, places = step.inputs, step.function, tuple(results)

    def run(*arguments: Any) -> Sequence[Any]:
        values: Any = (*arguments, *function(*[arguments[place] for place in inputs]))
        return [values[place] for place in places]

    return run


def _built(graph_module: fx.GraphModule, guarded: set[str]) -> tuple[Partition, list[_Built]]:
    """The partition of the graph, and a function for each part; `guarded` are placeholders whose types are sure.

    A cluster that turns out not to compile runs eagerly, too.
    """
    refused: dict[str, str] = {}
    while True:
        cut = _partition(graph_module, refused)
        built: list[_Built] = []
        for part in cut.parts:
            graph = _part(graph_module, part)
            if not part.compiled:
                built.append(_Built(graph.forward))
                continue
            try:
                lowered = lower(graph)
                executable = _compiled(lowered.module)
            except (Refused, HloError) as error:
                refused.update((node.name, " ".join(str(error).split())) for node in part.nodes)
                break
            captured = [attribute_of(graph, name) for name in lowered.captured]
            known = guarded.union(*(p.outputs for p in cut.parts if p.compiled))
            unknown = [number for number, name in enumerate(part.inputs) if name not in known]
            function = function_of(lowered, executable, captured, graph.forward, unknown)
            built.append(_Built(function, (lowered, executable)))
        else:
            return cut, built


def _partition(graph_module: fx.GraphModule, refused: dict[str, str]) -> Partition:
    nodes = []
    effect: tuple[str, ...] = ()
    follows = must_follow(graph_module.graph.nodes)
    for node in graph_module.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        reason = refused.get(node.name) or reason_against(node) or ""
        after: tuple[str, ...] = ()
        if reason and _has_effect(node):  # one that has a lowering has none with these arguments
            after, effect = effect, (node.name,)
        after += follows.get(node.name, ())
        place = source_of(node)
        nodes.append(
            Node(
                name=node.name, op=str(operation_of(node)),
                inputs=tuple(n.name for n in node.all_input_nodes if subgraph_of(n) is None),
                reason=reason, after=after, cost=float(not _only_moves(node)),
                where=f"{place[0]}:{place[1]}" if place else "", element_of_input=node.target is operator.getitem,
            )
        )  # fmt: skip
    outputs = [r.name for r in _results(graph_module) if isinstance(r, fx.Node)]
    outputs += [node.name for node in graph_module.graph.nodes if written(node) is not None]
    made = {node.name for node in nodes}
    return partition(nodes, minimum=_WORTH, outputs=[name for name in dict.fromkeys(outputs) if name in made])


def _only_moves(node: fx.Node) -> bool:
    """Whether it computes nothing: eager PyTorch gives a view, or the result of another is written where it belongs."""
    schema = getattr(node.target, "_schema", None)
    if node.target is operator.getitem or written(node) is not None or check_of(node) is not None:
        return True
    return schema is not None and not schema.is_mutable and any(row.alias_info for row in schema.arguments)


def _has_effect(node: fx.Node) -> bool:
    """Draws from PyTorch's generator, or writes to what it is given."""
    operation = operation_of(node)
    if not isinstance(operation, torch._ops.OpOverload):
        return operation is not operator.getitem
    return draws(operation) or writes(node)


def _results(graph_module: fx.GraphModule) -> Sequence[Any]:
    output = next(iter(reversed(graph_module.graph.nodes)))
    found = output.args[0]
    return found if isinstance(found, (tuple, list)) else (found,)


def _part(graph_module: fx.GraphModule, part: Part) -> fx.GraphModule:
    """A part as a graph of its own."""
    by_name = {node.name: node for node in graph_module.graph.nodes}
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for name in part.inputs:
        own = by_name[name]
        copies[own] = graph.placeholder(name)
        copies[own].meta = own.meta
    for node in part.nodes:
        own = by_name[node.name]
        for argument in own.all_input_nodes:
            if argument not in copies:  # a function, which is a part of the program
                copies[argument] = graph.node_copy(argument)
        copies[own] = graph.node_copy(own, copies.__getitem__)
    graph.output(tuple(copies[by_name[name]] for name in part.outputs))
    return fx.GraphModule(graph_module, graph)


def _compiled(module: Module) -> Executable:
    """The executable of a module: that of an equal one where there is one."""
    key = content_hash(module)
    with _LOCK:
        found = _EXECUTABLES.get(key)
    if found is None:
        found = compile_module(module, donate="declared")
        with _LOCK:
            while len(_EXECUTABLES) >= _MOST_EXECUTABLES:
                del _EXECUTABLES[next(iter(_EXECUTABLES))]
            _EXECUTABLES[key] = found
    return found
