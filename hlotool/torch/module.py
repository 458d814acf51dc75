"""A module compiled for given arguments: native code that reads parameters and buffers where the module has them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import torch
from torch import fx
from torch.utils import _pytree as pytree

from hlotool.ir import InputError, UnsupportedError
from hlotool.lazy_dataclass import dataclass
from hlotool.torch.call import dense, is_plain, is_transformed, runner
from hlotool.torch.checks import raise_failed
from hlotool.torch.places import leaf_of
from hlotool.torch.program import Compiled, Constant
from hlotool.torch.record import Graph
from hlotool.torch.refusal import Refused

__all__ = ["CompiledModule", "flat_arguments", "raise_unpicklable", "state_of"]


@dataclass(frozen=True, slots=True)
class State:
    """A parameter or buffer: its whole name, and where the module has it."""

    path: str
    owner: dict[str, Any]
    name: str

    @property
    def tensor(self) -> Any:
        """What the module has now."""
        return self.owner.get(self.name)


def state_of(module: Any, target: str) -> State:
    path, _, name = target.rpartition(".")
    owner = module.get_submodule(path)
    return State(target, owner._parameters if name in owner._parameters else owner._buffers, name)


@dataclass(frozen=True, slots=True)
class _Argument:
    """An argument of the caller's: its position among all of them, and a value that is part of the program."""

    name: str
    position: int
    value: Any


