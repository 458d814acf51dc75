"""ONNX Runtime on the processor: a graph of a node or a few for each step.

Weights are constants of the graph, as they are in models that it serves; images lie with features first, as it wants
them, and are turned ahead of the time and behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from hlotool.suites.peers.programs import read_program

__all__ = ["arrays", "prepare", "version"]


def version() -> str:
    return f"ONNX Runtime {onnxruntime.__version__}"


class _Graph:
    """A graph in the making."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.feed: dict[str, Any] = {}

    def add(self, kind: str, *operands: str, **attributes: Any) -> str:
        return self.several(1, kind, *operands, **attributes)[0]

    def several(self, count: int, kind: str, *operands: str, **attributes: Any) -> list[str]:
        names = [f"node{len(self.nodes)}_{number}" for number in range(count)]
        self.nodes.append(helper.make_node(kind, operands, names, name=names[0], **attributes))
        return names

    def constant(self, array: Any) -> str:
        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def input(self, array: Any) -> str:
        name = f"input{len(self.inputs)}"
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.inputs.append(helper.make_tensor_value_info(name, kind, array.shape))
        self.feed[name] = np.ascontiguousarray(array)
        return name


class _Program:
    """What names of the case are in the graph: arguments become inputs or constants where a step first asks.

    `known` has the name there and, of images with features first, the rank; 0 of all others.
    """

    def __init__(self, names: Sequence[str], given: Sequence[Any]) -> None:
        self.arrays = dict(zip(names, given, strict=True))
        self.graph = _Graph()
        self.known: dict[str, tuple[str, int]] = {}

    def array(self, name: str) -> Any:
        """A weight, whose numbers are known; KeyError where a step computed it."""
        return self.arrays[name]

    def constant(self, name: str) -> str:
        """A weight, or what a step computed in its place."""
        if name in self.arrays and name not in self.known:
            self.known[name] = (self.graph.constant(self.arrays[name]), 0)
        return self.value(name)

    def value(self, name: str, image: bool = False) -> str:
        """A value, with features first if it is an image."""
        if name not in self.known:
            array = self.arrays[name]
            self.known[name] = (self.graph.input(np.moveaxis(array, -1, 1) if image else array), image * array.ndim)
        found, rank = self.known[name]
        if bool(rank) != image:
            raise LookupError("it has no program for images among other arrays")
        return found

    def rank(self, name: str) -> int:
        """Of an image; 0 of others."""
        return self.known[name][1] if name in self.known else 0

    def same(self, name: str) -> str:
        """A value as it lies."""
        return self.value(name, self.rank(name) > 0)


def _linear(p: _Program, x: str, w: str, b: str) -> str:
    return p.graph.add("Add", p.graph.add("MatMul", p.value(x), p.constant(w)), p.constant(b))


def _matmul(p: _Program, a: str, b: str, transpose_a: bool = False, transpose_b: bool = False) -> str:
    if transpose_a or transpose_b:
        return p.graph.add("Gemm", p.value(a), p.constant(b), transA=int(transpose_a), transB=int(transpose_b))
    return p.graph.add("MatMul", p.value(a), p.constant(b))


def _linear_int8(p: _Program, x: str, w: str, scale: str) -> str:
    graph = p.graph
    wide = graph.add("DequantizeLinear", p.constant(w), p.constant(scale), axis=1)
    return graph.add("MatMul", p.value(x), wide)


def _unary(kind: str, **attributes: Any) -> Callable[..., str]:
    return lambda p, x: p.graph.add(kind, p.same(x), **attributes)


def _binary(kind: str) -> Callable[..., str]:
    def make(p: _Program, a: str, b: str) -> str:
        rank = max(p.rank(a), p.rank(b))
        if rank and b in p.arrays and p.arrays[b].ndim == 1:  # one for each feature
            return p.graph.add(kind, p.same(a), p.graph.constant(p.arrays[b].reshape(-1, *[1] * (rank - 2))))
        return p.graph.add(kind, p.value(a, rank > 0), p.value(b, rank > 0))

    return make


def _silu(p: _Program, x: str) -> str:
    value = p.same(x)
    return p.graph.add("Mul", value, p.graph.add("Sigmoid", value))


