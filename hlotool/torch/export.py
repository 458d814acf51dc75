"""`hlotool.torch.compile`: a module or a function for given arguments, without guards.

`torch.export` records what it computes; parameters and buffers are read where they are, at every call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch.utils import _pytree as pytree

from hlotool.ir import InputError, UnsupportedError
from hlotool.torch.call import entering, leaving
from hlotool.torch.dynamo import decompositions
from hlotool.torch.places import leaf_of
from hlotool.torch.program import Compiled, Constant, compiled_graph
from hlotool.torch.record import Graph
from hlotool.torch.refusal import Refused

__all__ = ["CompiledModule", "compile_module"]

_NUMBERS = count()


def compile_module(
    module: Callable[..., Any], example_inputs: Sequence[Any] = (), example_options: Mapping[str, Any] | None = None
) -> CompiledModule:
    """`module` compiled for arguments like these: a tuple, and a dictionary of those given by name.

    What comes back takes tensors of the same types and sizes and gives tensors, without copies on the way in or out,
    and without gradients.  Arguments that are no tensors are part of the program.  Parameters and buffers are those
    of `module`, as they are at the time of a call; buffers that it changes are changed.  It computes what `module` does
    in the mode that it is in now (``module.eval()``).  Operations that have no lowering run eagerly (`explain`).
    InputError where PyTorch cannot export it.
    """
    if isinstance(example_inputs, torch.Tensor) or not isinstance(example_inputs, Sequence):
        raise InputError(f"example_inputs: expected a tuple of arguments, not a {type(example_inputs).__name__}")
    if not callable(module):
        raise InputError(f"expected a module or a function of tensors, not a {type(module).__name__}")
    own = module if isinstance(module, torch.nn.Module) else _Function(module)
    options = dict(example_options or {})
    try:
        with torch.no_grad():
            program = torch.export.export(own, tuple(example_inputs), options).run_decompositions(decompositions())
    except Exception as error:
        name = getattr(module, "__name__", type(module).__name__)
        raise InputError(f"PyTorch cannot export {name}: {_first_lines(error)}") from error
    name = f"module {next(_NUMBERS)} ({type(own).__name__})"
    return CompiledModule(own, program, compiled_graph(program.graph_module, name))


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:3])}"


class _Function(torch.nn.Module):  # type: ignore[misc]  # torch's types are not read
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *arguments: Any, **options: Any) -> Any:
        return self._function(*arguments, **options)


@dataclass(slots=True)
class _State:
    """A parameter or buffer: where the module has it, what it was, and its memory."""

    owner: dict[str, Any]
    name: str
    tensor: Any
    address: int

    @property
    def changed(self) -> bool:
        """Whether the module has another tensor now, or that one other memory."""
        return self.owner[self.name] is not self.tensor or self.tensor.data_ptr() != self.address

    def renew(self) -> None:
        """Take what the module has now."""
        self.tensor = self.owner[self.name]
        self.address = self.tensor.data_ptr()


def _state(module: Any, target: str) -> _State:
    path, _, name = target.rpartition(".")
    owner = module.get_submodule(path)
    values = owner._parameters if name in owner._parameters else owner._buffers
    return _State(values, name, values[name], values[name].data_ptr())


@dataclass(frozen=True, slots=True)
class _Argument:
    """An argument of the caller's: its position among all of them, and a value that is part of the program."""

    name: str
    position: int
    value: Any


