"""Files of models that are not HLO: what is known of their inputs before they are read, and what these are called."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hlotool.harness.input_files import named_arrays
from hlotool.harness.inputs import Input, inputs_of
from hlotool.ir import Module
from hlotool.text.load import Source

__all__ = ["given_arrays", "named_inputs"]


def given_arrays(source: Source, archive: str | None) -> dict[str, Any]:
    """For `read_snapshot`: the arrays of --inputs, which say what sizes a model has to have; nothing for HLO."""
    if source.form != "onnx" or archive is None:
        return {}
    from hlotool.onnx.reading import input_names

    wanted = {name: (f"arg{number}", name) for number, name in enumerate(input_names(source))}
    return {"values": named_arrays(archive, wanted)}


def named_inputs(source: Source, module: Module) -> tuple[Input, ...]:
    """What a module takes; parameters of models have the names of the model's inputs, which HLO may not allow."""
    inputs = inputs_of(module)
    if source.form != "onnx":
        return inputs
    names = [one.metadata.op_name if one.metadata else one.name for one in module.entry.parameters]
    return tuple(replace(one, name=name) for one, name in zip(inputs, names, strict=True))
