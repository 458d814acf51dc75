"""Files of ONNX for the commands: sources become modules (`hlotool.text.load.READERS`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hlotool.ir import InputError, Module
from hlotool.onnx.importer import import_model
from hlotool.onnx.model import Model, read_model
from hlotool.text.load import Source

__all__ = ["input_names", "model_of_source", "read", "settings_of"]


def model_of_source(source: Source, folder: str | None = None) -> Model:
    """The model of a file; external data lie beside it, or in `folder`."""
    beside = None if source.name == "<stdin>" else str(Path(source.name).parent)
    return read_model(source.data, source.name, folder or beside)


def read(
    source: Source, settings: Mapping[str, str] | None = None, folder: str | None = None,
    values: Mapping[str, Any] | None = None,
) -> Module:  # fmt: skip
    """The module of a file.

    `settings` are sizes and values as text, by name (`settings_of`); `values` are arrays for inputs, by name.
    """
    model = model_of_source(source, folder)
    found = settings_of(model, settings or {})
    return import_model(model, found.sizes, found.shapes, {**found.values, **(values or {})}).module


def input_names(source: Source) -> tuple[str, ...]:
    """The names of the inputs of a model, weights left out."""
    graph = model_of_source(source).proto.graph
    weights = {one.name for one in graph.initializer}
    return tuple(one.name for one in graph.input if one.name not in weights)


class Settings:
    """Settings by what they are of: sizes of dimensions, shapes and values of inputs."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.shapes: dict[str, Sequence[int]] = {}
        self.values: dict[str, Any] = {}


def settings_of(model: Model, settings: Mapping[str, str]) -> Settings:
    """``batch=8``: dimensions of this name; ``x=2,3``: the shape of an input; ``shape=[2,3]``: its values."""
    import numpy

    from hlotool.onnx.tensors import dtype_of_tensor

    found = Settings()
    inputs = {one.name: one for one in model.proto.graph.input}
    for name, text in settings.items():
        try:
            if name not in inputs:
                found.sizes[name] = int(text)
            elif text.startswith("["):
                kind = dtype_of_tensor(inputs[name].type.tensor_type.elem_type)
                rank = len(inputs[name].type.tensor_type.shape.dim)
                words = [one for one in text.strip("[]").split(",") if one.strip()]
                held = numpy.array([float(one) if "." in one else int(one) for one in words])
                found.values[name] = held.astype(kind).reshape(() if not rank else (-1,))
            else:
                found.shapes[name] = tuple(int(one) for one in text.split(",") if one)
        except ValueError as error:
            raise InputError(
                f"--set {name}={text}: expected a size (batch=8), a shape (x=2,3), or values in brackets (shape=[2,3])"
            ) from error
        if any(one < 0 for one in (*found.shapes.get(name, ()), found.sizes.get(name, 0))):
            raise InputError(f"--set {name}={text}: sizes are not below 0")
    return found
