"""Compiled graphs with gradients as functions of PyTorch's autograd, without what AOTAutograd does around each call.

AOTAutograd cuts a graph into a forward and a backward pass and calls them between checks and conversions for all that
a graph may do: return views of its arguments, write to them, take and give tensors of other classes.
That takes ten times as long as a small model's code.  Most graphs do none of it.  For these the two passes become one
``torch.autograd.Function``, once both are compiled; the first call, and all calls within transformations of
`torch.func`, go through AOTAutograd's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NoReturn

import torch
from torch import fx
from torch._functorch._aot_autograd.schemas import SubclassCreationMeta
from torch._functorch.aot_autograd import make_boxed_func
from torch._guards import TracingContext

from hlotool.torch.call import is_transformed
from hlotool.torch.program import Function, function_of_graph

__all__ = ["Passes", "is_joined"]

_NOTHING = (
    "num_mutated_inp_runtime_indices", "num_outputs_aliased", "num_intermediate_bases",
    "num_opaque_objects_saved_for_bw", "num_tensors_saved_with_no_vc_check", "num_backward_tokens",
    "num_graphsafe_rng_states", "is_rng_op_functionalized", "grad_enabled_mutation", "tokens", "act_input_indices",
    "indices_of_inputs_that_requires_grad_with_mutations_in_bw",
)  # fmt: skip
"""What AOTAutograd's `ViewAndMutationMeta` counts or lists that needs its own code, as far as a version has it."""


_hooks: Callable[[bool], Any] = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", lambda tracing: None)
"""The hooks for saved tensors that are in force, a pair (since PyTorch 2.7)."""


