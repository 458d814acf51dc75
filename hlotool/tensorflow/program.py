"""A function of TensorFlow for arguments of certain types and shapes, as an executable.

The graph becomes HLO in TensorFlow itself (``experimental_get_compiler_ir``, which functions that may be jit-compiled
have).  That module takes the tensors of the arguments and then what the graph captured, variables by their values; it
gives the results and then the new values of variables.  Which value is of which variable, ``input_output_alias`` says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from hlotool.analysis.donation import donation_of
from hlotool.driver import compile_module
from hlotool.ir import InputError, Module, UnsupportedError
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.executable import Executable
from hlotool.tensorflow.convert import array_of, tensor_of
from hlotool.text.proto.load import read_binary

__all__ = ["Compiled", "ConstantArguments", "build", "module_of"]


class ConstantArguments(Exception):  # noqa: N818
    """TensorFlow made constants of arguments, whose values the module depends on."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """Calls an executable with tensors and captured values; new values of variables are assigned."""

    executable: Executable
    captured: tuple[Callable[[], Any], ...]
    results: int
    assigned: tuple[Any, ...]

    def __call__(self, tensors: Sequence[Any]) -> list[Any]:
        """The results as tensors; they have memory of their own."""
        values = [*tensors, *(read() for read in self.captured)]
        arrays = self.executable(*map(array_of, values))
        found = [tensor_of(array) for array in arrays]
        for variable, value in zip(self.assigned, found[self.results :], strict=True):
            variable.assign(value, read_value=False)
        return found[: self.results]


def module_of(function: Any, tensors: Sequence[Any]) -> Module:
    """The HLO of a ``tf.function`` that may be jit-compiled; UnsupportedError says what XLA's bridge does not take."""
    try:
        data = function.experimental_get_compiler_ir(*tensors)(stage="hlo_serialized")
    except (ValueError, TypeError, tf.errors.OpError) as error:
        raise UnsupportedError(_first_sentence(str(error))) from error
    module = read_binary(data, "<TensorFlow>").module
    if module is None:
        raise UnsupportedError("TensorFlow gave no module")
    return module


def build(function: Any, tensors: Sequence[Any]) -> Compiled:
    """Compile `function`, traced for `tensors`.

    UnsupportedError where TensorFlow or hlotool does not take it; ConstantArguments where the module depends on values
    of arguments.
    """
    concrete = function.get_concrete_function(*tensors)
    module = module_of(function, tensors)
    parameters = len(module.entry.parameters)
    if parameters != len(concrete.inputs):
        raise ConstantArguments
    captures = concrete.captured_inputs
    variables = [_variable(concrete, tensor) for tensor in captures]
    results = len(concrete.outputs)
    executable = compile_module(module)
    homes = donation_of(module, "declared").wanted
    first = parameters - len(captures)
    try:
        numbers = [homes[n] - first for n in range(results, len(executable.outputs))]
    except KeyError:
        raise UnsupportedError("a variable gets a value of another type or shape") from None
    captured = tuple(map(_reader, captures, variables))
    return Compiled(executable, captured, results, tuple(variables[number] for number in numbers))


def _variable(concrete: Any, tensor: Any) -> Any | None:
    """The variable whose resource was captured; None for a tensor."""
    if tensor.dtype != tf.resource:
        return None
    found = next((one for one in concrete.graph.variables if one.handle is tensor), None)
    if found is None:
        raise UnsupportedError("the function captures a resource that is no variable")
    return found


def _reader(tensor: Any, variable: Any | None) -> Callable[[], Any]:
    if variable is None:
        return lambda: tensor
    handle, dtype = variable.handle, variable.dtype
    return lambda: tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)


def _first_sentence(message: str) -> str:
    """What TensorFlow has against a graph, without the advice and the places that follow it."""
    line = message.partition("\nThe op is created at")[0].partition("{{node")[0]
    return " ".join(line.replace("Failed getting HLO text: '", "").split()) or "TensorFlow made no HLO of it"


def check_eager() -> None:
    """InputError where TensorFlow was told to run no functions."""
    if tf.config.functions_run_eagerly():
        raise InputError("tf.config.run_functions_eagerly(True) is set: there is no graph to compile")
