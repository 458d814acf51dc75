"""From an FX graph of ATen operations to a module of HLO.

Every node has what PyTorch knows of its value, without symbols, in ``node.meta["val"]``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from hlotool.ir import Computation, HloError, Instruction, Module
from hlotool.ir.attributes import Aliasing, Metadata
from hlotool.ir.builder import Builder
from hlotool.ir.shape import array, scalar
from hlotool.ir.types import dtype_of
from hlotool.lazy_dataclass import dataclass
from hlotool.torch.checks import Failure, check_of
from hlotool.torch.conditions import conditions
from hlotool.torch.draws import REASON, draws, operation_of
from hlotool.torch.dtypes import element_type_of
from hlotool.torch.lowering import LOWERINGS, Context, Result, Subgraph
from hlotool.torch.mutations import writes, written
from hlotool.torch.places import Leaf, leaf_of, numbers
from hlotool.torch.refusal import Refused

__all__ = ["Lowered", "attribute_of", "lower", "reason_against", "source_of", "subgraph_of"]

_PLACING = ("device", "layout", "pin_memory", "memory_format", "non_blocking", "requires_grad")
_PYTORCH = str(Path(torch.__file__).parent)
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


@dataclass(frozen=True, slots=True)
class Lowered:
    """A module, and what its parameters and results are.

    `inputs` are the numbers of the graph's placeholders that are its first parameters, `captured` the names of
    attributes of the graph module that are the others.  A result is a leaf, or a value that is no tensor.  `written`
    maps leaves among the results, by number, to the parameters that they are written to.  Where something is checked,
    the module gives behind the results the number of the first of `checks` that failed, from one on, or zero.
    """

    module: Module
    inputs: tuple[int, ...]
    captured: tuple[str, ...]
    parameters: tuple[Leaf, ...]
    results: tuple[Leaf | int | float | bool | None, ...]
    written: Mapping[int, int]
    checks: tuple[Failure, ...] = ()

    @property
    def leaves(self) -> list[Leaf]:
        """All that the module gives."""
        return [leaf for leaf in self.results if isinstance(leaf, Leaf)] + [_FAILED] * bool(self.checks)


_FAILED = Leaf("s32", (), (), ())


def lower(graph_module: fx.GraphModule, name: str = "torch") -> Lowered:
    """The graph as a module; Refused, with the operation, where one of its operations has no lowering."""
    _load()
    module = Module(name)
    entry = module.add(Computation("main"), entry=True)
    builder = Builder(entry)
    env: dict[fx.Node, Any] = {}
    strides: dict[Instruction, tuple[int, ...]] = {}
    inputs: list[int] = []
    captured: list[str] = []
    parameters: list[Leaf] = []

    def parameter(value: Any, hint: str) -> Instruction:
        leaf = leaf_of(value)
        made = builder.parameter(len(parameters), array(leaf.element_type, leaf.memory), hint)
        parameters.append(leaf)
        own = made if leaf.is_row_major else builder.transpose(made, leaf.inverse)
        _note_strides(strides, own, value)
        return own

    own: dict[fx.Node, tuple[int, Leaf]] = {}
    placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    for number, node in enumerate(placeholders):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            inputs.append(number)
            env[node] = parameter(value, node.name)
            own[node] = (len(parameters) - 1, parameters[-1])
        else:
            env[node] = value
    for node in graph_module.graph.nodes:
        if node.op == "get_attr":
            value = attribute_of(graph_module, node.target)
            if isinstance(value, torch.Tensor):
                env[node] = parameter(value, node.name)
                captured.append(node.target)
            elif isinstance(value, fx.GraphModule):
                env[node] = _subgraph(value)
    checks: list[tuple[Instruction, Failure]] = []
    for node in graph_module.graph.nodes:
        check = check_of(node)
        if check is not None:
            checks.append((_truth(builder, env[check[0]]), check[1]))
        elif node.op == "call_function":
            env[node] = _call(builder, node, env, strides, checks)
            target = written(node)
            if target is not None:  # who reads it behind this reads what was written
                env[target] = env[node]
        elif node.op == "output":
            roots, results, changed = _results(builder, node, env, own)
            entry.root = builder.tuple([*roots, *_failed(builder, checks)])
        elif node.op not in ("placeholder", "get_attr"):
            raise Refused(f"{node.op} {node.target}")
    module.remove(entry)
    module.add(entry, entry=True)  # after those that it calls
    if changed:
        rows = (Aliasing((result,), number, (), "may-alias") for number, result in changed.items())
        module.attributes["input_output_alias"] = tuple(rows)
    places, failures = {result: number for number, result in changed.items()}, tuple(dict(checks).values())
    return Lowered(module, tuple(inputs), tuple(captured), tuple(parameters), tuple(results), places, failures)


def _failed(builder: Builder, checks: Sequence[tuple[Instruction, Failure]]) -> list[Instruction]:
    """The number of the first check that is not true, from one on, or zero; nothing where there are none."""
    if not checks:
        return []
    number = builder.splat(0, scalar("s32"))
    for place, true in reversed([*enumerate(dict(checks), 1)]):
        number = builder.select(true, number, builder.splat(place, scalar("s32")))
    return [number]


def _truth(builder: Builder, a: Instruction) -> Instruction:
    """Whether the one element of an array is not zero."""
    if a.shape.size != 1:
        raise Refused("a check of more than one element")
    one = builder.reshape(a, ())
    return one if a.shape.element_type == "pred" else builder.compare(one, builder.splat(0, one.shape), "NE")


def subgraph_of(node: fx.Node) -> fx.GraphModule | None:
    """The function that a node stands for, as those that ``torch.cond`` is given."""
    value = attribute_of(node.graph.owning_module, node.target) if node.op == "get_attr" else None
    return value if isinstance(value, fx.GraphModule) else None


def _subgraph(graph_module: fx.GraphModule) -> Subgraph:
    """A graph that is an operation's argument; sizes in it are numbers."""

    def write(builder: Builder, operands: Sequence[Any]) -> list[Any]:
        nodes = graph_module.graph.nodes
        env: dict[fx.Node, Any] = dict(zip((n for n in nodes if n.op == "placeholder"), operands, strict=True))
        strides: dict[Instruction, tuple[int, ...]] = {}
        for node in nodes:
            if node.op == "call_function":
                if writes(node):
                    raise Refused("a function that writes to what it is given")
                env[node] = _call(builder, node, env, strides)
            elif node.op == "output":
                outputs = node.args[0] if isinstance(node.args[0], (tuple, list)) else (node.args[0],)
                return [env[output] if isinstance(output, fx.Node) else output for output in outputs]
            elif node.op != "placeholder":
                own = subgraph_of(node)
                env[node] = _constant(builder, node) if own is None else _subgraph(own)
        raise Refused("a function without results")

    return Subgraph(write)