def _layer_norm(p: _Program, x: str, gain: str, bias: str) -> str:
    return p.graph.add("LayerNormalization", p.value(x), p.constant(gain), p.constant(bias), axis=-1, epsilon=1e-5)


def _rms_norm(p: _Program, x: str, gain: str) -> str:
    return p.graph.add("RMSNormalization", p.value(x), p.constant(gain), axis=-1, epsilon=1e-5)


def _convolution(p: _Program, x: str, w: str, stride: list[int], pad: list[int], groups: int = 1) -> str:
    weights = p.array(w)
    turned = p.graph.constant(np.moveaxis(weights, (-1, -2), (0, 1)))
    return p.graph.add(
        "Conv", p.value(x, True), turned, kernel_shape=list(weights.shape[:-2]), strides=stride, pads=[*pad, *pad],
        group=groups,
    )  # fmt: skip


def _batch_norm(p: _Program, x: str, *statistics: str) -> str:
    return p.graph.add("BatchNormalization", p.value(x, True), *map(p.constant, statistics), epsilon=1e-5)


def _max_pool(p: _Program, x: str, window: list[int], stride: list[int], pad: list[int]) -> str:
    return p.graph.add("MaxPool", p.value(x, True), kernel_shape=window, strides=stride, pads=[*pad, *pad])


def _spatial_mean(p: _Program, x: str) -> str:
    return p.graph.add("Flatten", p.graph.add("GlobalAveragePool", p.value(x, True)))


def _attention(
    p: _Program, q: str, k: str, v: str, heads: int, kv_heads: int | None = None, causal: bool = False
) -> str:
    return p.graph.add(
        "Attention", *map(p.value, (q, k, v)), q_num_heads=heads, kv_num_heads=kv_heads or heads,
        is_causal=int(causal),
    )  # fmt: skip


def _rope(p: _Program, x: str, cosines: str, sines: str, heads: int) -> str:
    tables = [p.graph.constant(p.array(name)[None]) for name in (cosines, sines)]
    return p.graph.add("RotaryEmbedding", p.value(x), *tables, num_heads=heads)


def _take_rows(p: _Program, table: str, rows: str) -> str:
    return p.graph.add("Gather", p.constant(table), p.value(rows), axis=0)


def _bag(p: _Program, table: str, rows: str) -> str:
    axis = p.graph.constant(np.array([1], np.int64))
    return p.graph.add("ReduceSum", _take_rows(p, table, rows), axis, keepdims=0)


def _interaction(p: _Program, *features: str) -> str:
    graph, count = p.graph, len(features)
    place = graph.constant(np.array([1], np.int64))
    stacked = graph.add("Concat", *(graph.add("Unsqueeze", p.value(one), place) for one in features), axis=1)
    products = graph.add("MatMul", stacked, graph.add("Transpose", stacked, perm=[0, 2, 1]))
    flat = graph.add("Flatten", products)
    pairs = graph.constant(np.array([i * count + j for i in range(count) for j in range(i)], np.int64))
    return graph.add("Concat", p.value(features[0]), graph.add("Gather", flat, pairs, axis=1), axis=1)


def _recurrent(kind: str, order: Sequence[int], **more: Any) -> Callable[..., str]:
    """A layer whose gates ONNX has in another order."""

    def make(p: _Program, x: str, w: str, r: str, *biases: str) -> str:
        graph, size = p.graph, p.array(r).shape[0]

        def turned(array: Any) -> Any:
            parts = array.T.reshape(len(order), size, *array.T.shape[1:])
            return parts[list(order)].reshape(array.T.shape)[None]

        given = [turned(p.array(b)) for b in biases]
        given += [np.zeros_like(given[0])] if len(given) == 1 else []
        operands = [graph.constant(a) for a in (turned(p.array(w)), turned(p.array(r)), np.concatenate(given, axis=1))]
        found = graph.add(kind, p.value(x), *operands, hidden_size=size, **more)
        return graph.add("Squeeze", found, graph.constant(np.array([1], np.int64)))

    return make


def _matmul_int8(p: _Program, a: str, b: str) -> str:
    return p.graph.add("MatMulInteger", p.value(a), p.constant(b))


def _three_x_squared_mean(p: _Program, x: str, y: str) -> str:
    graph, value = p.graph, p.value(x)
    three = graph.add("Mul", graph.add("Mul", value, value), graph.constant(np.float32(3)))
    return graph.add("ReduceMean", graph.add("Add", three, p.value(y)), keepdims=0)


