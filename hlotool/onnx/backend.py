"""hlotool as a backend of ONNX: what ``onnx.backend.test`` and other users of ``onnx.backend.base`` call.

    import hlotool.onnx.backend as backend
    tests = onnx.backend.test.BackendTest(backend, __name__)
    globals().update(tests.enable_report().test_cases)

A model is compiled for the shapes of the arrays that it is run with; where its program depends on their values, for
these, too, and again for others.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy

from hlotool.driver import compile_module
from hlotool.onnx.importer import Imported, import_model
from hlotool.onnx.library import onnx
from hlotool.onnx.model import Model, model_of

import onnx.backend.base as base  # isort: skip  # after the check that onnx is there

__all__ = ["Backend", "Compiled", "Representation", "prepare", "run_model", "run_node", "supports_device"]


class Compiled:
    """A model compiled for arguments: `imported`, and `run`, from arrays to arrays."""

    def __init__(self, imported: Imported, backend: str) -> None:
        self.imported = imported
        self.run = compile_module(imported.module, backend).run

    def __call__(self, values: dict[str, Any]) -> list[Any]:
        """The outputs of the model, in order."""
        arrays: list[Any] = []
        for name in self.imported.inputs:
            arrays += _leaves(values[name])
        found = self.run(*arrays)
        return [_nested(one, found) for one in self.imported.outputs.values()]


def _leaves(value: Any) -> list[Any]:
    if value is None:
        return []
    return [numpy.asarray(one) for one in value] if isinstance(value, (list, tuple)) else [numpy.asarray(value)]


def _nested(place: Any, found: Sequence[Any]) -> Any:
    if isinstance(place, list):
        return [_nested(one, found) for one in place]
    return None if place is None else found[place]


class Representation(base.BackendRep):  # type: ignore[misc]  # onnx has no types
    """A model that is compiled when it is run."""

    def __init__(self, model: Model, backend: str = "cpu") -> None:
        self.model = model
        self._backend = backend
        self._compiled: dict[Any, Compiled] = {}

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs for `inputs`: a sequence in the order of the model's, or arrays by name."""
        graph = self.model.proto.graph
        weights = {one.name for one in graph.initializer}
        names = [one.name for one in graph.input if one.name not in weights]
        if isinstance(inputs, dict):
            values = dict(inputs)
        else:
            given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            values = dict(zip(names, given, strict=False))
        return tuple(self.compiled(values)(values))

    @property
    def programs(self) -> tuple[Compiled, ...]:
        """The programs that there are, one for each combination of shapes, and of values where these count."""
        return tuple(self._compiled.values())

    def compiled(self, values: dict[str, Any]) -> Compiled:
        """The program for the shapes of these values, and for what they hold where it depends on that."""
        shapes = tuple((name, _kind(value)) for name, value in values.items())
        for key, found in self._compiled.items():
            if key[0] == shapes and all(_same(values[name], old) for name, old in key[1].items()):
                return found
        imported = import_model(self.model, values=values)
        found = Compiled(imported, self._backend)
        held = _Values({name: numpy.array(values[name]) for name in imported.values})
        self._compiled[shapes, held] = found
        return found


class _Values(dict[str, Any]):
    """Values that a program was made for, as part of a key that is compared by hand."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # each is its own


def _same(value: Any, old: Any) -> bool:
    found = numpy.asarray(value)
    return bool(found.dtype == old.dtype and found.shape == old.shape and found.tobytes() == old.tobytes())


def _kind(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return tuple(_kind(one) for one in value)
    found = numpy.asarray(value)
    return str(found.dtype), found.shape


def _is_processor(device: str) -> bool:
    return device.upper().partition(":")[0] == "CPU"


class Backend(base.Backend):  # type: ignore[misc]  # onnx has no types
    """The interface of ``onnx.backend.base``."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """True: what is not supported, `prepare` or the run says, with the reason."""
        return _is_processor(device)

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> Representation:
        """A model (a ModelProto) to be run; ParseError where it is none.  ``backend`` is one of hlotool's."""
        folder = kwargs.get("folder")
        return Representation(
            model_of(model, model.graph.name or "<model>", None if folder is None else Path(folder)),
            kwargs.get("backend", "cpu"),
        )

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """The outputs of a model."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """The outputs of one node, in the newest operator set unless ``opset_version`` says another."""
        given = list(inputs.values()) if isinstance(inputs, dict) else list(inputs)
        names = [name for name in node.input if name]
        made = [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(numpy.asarray(one).dtype), numpy.shape(one)
            )
            for name, one in zip(names, given, strict=True)
        ]
        results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", made, results)
        version = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        opsets = [onnx.helper.make_opsetid(node.domain, version)]
        return cls.run_model(onnx.helper.make_model(graph, opset_imports=opsets), given)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether models run there: on the processor alone."""
        return _is_processor(device)


is_compatible = Backend.is_compatible
prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