class CompiledModule:
    """A module as native code; call it as the module, with arguments like those that it was compiled for."""

    def __init__(self, module: Any, program: Any, graph_module: fx.GraphModule, compiled: Compiled) -> None:
        """`graph_module` is that of `program`, which torch.export gave, with sizes that are numbers."""
        self.module = module
        self.graph: Graph = compiled.graph
        self._origin = program, graph_module, compiled
        self._in_tree, self._out_tree = program.call_spec.in_spec, program.call_spec.out_spec
        self._plain = _are_leaves(self._in_tree)
        self._sources: dict[str, Any] = {}
        """By placeholder: a `State`, an `_Argument`, or a tensor."""
        arguments: list[_Argument] = []
        nodes = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
        own_names = {}
        for node, spec in zip(nodes, program.graph_signature.input_specs, strict=True):
            kind, name = spec.kind.name, node.name
            own_names[spec.arg.name] = name
            if kind in ("PARAMETER", "BUFFER"):
                self._sources[name] = state_of(module, spec.target)
            elif kind == "CONSTANT_TENSOR":
                self._sources[name] = program.constants[spec.target]
            elif kind == "USER_INPUT":
                arguments.append(_Argument(spec.arg.name, len(arguments), node.meta.get("val")))
                self._sources[name] = arguments[-1]
            else:
                raise UnsupportedError(f"inputs of kind {kind.lower().replace('_', ' ')}")
        self._arguments = tuple(arguments)
        self._parts = [
            (owner._modules, name, part, f"{path}.{name}" if path else name)
            for path, owner in module.named_modules()
            for name, part in owner._modules.items()
        ]
        specs = program.graph_signature.output_specs
        self._changed = [self._written(spec, own_names) for spec in specs if spec.kind.name != "USER_OUTPUT"]
        self._results = self._native(compiled) or self._with_tensors(compiled)

    def __repr__(self) -> str:
        return f"CompiledModule({type(self.module).__name__}: {self.graph.partition.report().headline})"

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """What the module gives; InputError names the argument that is not as it was when it was compiled."""
        if not self._plain or options or len(arguments) != len(self._arguments):
            arguments = flat_arguments(self._in_tree, arguments, options)
        if is_transformed():
            raise InputError(
                "a compiled module has no rules for torch.func: call the module itself, or "
                'torch.compile(function, backend="hlotool") of all that is transformed'
            )
        for owner, name, part, path in self._parts:
            if owner.get(name) is not part:
                raise InputError(f"the module has another {path} than when it was compiled: compile it again")
        if self._changed:
            self._check_apart(arguments)
        results = self._results(arguments)
        for number, source in enumerate(self._changed):
            written = source.tensor if isinstance(source, State) else arguments[source.position]
            written.detach().copy_(results[number])
        results = results[len(self._changed) :]
        if self._out_tree.is_leaf():
            return results[0]
        return pytree.tree_unflatten(results, self._out_tree)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledModule:
        """The same code for a copy of the module."""
        return CompiledModule(copy.deepcopy(self.module, memo), *self._origin)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise_unpicklable(self)

    def state_dict(self, *arguments: Any, **options: Any) -> Any:
        """That of the module."""
        return self.module.state_dict(*arguments, **options)

    def load_state_dict(self, *arguments: Any, **options: Any) -> Any:
        """Into the module; calls from now on see it."""
        return self.module.load_state_dict(*arguments, **options)

    def _written(self, spec: Any, names: Mapping[str, str]) -> Any:
        """Where a result goes that is no result of the caller's."""
        if spec.kind.name in ("BUFFER_MUTATION", "PARAMETER_MUTATION"):
            return next(s for s in self._sources.values() if isinstance(s, State) and s.path == spec.target)
        if spec.kind.name == "USER_INPUT_MUTATION":
            return self._sources[names[spec.target]]
        raise UnsupportedError(f"results of kind {spec.kind.name.lower().replace('_', ' ')}")

    def _check_values(self, arguments: Sequence[Any]) -> None:
        """InputError where an argument that is part of the program has another value."""
        for argument in self._arguments:
            if not isinstance(argument.value, torch.Tensor) and arguments[argument.position] != argument.value:
                given = arguments[argument.position]
                raise InputError(f"{argument.name}: {argument.value!r} is part of the compiled program, got {given!r}")

    def _check_apart(self, arguments: Sequence[Any]) -> None:
        """InputError where memory that is written to is that of another argument: the program reads them as if it were
        not."""
        tensors = {id(s): arguments[s.position] for s in self._arguments}
        tensors |= {id(s): s.tensor for s in self._changed if isinstance(s, State)}
        names = {id(s): s.path if isinstance(s, State) else s.name for s in (*self._arguments, *self._changed)}
        spans = {key: _span(tensor) for key, tensor in tensors.items() if isinstance(tensor, torch.Tensor)}
        for source in self._changed:
            first, end = spans.get(id(source), (0, 0))
            for key, (start, stop) in spans.items():
                if key != id(source) and first < stop and start < end:
                    raise InputError(f"{names[id(source)]} is written to, and shares memory with {names[key]}")

    def _native(self, compiled: Compiled) -> Callable[[Sequence[Any]], list[Any]] | None:
        """Native code alone; None where a part runs eagerly."""
        whole = compiled.whole
        if whole is None or any(not isinstance(a.value, torch.Tensor) for a in self._arguments):
            return None
        leaves, names = whole.lowered.parameters, [_named(self._sources[name], name) for name in whole.inputs]
        given = whole.lowered.leaves
        run = runner(whole.executable, leaves, given, names)
        checks = whole.lowered.checks
        given_back = len(given) - bool(checks)
        fixed: list[Any] = [None] * len(leaves)
        states: list[tuple[int, dict[str, Any], str, Any]] = []
        moving: list[tuple[int, int, Any]] = []
        for place, (name, leaf) in enumerate(zip(whole.inputs, leaves, strict=True)):
            source = self._sources[name]
            if isinstance(source, _Argument):
                moving.append((place, source.position, leaf.dtype))
            elif isinstance(source, State):
                states.append((place, source.owner, source.name, leaf.dtype))
            else:
                fixed[place] = dense(source, leaf)
        read = {position for _, position, _ in moving}
        unread = [(a.position, leaf_of(a.value), a.name) for a in self._arguments if a.position not in read]
        results = [self._sources[r] if isinstance(r, str) else r for r in whole.results]
        direct = results == list(range(given_back))

        def call(arguments: Sequence[Any]) -> list[Any]:
            for position, leaf, name in unread:
                dense(arguments[position], leaf, name)
            tensors = fixed.copy()
            for place, owner, name, dtype in states:
                own = tensors[place] = owner.get(name)
                if own is None or own.dtype is not dtype or not own.is_cpu:
                    dense(own, leaves[place], names[place])
            for place, position, dtype in moving:
                own = tensors[place] = arguments[position]
                if not is_plain(own, dtype):
                    tensors[place] = dense(own, leaves[place], names[place])
            made = run(tensors)
            if checks:
                raise_failed(made[given_back], checks)
                del made[given_back:]
            if direct:
                return made
            return [made[r] if type(r) is int else self._value(r, arguments) for r in results]

        return call

    def _with_tensors(self, compiled: Compiled) -> Callable[[Sequence[Any]], list[Any]]:
        """All parts of the graph, those that run eagerly, too."""
        function, sources = compiled.function, list(self._sources.values())
        checks = [(a.position, leaf_of(a.value), a.name) for a in self._arguments if _is_dense(a.value)]

        def call(arguments: Sequence[Any]) -> list[Any]:
            self._check_values(arguments)
            for check in checks:
                dense(arguments[check[0]], *check[1:])
            with torch.no_grad():
                return list(function(*[self._value(source, arguments) for source in sources]))

        return call

    def _value(self, source: Any, arguments: Sequence[Any]) -> Any:
        """What stands for a placeholder, or is a constant."""
        if isinstance(source, State):
            return source.tensor
        if isinstance(source, _Argument):
            return arguments[source.position]
        return source.value if isinstance(source, Constant) else source