def _sum_over(p: _Program, x: str, axis: int) -> str:
    return p.graph.add("ReduceSum", p.value(x), p.graph.constant(np.array([axis], np.int64)), keepdims=0)


def _running_sum(p: _Program, x: str, axis: int) -> str:
    return p.graph.add("CumSum", p.value(x), p.graph.constant(np.int64(axis)))


def _largest_place(p: _Program, x: str) -> str:
    return p.graph.add("Cast", p.graph.add("ArgMax", p.value(x), axis=-1, keepdims=0), to=TensorProto.INT32)


def _transpose(p: _Program, x: str, order: list[int]) -> str:
    return p.graph.add("Add", p.graph.add("Transpose", p.value(x), perm=order), p.graph.constant(np.float32(1)))


def _unrolled(p: _Program, x: str, w: str, b: str, steps: int) -> str:
    graph, value = p.graph, p.value(x)
    for _ in range(steps):
        value = graph.add("Tanh", graph.add("Gemm", value, p.constant(w), p.constant(b)))
    return value


_OPERATIONS: dict[str, Callable[..., str]] = {
    "matmul": _matmul, "linear": _linear, "linear_int8": _linear_int8, "add": _binary("Add"),
    "multiply": _binary("Mul"), "relu": _unary("Relu"), "tanh": _unary("Tanh"), "sigmoid": _unary("Sigmoid"),
    "silu": _silu, "gelu": _unary("Gelu", approximate="tanh"), "softmax": _unary("Softmax", axis=-1),
    "layer_norm": _layer_norm, "rms_norm": _rms_norm, "convolution": _convolution, "batch_norm": _batch_norm,
    "max_pool": _max_pool, "spatial_mean": _spatial_mean, "attention": _attention, "rope": _rope,
    "take_rows": _take_rows, "bag": _bag, "interaction": _interaction, "rnn": _recurrent("RNN", (0,)),
    "lstm": _recurrent("LSTM", (0, 3, 1, 2)), "gru": _recurrent("GRU", (1, 0, 2), linear_before_reset=1),
    "matmul_int8": _matmul_int8, "three_x_squared_mean": _three_x_squared_mean, "sum_over": _sum_over,
    "running_sum": _running_sum, "largest_place": _largest_place, "transpose": _transpose,
    "small_layers_unrolled": _unrolled, "small_layers": _unrolled,
}  # fmt: skip
_IMAGES = {"convolution", "batch_norm", "max_pool"}
_KEEPS_IMAGES = {"add", "multiply", "relu", "tanh", "sigmoid", "silu", "gelu"}


def prepare(source: str, given: Sequence[Any]) -> Callable[[], Any]:
    names, steps, results = read_program(source)
    missing = sorted({step.operation for step in steps} - _OPERATIONS.keys())
    if missing:
        raise LookupError(f"it has no program for {', '.join(missing)}")
    program = _Program(names, given)
    graph = program.graph
    for step in steps:
        found = _OPERATIONS[step.operation](program, *step.operands, **step.attributes)
        (name,) = step.results
        keeps = step.operation in _IMAGES | _KEEPS_IMAGES
        program.known[name] = (found, max(map(program.rank, step.operands)) if keeps else 0)
    outputs = [program.known[name] for name in results]
    infos = [helper.make_empty_tensor_value_info(name) for name, _ in outputs]
    made = helper.make_graph(graph.nodes, "main", graph.inputs, infos, graph.constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(_bytes(model), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in graph.feed.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    for name, _ in outputs:
        binding.bind_output(name, "cpu")

    def call() -> Any:
        session.run_with_iobinding(binding)
        return binding, [rank for _, rank in outputs]

    return call


def _bytes(model: Any) -> bytes:
    """The model as one message, which has at most 2 GiB."""
    if model.ByteSize() >= 2 << 30:
        raise ValueError("its weights are more than the 2 GiB that an ONNX model holds")
    data: bytes = model.SerializeToString()
    return data


def arrays(found: Any) -> list[Any]:
    binding, ranks = found
    every = zip(binding.copy_outputs_to_cpu(), ranks, strict=True)
    return [np.moveaxis(array, 1, -1) if rank else array for array, rank in every]