class Passes:
    """The forward and the backward pass of one graph, compiled when AOTAutograd hands them over, which it does with the
    backward pass as late as in the first ``backward()``."""

    def __init__(self, name: Callable[[str], str], inputs: int) -> None:
        """`name` names a pass of a kind, ``forward`` for example; `inputs` are how many values the graph is given."""
        self._name, self._inputs = name, inputs
        self._functions: dict[str, Function] = {}
        self._graphs: dict[str, fx.GraphModule] = {}
        self._metadata: Any = None
        self._autocast = torch._C._is_any_autocast_enabled()
        hooks = _hooks(True) or ()
        self._hooked = any(isinstance(hook, fx.GraphModule) for hook in hooks)  # which AOTAutograd makes part of passes

    def compiler(self, kind: str) -> Callable[[fx.GraphModule, Sequence[Any]], Callable[..., Any]]:
        """What AOTAutograd calls with a graph of `kind`."""

        def compile_pass(graph_module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
            if kind == "forward":
                self._metadata = getattr(TracingContext.try_get(), "fw_metadata", None)
            own = {"forward": getattr(self._metadata, "num_forward_returns", 0), "backward": 0}
            results = len(graph_module.graph.output_node().args[0])
            function = function_of_graph(graph_module, self._name(kind), own.get(kind, results))
            self._functions[kind] = function
            self._graphs[kind] = graph_module
            boxed: Callable[..., Any] = make_boxed_func(function)
            return boxed

        return compile_pass

    def function(self, wrapped: Callable[..., Any]) -> Callable[..., Any]:
        """The graph as a function: `wrapped`, AOTAutograd's, until both passes are compiled and can be called alone."""
        if "forward" not in self._functions:
            return wrapped
        joined: Callable[..., Any] | None = None

        def call(*arguments: Any) -> Any:
            nonlocal joined
            if joined is None and "backward" in self._functions:
                joined = self._joined() or wrapped
            return wrapped(*arguments) if joined is None or is_transformed() else joined(*arguments)

        return call

    def _joined(self) -> Callable[..., Any] | None:
        """Both passes as one function of autograd; None where the graph needs AOTAutograd's code around them."""
        metadata, forward, backward = self._metadata, self._graphs["forward"], self._graphs["backward"]
        if self._hooked or metadata is None or any(getattr(metadata, name, None) for name in _NOTHING):
            return None
        metas = (*metadata.subclass_inp_meta, *metadata.subclass_fw_graph_out_meta, *metadata.subclass_tangent_meta)
        infos = metadata.output_info
        if any(isinstance(meta, SubclassCreationMeta) for meta in metas) or not all(
            issubclass(info.raw_type, torch.Tensor) for info in infos
        ):
            return None
        results, gradients = (list(graph.graph.output_node().args[0]) for graph in (forward, backward))
        wanted = [number for number, info in enumerate(infos) if _needs_gradient(info)]
        own, kept = results[: len(infos)], results[len(infos) :]
        sizes = metadata.num_symints_saved_for_bw or 0
        tensors = results[: len(results) - sizes]
        if (
            _placeholders(forward) != self._inputs
            or len(gradients) != self._inputs
            or _placeholders(backward) != len(kept) + len(wanted)
            or len(set(own)) < len(own)
            or any(_is_tensor(node) != (place < len(tensors)) for place, node in enumerate(results))
        ):
            return None
        joined = _autograd_function(
            self._functions["forward"], self._functions["backward"], len(infos), len(tensors), wanted,
            [number for number, info in enumerate(infos) if not info.requires_grad], self._autocast,
        )  # fmt: skip
        given = zip(gradients, metadata.input_info, strict=True)
        without = [number for number, (node, info) in enumerate(given) if node is None and info.requires_grad]
        moving = {number: info.dynamic_dims for number, info in enumerate(infos) if info.dynamic_dims}
        return _with_notes(joined, without, tuple(metadata.mutated_graph_handled_indices_seen_by_autograd), moving)


def is_joined(node: Any) -> bool:
    """Whether a node of autograd's graph, ``tensor.grad_fn``, is of a graph whose passes are one function."""
    return hasattr(getattr(type(node), "_forward_cls", None), "joined")


def _needs_gradient(info: Any) -> bool:
    """Whether the backward pass is given the gradient of an output."""
    return bool(getattr(info, "requires_grad_for_backward", info.requires_grad))


def _is_tensor(node: Any) -> bool:
    return isinstance(node, fx.Node) and isinstance(node.meta.get("val"), torch.Tensor)


def _placeholders(graph_module: fx.GraphModule) -> int:
    return sum(node.op == "placeholder" for node in graph_module.graph.nodes)


def _autograd_function(
    forward: Function, backward: Function, count: int, tensors: int, wanted: Sequence[int], constant: Sequence[int],
    autocast: bool,
) -> Callable[..., Any]:  # fmt: skip
    """A function whose results are the first `count` of the forward pass.  The other `tensors`, and sizes behind them,
    are for the backward pass.

    That is given the gradients of the results `wanted`; results that are `constant` have none.  Where `autocast` is on
    the passes, which have its conversions, run without it.
    """
    plainly = torch._C._DisableAutocast if autocast else nullcontext

    class CompiledFunction(torch.autograd.Function):  # type: ignore[misc]
        joined = True

        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> Any:
            with plainly():
                results = forward(*arguments)
            ctx.save_for_backward(*[kept.detach() if kept._is_view() else kept for kept in results[count:tensors]])
            ctx.sizes = results[tensors:]
            given = [_no_view(result) if result._is_view() else result for result in results[:count]]
            if constant:
                ctx.mark_non_differentiable(*[given[number] for number in constant])
            ctx._materialize_non_diff_grads = False
            return tuple(given)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            if is_transformed():
                raise RuntimeError("a compiled backward pass has no rules for torch.func: transform before compiling")
            given = (*ctx.sizes, *ctx.saved_tensors, *[gradients[number] for number in wanted])
            if torch.is_grad_enabled():
                # An argument that needs a gradient, so that gradients say that they come from somewhere.
                return _Twice.apply(lambda: _run(given), torch.empty(0, requires_grad=True), *given)
            return _run(given)

    def _run(given: Sequence[Any]) -> tuple[Any, ...]:
        with plainly():
            return tuple(backward(*given))

    # That of the class itself looks for transformations first.
    apply: Callable[..., Any] = super(torch.autograd.Function, CompiledFunction).apply
    return apply


def _no_view(tensor: Any) -> Any:
    """A tensor in the same memory that autograd knows as no view, as AOTAutograd gives it: it may be written to."""
    return torch.ops.aten._unsafe_view(tensor, tensor.shape)


def _with_notes(
    function: Callable[..., Any], without: Sequence[int], written: Sequence[int], moving: Mapping[int, set[int]]
) -> Callable[..., Any]:
    """The function, and what others have to know of a call: arguments `without` a gradient are detached, so that
    autograd ends there; the versions of arguments that are `written` to are counted up; and results carry the
    dimensions whose sizes vary (`moving`), by which Dynamo compiles the graphs that follow."""
    if not without and not written and not moving:
        return function

    def call(*arguments: Any) -> Any:
        given = list(arguments)
        if written:
            torch.autograd.graph.increment_version([given[number] for number in written])
        for number in without:
            given[number] = given[number].detach()
        results = function(*given)
        for number, sizes in moving.items():
            results[number]._dynamo_weak_dynamic_indices = sizes.copy()
        return results

    return call


class _Twice(torch.autograd.Function):  # type: ignore[misc]
    """Gradients of which no gradients can be computed."""

    @staticmethod
    def forward(ctx: Any, run: Callable[[], tuple[Any, ...]], *arguments: Any) -> tuple[Any, ...]:
        return run()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> NoReturn:
        raise RuntimeError("torch.compile with aot_autograd does not currently support double backward")