def _constant(builder: Builder, node: fx.Node) -> Instruction:
    """A tensor that is written in a function, such as ``torch.tensor([1.0, 2.0])``."""
    value = attribute_of(node.graph.owning_module, node.target)
    if type(value) is not torch.Tensor or dtype_of(element_type_of(value.dtype)).isbuiltin != 1:
        raise Refused("a function with such a constant in it")
    with unset_fake_temporarily():  # graphs are compiled while PyTorch traces
        return builder.constant(value.detach().numpy(), element_type_of(value.dtype))


def reason_against(node: fx.Node) -> str | None:
    """Why a call cannot be lowered; None where it can.  It is lowered, in a module of its own, to see."""
    _load()
    if node.target is operator.getitem:
        return None
    check = check_of(node)
    if check is not None:
        return None if check[0].meta["val"].numel() == 1 else "a check of more than one element"
    if node.op != "call_function" or str(node.target) not in LOWERINGS:
        return REASON if draws(operation_of(node)) else "no lowering"
    if writes(node) and written(node) is None:
        return "it writes to a tensor that is no input of the graph"
    entry = Module("trial").add(Computation("main"), entry=True)
    builder = Builder(entry)
    env: dict[fx.Node, Any] = {}
    strides: dict[Instruction, tuple[int, ...]] = {}
    try:
        for number, argument in enumerate(node.all_input_nodes):
            value = argument.meta.get("val")
            if isinstance(value, torch.Tensor):
                leaf = leaf_of(value)
                made = builder.parameter(number, array(leaf.element_type, leaf.sizes))
                env[argument] = made
                _note_strides(strides, made, value)
            elif isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                return "a number is known only when it runs"
            else:
                own = subgraph_of(argument)
                env[argument] = value if own is None else _subgraph(own)
        _call(builder, node, env, strides)
    except Refused as refused:
        return str(refused)
    return None