class CompiledModule:
    """A module as native code; call it as the module, with arguments like those that it was compiled for."""

    def __init__(self, module: Any, program: Any, compiled: Compiled) -> None:
        self.module = module
        self.graph: Graph = compiled.graph
        self._in_tree, self._out_tree = program.call_spec.in_spec, program.call_spec.out_spec
        self._plain = _is_plain(self._in_tree)
        self._sources: dict[str, Any] = {}
        """By placeholder: a `_State`, an `_Argument`, or a tensor."""
        arguments: list[_Argument] = []
        nodes = {node.name: node for node in program.graph_module.graph.nodes if node.op == "placeholder"}
        for spec in program.graph_signature.input_specs:
            kind, name = spec.kind.name, spec.arg.name
            if kind in ("PARAMETER", "BUFFER"):
                self._sources[name] = _state(module, spec.target)
            elif kind == "CONSTANT_TENSOR":
                self._sources[name] = program.constants[spec.target]
            elif kind == "USER_INPUT":
                value = nodes[name].meta.get("val")
                arguments.append(_Argument(name, len(arguments), value))
                self._sources[name] = arguments[-1]
            else:
                raise UnsupportedError(f"inputs of kind {kind.lower().replace('_', ' ')}")
        self._arguments = tuple(arguments)
        self._states = [source for source in self._sources.values() if isinstance(source, _State)]
        specs = program.graph_signature.output_specs
        self._changed = [self._written(spec) for spec in specs if spec.kind.name != "USER_OUTPUT"]
        self._results = self._native(compiled) or self._with_tensors(compiled)
        self._compiled = compiled

    def __repr__(self) -> str:
        return f"CompiledModule({type(self.module).__name__}: {self.graph.partition.report().headline})"

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """What the module gives; InputError names the argument that is not as it was when it was compiled."""
        if not self._plain or options or len(arguments) != len(self._arguments):
            arguments = self._flat(arguments, options)
        results = self._results(arguments)
        for number, source in enumerate(self._changed):
            written = source.tensor if isinstance(source, _State) else arguments[source.position]
            written.detach().copy_(results[number])
        results = results[len(self._changed) :]
        if self._out_tree.is_leaf():
            return results[0]
        return pytree.tree_unflatten(results, self._out_tree)

    def state_dict(self, *arguments: Any, **options: Any) -> Any:
        """That of the module."""
        return self.module.state_dict(*arguments, **options)

    def load_state_dict(self, *arguments: Any, **options: Any) -> Any:
        """Into the module; calls from now on see it."""
        return self.module.load_state_dict(*arguments, **options)

    def _flat(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
        """The leaves of the arguments; InputError where they are not those that it was compiled for."""
        names = self._in_tree.child(1).context
        if set(options) == set(names):
            options = {name: options[name] for name in names}
        leaves, tree = pytree.tree_flatten((arguments, options))
        if tree != self._in_tree:
            raise InputError(f"arguments: expected {_described(self._in_tree)}, got {_described(tree)}")
        return tuple(leaves)

    def _written(self, spec: Any) -> Any:
        """Where a result goes that is no result of the caller's."""
        if spec.kind.name in ("BUFFER_MUTATION", "PARAMETER_MUTATION"):
            return next(s for s in self._states if s.tensor is _state(self.module, spec.target).tensor)
        if spec.kind.name == "USER_INPUT_MUTATION":
            return self._sources[spec.target]
        raise UnsupportedError(f"results of kind {spec.kind.name.lower().replace('_', ' ')}")

    def _check_values(self, arguments: Sequence[Any]) -> None:
        """InputError where an argument that is part of the program has another value."""
        for argument in self._arguments:
            if not isinstance(argument.value, torch.Tensor) and arguments[argument.position] != argument.value:
                given = arguments[argument.position]
                raise InputError(f"{argument.name}: {argument.value!r} is part of the compiled program, got {given!r}")

    def _native(self, compiled: Compiled) -> Callable[[Sequence[Any]], list[Any]] | None:
        """Native code alone, with the memory of parameters at hand; None where a part runs eagerly."""
        whole = compiled.whole
        if whole is None or any(not isinstance(a.value, torch.Tensor) for a in self._arguments):
            return None
        fixed: list[Any] = [None] * len(whole.inputs)
        moving: list[tuple[int, int, Callable[[Any], Any]]] = []
        watched: list[tuple[int, _State, Callable[[Any], Any]]] = []
        for place, (name, leaf) in enumerate(zip(whole.inputs, whole.lowered.parameters, strict=True)):
            source = self._sources[name]
            if isinstance(source, _Argument):
                moving.append((place, source.position, entering(leaf, source.name)))
            elif isinstance(source, _State):
                enter = entering(leaf, source.name)
                watched.append((place, source, enter))
                fixed[place] = enter(source.tensor)
            else:
                fixed[place] = entering(leaf)(source)
        if any(not _shares(fixed[place], state.tensor) for place, state, _ in watched):
            return None  # memory with holes: what is written there later would not be seen
        run, leave = whole.executable.run, [leaving(leaf) for leaf in whole.leaves]
        kept = {argument.position for argument in self._arguments} - {position for _, position, _ in moving}
        unread = [(p, entering(leaf_of(self._arguments[p].value), self._arguments[p].name)) for p in sorted(kept)]
        results = [self._sources[r] if isinstance(r, str) else r for r in whole.results]
        direct = results == list(range(len(leave)))

        def call(arguments: Sequence[Any]) -> list[Any]:
            for place, state, enter in watched:
                if state.changed:
                    state.renew()
                    fixed[place] = enter(state.tensor)
            for position, enter in unread:
                enter(arguments[position])
            arrays = fixed.copy()
            for place, position, enter in moving:
                arrays[place] = enter(arguments[position])
            tensors = [function(array) for function, array in zip(leave, run(*arrays), strict=True)]
            if direct:
                return tensors
            return [tensors[r] if type(r) is int else self._value(r, arguments) for r in results]

        return call

    def _with_tensors(self, compiled: Compiled) -> Callable[[Sequence[Any]], list[Any]]:
        """All parts of the graph, those that run eagerly, too."""
        function, sources = compiled.function, list(self._sources.values())
        checks = [
            (a.position, entering(leaf_of(a.value), a.name)) for a in self._arguments if _is_dense(a.value)
        ]

        def call(arguments: Sequence[Any]) -> list[Any]:
            self._check_values(arguments)
            for position, enter in checks:
                enter(arguments[position])
            for state in self._states:
                if state.changed:
                    state.renew()
            with torch.no_grad():
                return list(function(*[self._value(source, arguments) for source in sources]))

        return call

    def _value(self, source: Any, arguments: Sequence[Any]) -> Any:
        """What stands for a placeholder, or is a constant."""
        if isinstance(source, _State):
            return source.tensor
        if isinstance(source, _Argument):
            return arguments[source.position]
        return source.value if isinstance(source, Constant) else source


def _is_plain(tree: Any) -> bool:
    """Whether the arguments are nothing but leaves, none by name."""
    given, named = tree.children()
    return not named.num_children and all(child.is_leaf() for child in given.children())


def _is_dense(value: Any) -> bool:
    try:
        return isinstance(value, torch.Tensor) and leaf_of(value) is not None
    except Refused:
        return False


def _shares(array: Any, tensor: Any) -> bool:
    return bool(array.ctypes.data == tensor.data_ptr())


def _described(tree: Any) -> str:
    """How arguments are put together, in words."""
    given, named = tree.children()
    count = given.num_children
    words = f"{count} argument{'' if count == 1 else 's'}"
    names = f" and {', '.join(named.context)} by name" if named.num_children else ""
    nested = "" if all(child.is_leaf() for child in (*given.children(), *named.children())) else f" like {tree}"
    return words + names + nested