def raise_unpicklable(compiled: object) -> NoReturn:
    """TypeError: code is not to be pickled."""
    raise TypeError(
        f"a {type(compiled).__name__} is code in the memory of this process: it cannot be pickled; save the module, or "
        "its state_dict, and compile that again, which the cache makes quick"
    )


def flat_arguments(in_tree: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
    """The leaves of the arguments; InputError where they are not those that `in_tree` describes."""
    names = _children(in_tree)[1].context
    if set(options) == set(names):
        options = {name: options[name] for name in names}
    leaves, tree = pytree.tree_flatten((arguments, options))
    if tree != in_tree:
        raise InputError(f"arguments: expected {_described(in_tree)}, got {_described(tree)}")
    return tuple(leaves)


def _children(tree: Any) -> Sequence[Any]:
    """The trees in a tree, which have another name in older versions of PyTorch."""
    found: Sequence[Any] = tree.children() if hasattr(tree, "children") else tree.children_specs
    return found


def _are_leaves(tree: Any) -> bool:
    """Whether the arguments are nothing but leaves, none by name."""
    given, named = _children(tree)
    return not named.num_children and all(child.is_leaf() for child in _children(given))


def _is_dense(value: Any) -> bool:
    try:
        return isinstance(value, torch.Tensor) and leaf_of(value) is not None
    except Refused:
        return False


def _named(source: Any, name: str) -> str:
    return source.path if isinstance(source, State) else source.name if isinstance(source, _Argument) else name


def _span(tensor: Any) -> tuple[int, int]:
    """Where the memory of a tensor begins and ends."""
    if tensor.layout != torch.strided or not tensor.numel():
        return 0, 0
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


def _described(tree: Any) -> str:
    """How arguments are put together, in words."""
    given, named = _children(tree)
    count = given.num_children
    words = f"{count} argument{'' if count == 1 else 's'}"
    names = f" and {', '.join(named.context)} by name" if named.num_children else ""
    nested = "" if all(child.is_leaf() for child in (*_children(given), *_children(named))) else f" like {tree}"
    return words + names + nested