def source_of(node: fx.Node) -> tuple[str, int] | None:
    """File and line of the user's program that a node comes from: the innermost that is not PyTorch's own."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    own = [frame for frame in frames if not frame[0].startswith(_PYTORCH)] or frames
    return (own[-1][0], int(own[-1][1])) if own else None


def _load() -> None:
    """Fills the table of lowerings."""
    import hlotool.torch.ops  # noqa: F401


def attribute_of(owner: Any, path: str) -> Any:
    """What a node that gets an attribute gives."""
    for name in path.split("."):
        owner = getattr(owner, name)
    return owner


def _results(
    builder: Builder, node: fx.Node, env: Mapping[fx.Node, Any], own: Mapping[fx.Node, tuple[int, Leaf]]
) -> tuple[list[Instruction], list[Leaf | int | float | bool | None], dict[int, int]]:
    """The arrays of the module's root; the graph's results; and the parameters that are written to, with the number of
    the array that is written.

    An array lies in memory as PyTorch's tensor does, or as the parameter that it is written to; `own` has the number
    and the leaf of each placeholder's parameter.
    """
    arrays: list[Instruction] = []
    results: list[Leaf | int | float | bool | None] = []
    changed: dict[int, int] = {}
    outputs = node.args[0] if isinstance(node.args[0], (tuple, list)) else (node.args[0],)
    for output in outputs:
        value = env[output] if isinstance(output, fx.Node) else output
        if not isinstance(value, Instruction):
            results.append(value)
            continue
        target = written(output)
        if target is None:
            leaf = leaf_of(output.meta["val"])
        else:
            number, leaf = own[target]
            changed[number] = len(arrays)
        results.append(leaf)
        arrays.append(value if leaf.is_row_major else builder.transpose(value, leaf.order))
    return arrays, results, changed


def _call(
    builder: Builder, node: fx.Node, env: Mapping[fx.Node, Any], strides: dict[Instruction, tuple[int, ...]],
    checks: list[tuple[Instruction, Failure]] | None = None,
) -> Result:  # fmt: skip
    """The result of one operation, checked against what PyTorch expects; what has to be true when it runs goes to
    `checks`."""
    arguments = fx.map_arg(node.args, env.__getitem__)
    options = fx.map_arg(node.kwargs, env.__getitem__)
    if node.target is operator.getitem:
        element: Result = arguments[0][arguments[1]]
        return element
    function = LOWERINGS.get(str(node.target))
    if function is None:
        raise Refused(f"{node.target}: no lowering")
    given = dict(options)
    if not isinstance(node.target, torch._ops.HigherOrderOperator):  # those have no schema
        given, arguments = _named(node.target, arguments, options), ()
        _check_place(given)
    values = node.meta["val"]
    single = not isinstance(values, (tuple, list))
    expected = tuple(_expected(value) for value in ([values] if single else values))
    builder.like = Instruction("parameter", scalar("pred"), metadata=_metadata(node))
    context = Context(builder, expected, strides)
    found = _lowered(function, context, arguments, given, str(node.target), single)
    _check(found, expected, str(node.target))
    if isinstance(found, Instruction) and isinstance(values, torch.Tensor):
        _note_strides(strides, found, values)
    if checks is not None:
        checks += conditions(context, str(node.target), given)
    return found


def _note_strides(strides: dict[Instruction, tuple[int, ...]], made: Instruction, value: Any) -> None:
    """Note how a tensor lies in memory, if that memory holds nothing else."""
    own = value.numel() * value.element_size()
    if value.storage_offset() == 0 and value.untyped_storage().nbytes() == own:
        strides.setdefault(made, numbers(value.stride()))


def _lowered(
    function: Callable[..., Result], c: Context, arguments: Sequence[Any], given: dict[str, Any], name: str,
    single: bool,
) -> Result:  # fmt: skip
    if all(one is not None and 0 in one[1] for one in c.expected):  # nothing to compute, whatever it is
        nothing = tuple(c.full(0, *one) for one in c.expected if one is not None)
        return nothing[0] if single else nothing
    try:
        return function(c, *arguments, **given)
    except HloError as error:  # of the builder: operands that HLO does not have
        raise Refused(f"{name}: {error}") from error
    except TypeError as error:
        if "unexpected keyword argument" in str(error):
            raise Refused(f"{name}: {str(error).partition('unexpected keyword ')[2]}") from error
        raise


def _named(target: Any, arguments: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by the names of the schema, without those that are as PyTorch has them by default."""
    named = dict(options)
    schema = target._schema.arguments
    for row, value in zip(schema, arguments, strict=False):
        named[row.name] = value
    return {name: value for name, value in named.items() if not (value is None and name in _PLACING)}


def _check_place(given: dict[str, Any]) -> None:
    """Takes out what says where and how memory lies; Refused where that is not dense memory of this processor."""
    device = given.pop("device", None)
    if device is not None and torch.device(device).type != "cpu":
        raise Refused(f"device {device}")
    layout = given.pop("layout", None)
    if layout not in (None, torch.strided):
        raise Refused(f"layout {str(layout).removeprefix('torch.')}")
    for name in _PLACING:
        given.pop(name, None)


def _expected(value: Any) -> tuple[str, tuple[int, ...]] | None:
    if not isinstance(value, torch.Tensor):
        return None
    return element_type_of(value.dtype), numbers(value.shape)


def _check(found: Result, expected: tuple[tuple[str, tuple[int, ...]] | None, ...], name: str) -> None:
    """A lowering that gives another type or other dimensions than PyTorch is not used."""
    values = found if isinstance(found, tuple) else (found,)
    if len(values) != len(expected):
        raise Refused(f"{name}: the lowering gives {len(values)} results, PyTorch {len(expected)}")
    for value, wanted in zip(values, expected, strict=True):
        own = None if value is None else (value.shape.element_type, value.shape.dimensions)
        if own is not None and own != wanted:
            raise Refused(f"{name}: the lowering gives {own}, PyTorch {wanted}")


def _metadata(node: fx.Node) -> Metadata:
    place = source_of(node)
    kind = str(node.target)
    file, line = place or ("", 0)
    return Metadata(op_type=kind, op_name=node.name, source_file=file, source_line=line)
