#!/usr/bin/env python3
"""How long hlotool takes over the time of ONNX Runtime, torch and XLA: products, convolutions, normalisations, models.

    tests/peers.py [--peers-python PYTHON] [--xla-python PYTHON] [--isa avx2] [--rounds 15] [--budget 0.1] [CASE ...]

PYTHON is an interpreter that has torch, onnxruntime and onnx, or jax; peers that are not there are left out.  Each
has a process of its own, and they run in turn, hlotool and then each peer, so many rounds of so many seconds: machines
drift.  A figure is the median over rounds of the median of calls, or of its ratio in that round.  All compute the same
from the same inputs, and results that differ are told.  hlotool and XLA take weights as arguments; ONNX Runtime holds
them as constants, and may turn them to whatever it likes best before it is timed.  Layouts are those that each is used
with: images lie with features last for hlotool, XLA and torch (channels_last), and features first for ONNX Runtime.
torch runs eagerly.

With ``--isa avx2`` all but ONNX Runtime, which has no such switch, are held to AVX2.  Numbers are only worth
quoting from a quiet machine.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

__all__ = ["CASES", "Case", "serve"]

Array: TypeAlias = np.ndarray[Any, Any]
Run: TypeAlias = Callable[[], Any]

CORPUS = Path(__file__).resolve().parents[1].parent / "shared" / "corpus"
ISA = {"avx2": ("x86-64-v3", "AVX2", "avx2", "AVX2"), "avx512": ("x86-64-v4", "AVX512", "avx512", "AVX512_CORE")}
TOLERANCE = 2e-3
"""Of the largest element: sums are added up in another order, and Adam divides by what may be small."""


@dataclass(frozen=True)
class Case:
    """A computation, as HLO text and inputs, and how peers are made to do it: from inputs to what is timed."""

    hlo: Callable[[], str]
    inputs: Callable[[], list[Array]]
    torch: Callable[[list[Array]], Run]
    onnx: Callable[[list[Array]], Run] | None = None
    compared: int = 1
    """So many of the results are compared."""


def _random(*shapes: Sequence[int]) -> Callable[[], list[Array]]:
    def make() -> list[Array]:
        rng = np.random.default_rng(0)
        return [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]

    return make


def _f32(shape: Sequence[int]) -> str:
    return f"f32[{','.join(map(str, shape))}]"


# --------------------------------------------------------------------------------------------------------- products


def _product(m: int, k: int, n: int, form: str = "nn") -> Case:
    lhs, rhs = (m, k) if form[0] == "n" else (k, m), (k, n) if form[1] == "n" else (n, k)
    text = (
        f"HloModule product\n\nENTRY main {{\n  a = {_f32(lhs)} parameter(0)\n  b = {_f32(rhs)} parameter(1)\n"
        f"  ROOT c = {_f32((m, n))} dot(a, b), lhs_contracting_dims={{{int(form[0] == 'n')}}}, "
        f"rhs_contracting_dims={{{int(form[1] == 't')}}}\n}}\n"
    )

    def torch(inputs: list[Array]) -> Run:
        import torch

        a, b = (torch.from_numpy(x) for x in inputs)
        a, b = (a.T if form[0] == "t" else a), (b.T if form[1] == "t" else b)
        return lambda: torch.matmul(a, b)

    def onnx(inputs: list[Array]) -> Run:
        graph = _Graph()
        a, b = graph.input(inputs[0]), graph.input(inputs[1])
        graph.add("Gemm", a, b, transA=int(form[0] == "t"), transB=int(form[1] == "t"))
        return graph.session()

    return Case(lambda: text, _random(lhs, rhs), torch, onnx)


# ----------------------------------------------------------------------------------------------------- convolutions


def _convolution(
    size: int, features: int, to: int, window: int, stride: int = 1, groups: int = 1, batch: int = 1
) -> Case:
    pad, out = window // 2, -(-size // stride)
    image, kernel = (batch, size, size, features), (window, window, features // groups, to)
    text = (
        f"HloModule convolution\n\nENTRY main {{\n  x = {_f32(image)} parameter(0)\n  w = {_f32(kernel)} parameter(1)\n"
        f"  ROOT y = {_f32((batch, out, out, to))} convolution(x, w), window={{size={window}x{window} "
        f"stride={stride}x{stride} pad={pad}_{pad}x{pad}_{pad}}}, dim_labels=b01f_01io->b01f, "
        f"feature_group_count={groups}\n}}\n"
    )

    def torch(inputs: list[Array]) -> Run:
        import torch

        x, w = _torch_image(inputs[0]), _torch_weights(inputs[1])
        call = torch.nn.functional.conv2d
        return lambda: call(x, w, stride=stride, padding=pad, groups=groups).permute(0, 2, 3, 1)

    def onnx(inputs: list[Array]) -> Run:
        graph = _Graph()
        x = graph.input(np.ascontiguousarray(inputs[0].transpose(0, 3, 1, 2)))
        graph.convolution(x, inputs[1], stride, groups)
        return graph.session(lambda y: y.transpose(0, 2, 3, 1))

    return Case(lambda: text, _random(image, kernel), torch, onnx)


def _torch_image(x: Array) -> Any:
    """Features last in memory, as torch wants them to be called."""
    import torch

    return torch.from_numpy(x).permute(0, 3, 1, 2)


def _torch_weights(w: Array) -> Any:
    import torch

    return torch.from_numpy(w).permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)


# ------------------------------------------------------------------------------------------- models out of the corpus


def _corpus(name: str) -> Any:
    sys.path.insert(0, str(CORPUS))
    import corpus

    return corpus.load(name)


def _from_corpus(
    name: str, torch: Callable[[list[Array]], Run], onnx: Callable[[list[Array]], Run] | None = None, compared: int = 1
) -> Case:
    return Case(lambda: str(_corpus(name).hlo), lambda: list(_corpus(name).inputs()), torch, onnx, compared)


def _softmax_torch(inputs: list[Array]) -> Run:
    import torch

    x = torch.from_numpy(inputs[0])
    return lambda: torch.softmax(x, 1)


def _softmax_onnx(inputs: list[Array]) -> Run:
    graph = _Graph()
    graph.add("Softmax", graph.input(inputs[0]), axis=1)
    return graph.session()


def _layernorm_torch(inputs: list[Array]) -> Run:
    import torch

    x, g, b = (torch.from_numpy(a) for a in inputs)
    return lambda: torch.nn.functional.layer_norm(x, (x.shape[1],), g, b, 1e-5)


def _layernorm_onnx(inputs: list[Array]) -> Run:
    graph = _Graph()
    x, g, b = graph.input(inputs[0]), graph.constant(inputs[1]), graph.constant(inputs[2])
    graph.add("LayerNormalization", x, g, b, axis=1, epsilon=1e-5)
    return graph.session()


def _talk_torch(inputs: list[Array]) -> Run:
    import torch

    x, y = (torch.from_numpy(a) for a in inputs)
    return lambda: (3 * x * x + y).mean()


def _talk_onnx(inputs: list[Array]) -> Run:
    graph = _Graph()
    x, y = graph.input(inputs[0]), graph.input(inputs[1])
    three = graph.constant(np.float32(3))
    graph.add("ReduceMean", graph.add("Add", graph.add("Mul", graph.add("Mul", x, x), three), y), keepdims=0)
    return graph.session()


def _bert_torch(inputs: list[Array]) -> Run:
    import torch

    parts = [torch.from_numpy(np.asarray(a)) for a in inputs]
    bk, bo, bq, bv, k, o, q, v, b1, b2, w1, w2, b_1, g_1, b_2, g_2, x, mask = parts
    call, heads, size = torch.nn.functional, 12, 64
    rows = x.shape[1]

    def split(a: Any) -> Any:
        return a.view(1, rows, heads, size).transpose(1, 2)

    def run() -> Any:
        with torch.inference_mode():
            projected = (split(torch.addmm(bias, x[0], weight)) for weight, bias in ((q, bq), (k, bk), (v, bv)))
            unseen = torch.where(mask > 0, 0.0, -1e9).view(1, 1, 1, rows)
            mixed = call.scaled_dot_product_attention(*projected, attn_mask=unseen).transpose(1, 2).reshape(rows, -1)
            h = call.layer_norm(x + torch.addmm(bo, mixed, o), (x.shape[2],), g_1, b_1)
            wide = call.gelu(torch.addmm(b1, h[0], w1))
            return call.layer_norm(h + torch.addmm(b2, wide, w2), (x.shape[2],), g_2, b_2)

    return run


def _bert_onnx(inputs: list[Array]) -> Run:
    graph = _Graph()
    *weights, image, shown = (np.asarray(a) for a in inputs)
    bk, bo, bq, bv, k, o, q, v, b1, b2, w1, w2, b_1, g_1, b_2, g_2 = (graph.constant(a) for a in weights)
    x, mask = graph.input(image), graph.input(shown)

    def linear(x: str, weight: str, bias: str) -> str:
        return graph.add("Add", graph.add("MatMul", x, weight), bias)

    def heads(x: str, order: Sequence[int]) -> str:
        shape = graph.constant(np.array([1, 128, 12, 64], np.int64))
        return graph.add("Transpose", graph.add("Reshape", x, shape), perm=list(order))

    queries, values = heads(linear(x, q, bq), (0, 2, 1, 3)), heads(linear(x, v, bv), (0, 2, 1, 3))
    keys = heads(linear(x, k, bk), (0, 2, 3, 1))
    scores = graph.add("Div", graph.add("MatMul", queries, keys), graph.constant(np.float32(8)))
    axes = graph.constant(np.array([1, 2], np.int64))
    visible = graph.add("Unsqueeze", graph.add("Greater", mask, graph.constant(np.int32(0))), axes)
    scores = graph.add("Where", visible, scores, graph.constant(np.float32(-1e9)))
    mixed = graph.add("Transpose", graph.add("MatMul", graph.add("Softmax", scores, axis=3), values), perm=[0, 2, 1, 3])
    mixed = graph.add("Reshape", mixed, graph.constant(np.array([1, 128, 768], np.int64)))
    h = graph.add("Add", x, linear(mixed, o, bo))
    h = graph.add("LayerNormalization", h, g_1, b_1, axis=2, epsilon=1e-5)
    wide = graph.add("Gelu", linear(h, w1, b1))
    graph.add("LayerNormalization", graph.add("Add", h, linear(wide, w2, b2)), g_2, b_2, axis=2, epsilon=1e-5)
    return graph.session()


def _resnet_weights(inputs: list[Array]) -> tuple[dict[str, Array], list[dict[str, Any]]]:
    """Inputs of resnet18 by what they are; those of a norm as (scale, shift), and a list of blocks."""
    specs = _corpus("resnet18").meta["inputs"]
    tree: dict[str, Array] = {}
    for spec, array in zip(specs, inputs, strict=True):
        tree[spec["name"].replace("'", "").replace("][", ".").strip("[]").removeprefix("0.")] = array

    def norm(prefix: str) -> list[Array]:
        return [tree[f"{prefix}.{part}"] for part in "gbmv"]

    blocks: list[dict[str, Any]] = []
    for number in range(8):
        prefix = f"blocks.{number}"
        block: dict[str, Any] = {"convs": [(tree[f"{prefix}.c{at}"], norm(f"{prefix}.n{at}")) for at in (1, 2)]}
        if f"{prefix}.cp" in tree:
            block["shortcut"] = (tree[f"{prefix}.cp"], norm(f"{prefix}.np"))
        blocks.append(block)
    ends = {"c0": tree["c0"], "n0": norm("n0"), "fc": tree["fc"], "bfc": tree["bfc"], "x": tree["1"]}
    return ends, blocks


def _resnet_torch(inputs: list[Array]) -> Run:
    import torch

    ends, blocks = _resnet_weights(inputs)
    call = torch.nn.functional

    def normed(weights: Array, norm: list[Array], stride: int) -> Callable[[Any], Any]:
        w, (g, b, m, v) = _torch_weights(weights), (torch.from_numpy(a) for a in norm)
        pad = weights.shape[0] // 2
        return lambda x: call.batch_norm(call.conv2d(x, w, stride=stride, padding=pad), m, v, g, b, eps=1e-5)

    x, first = _torch_image(ends["x"]), normed(ends["c0"], ends["n0"], 2)
    fc, bfc = torch.from_numpy(ends["fc"]), torch.from_numpy(ends["bfc"])
    layers = []
    for block in blocks:
        shortcut, stride = block.get("shortcut"), 2 if "shortcut" in block else 1
        one, two = block["convs"]
        layers.append((normed(*one, stride), normed(*two, 1), normed(*shortcut, stride) if shortcut else None))

    def run() -> Any:
        with torch.inference_mode():
            h = call.max_pool2d(torch.relu(first(x)), 3, 2, 1)
            for one, two, shortcut in layers:
                h = torch.relu((shortcut(h) if shortcut else h) + 0.5 * two(torch.relu(one(h))))
            return torch.addmm(bfc, h.mean((2, 3)), fc)

    return run


def _resnet_onnx(inputs: list[Array]) -> Run:
    ends, blocks = _resnet_weights(inputs)
    graph = _Graph()

    def normed(x: str, weights: Array, norm: list[Array], stride: int) -> str:
        y = graph.convolution(x, weights, stride)
        return graph.add("BatchNormalization", y, *(graph.constant(a) for a in norm), epsilon=1e-5)

    x = graph.input(np.ascontiguousarray(ends["x"].transpose(0, 3, 1, 2)))
    h = graph.add("Relu", normed(x, ends["c0"], ends["n0"], 2))
    h = graph.add("MaxPool", h, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    half = graph.constant(np.float32(0.5))
    for block in blocks:
        stride = 2 if "shortcut" in block else 1
        one, two = block["convs"]
        inner = normed(graph.add("Relu", normed(h, *one, stride)), *two, 1)
        h = normed(h, *block["shortcut"], stride) if "shortcut" in block else h
        h = graph.add("Relu", graph.add("Add", h, graph.add("Mul", inner, half)))
    pooled = graph.add("Flatten", graph.add("GlobalAveragePool", h))
    graph.add("Gemm", pooled, graph.constant(ends["fc"]), graph.constant(ends["bfc"]))
    return graph.session()


def _mlp_torch(inputs: list[Array]) -> Run:
    """A training step; the weights are left as they are, so that every call is the same."""
    import torch

    *_, step, data, wanted = inputs
    count = (len(inputs) - 3) // 3
    parameters, first, second = (
        [torch.from_numpy(np.asarray(a)) for a in inputs[at * count : (at + 1) * count]] for at in range(3)
    )
    x, y, t = torch.from_numpy(data), torch.from_numpy(wanted), float(step) + 1.0
    rate = 0.001 * math.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    leaves = [p.requires_grad_() for p in parameters]

    def run() -> Any:
        h = x
        for at in range(0, count, 2):
            h = torch.addmm(leaves[at], h, leaves[at + 1])
            h = torch.relu(h) if at + 2 < count else h
        grads = torch.autograd.grad(torch.square(h - y).sum() / len(x), leaves)
        with torch.no_grad():
            m = torch._foreach_lerp(first, grads, 0.1)
            v = torch._foreach_mul(second, 0.999)
            torch._foreach_addcmul_(v, grads, grads, 0.001)
            below = torch._foreach_sqrt(v)
            torch._foreach_add_(below, 1e-7)
            return [*torch._foreach_addcdiv(leaves, m, below, -rate), *m, *v]

    return run


def _chain_torch(inputs: list[Array]) -> Run:
    """The start of ew_chain_16m, as far as it takes to be the same kind of work: it is not compared."""
    import torch

    x, y = (torch.from_numpy(a) for a in inputs)

    def run() -> Any:
        a = torch.sin(x) * torch.cos(y) + torch.exp(-x * x)
        b = torch.log1p(a.abs()) - torch.tanh(y) * torch.sigmoid(x)
        c = torch.sqrt(b * b + 1) / ((x - y).abs() + 1)
        return torch.where(c > 0.5, c * 2 - a, b.clamp_min(0.1) * a)

    return run


CASES: dict[str, Case] = {
    "matmul_512": _product(512, 512, 512),
    "matmul_1024": _product(1024, 1024, 1024),
    "matmul_2048": _product(2048, 2048, 2048),
    "matmul_tn_1024": _product(1024, 1024, 1024, "tn"),
    "matmul_nt_1024": _product(1024, 1024, 1024, "nt"),
    "matmul_128x768x3072": _product(128, 768, 3072),
    "matmul_128x3072x768": _product(128, 3072, 768),
    "matmul_256x1000x1000": _product(256, 1000, 1000),
    "matmul_nt_300x500x700": _product(300, 500, 700, "nt"),
    "conv_3x3_56x64": _convolution(56, 64, 64, 3),
    "conv_3x3_28x128": _convolution(28, 128, 128, 3),
    "conv_3x3_14x256": _convolution(14, 256, 256, 3),
    "conv_3x3_7x512": _convolution(7, 512, 512, 3),
    "conv_3x3_s2_56x64x128": _convolution(56, 64, 128, 3, 2),
    "conv_1x1_56x256x64": _convolution(56, 256, 64, 1),
    "conv_1x1_s2_56x64x128": _convolution(56, 64, 128, 1, 2),
    "conv_7x7_s2_224x3x64": _convolution(224, 3, 64, 7, 2),
    "conv_grouped_28x128_g8": _convolution(28, 128, 128, 3, groups=8),
    "conv_depthwise_56x128": _convolution(56, 128, 128, 3, groups=128),
    "conv_3x3_28x128_b8": _convolution(28, 128, 128, 3, batch=8),
    "softmax_4096x1024": _from_corpus("softmax_4096x1024", _softmax_torch, _softmax_onnx),
    "layernorm_1024x768": _from_corpus("layernorm_1024x768", _layernorm_torch, _layernorm_onnx),
    "bert_block": _from_corpus("bert_block", _bert_torch, _bert_onnx),
    "resnet18": _from_corpus("resnet18", _resnet_torch, _resnet_onnx),
    "mlp_train_l2_w1000_b256": _from_corpus("mlp_train_l2_w1000_b256", _mlp_torch, compared=18),
    "mlp_train_l3_w1000_b256": _from_corpus("mlp_train_l3_w1000_b256", _mlp_torch, compared=24),
    "talk_16m": _from_corpus("talk_16m", _talk_torch, _talk_onnx),
    "ew_chain_16m": _from_corpus("ew_chain_16m", _chain_torch, compared=0),
}


class _Graph:
    """An ONNX graph in the making; its last node is the result."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.feed: dict[str, Array] = {}

    def input(self, array: Array) -> str:
        from onnx import helper

        name = f"in{len(self.inputs)}"
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.inputs.append(helper.make_tensor_value_info(name, kind, array.shape))
        self.feed[name] = array
        return name

    def constant(self, array: Any) -> str:
        from onnx import numpy_helper

        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, kind: str, *operands: str, **attributes: Any) -> str:
        from onnx import helper

        name = f"node{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, operands, [name], name=name, **attributes))
        return name

    def convolution(self, x: str, weights: Array, stride: int = 1, groups: int = 1) -> str:
        """With weights in HLO's usual order, and padding that keeps the size."""
        window, pad = list(weights.shape[:2]), weights.shape[0] // 2
        turned = self.constant(np.ascontiguousarray(weights.transpose(3, 2, 0, 1)))
        return self.add("Conv", x, turned, kernel_shape=window, strides=[stride] * 2, pads=[pad] * 4, group=groups)

    def session(self, order: Callable[[Array], Array] = lambda y: y) -> Run:
        import onnxruntime
        from onnx import TensorProto, helper

        (last,) = self.nodes[-1].output
        result = helper.make_tensor_value_info(last, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "main", self.inputs, [result], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        for name, array in self.feed.items():
            binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
        binding.bind_output(last, "cpu")

        def run() -> list[Any]:
            session.run_with_iobinding(binding)
            return [binding]

        run.read = lambda: order(binding.copy_outputs_to_cpu()[0])  # type: ignore[attr-defined]
        return run


# ---------------------------------------------------------------------------------------------------------- engines


def _hlotool(case: Case, inputs: list[Array]) -> Run:
    import hlotool

    module, cpu = hlotool.parse(case.hlo()), os.environ.get("PEERS_CPU")
    if cpu:
        from hlotool.codegen.machine import named

        executable = hlotool.compile(module, machine=named(cpu))
    else:
        executable = hlotool.compile(module)
    return lambda: executable(*inputs)


def _xla(case: Case, inputs: list[Array]) -> Run:
    import jax

    jax.config.update("jax_enable_x64", True)
    from jaxlib import _hlo, _jax

    device = jax.local_devices(backend="cpu")[0]
    proto = _hlo.hlo_module_from_text(case.hlo()).as_serialized_hlo_module_proto()
    executable = device.client.compile_and_load(_jax.mlir.hlo_to_stablehlo(proto), _jax.DeviceList((device,)))
    placed = [jax.device_put(a, device) for a in inputs]

    def run() -> Any:
        results = executable.execute(placed)
        for result in results:
            result.block_until_ready()
        return results

    return run


def _torch(case: Case, inputs: list[Array]) -> Run:
    return case.torch([np.array(a) for a in inputs])


def _onnx(case: Case, inputs: list[Array]) -> Run:
    assert case.onnx is not None
    return case.onnx(inputs)


ENGINES = {"hlotool": _hlotool, "onnxruntime": _onnx, "torch": _torch, "xla": _xla}


def serve(engine: str, name: str, keep: Path) -> None:
    """Be the process of an engine: results go to file `keep`; then, for every number of seconds read, print a median.

    That is of calls, as many as fit the time, in seconds.
    """
    case = CASES[name]
    call = ENGINES[engine](case, case.inputs())
    results = call()
    if case.compared:
        results = [call.read()] if hasattr(call, "read") else results
        several = isinstance(results, list | tuple)
        every = [np.asarray(r.detach() if hasattr(r, "detach") else r) for r in (results if several else [results])]
        np.savez(keep, *every[: case.compared])
    print("ready", flush=True)
    for line in sys.stdin:
        call()
        times: list[float] = []
        end = time.perf_counter() + float(line)
        while len(times) < 3 or time.perf_counter() < end:
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        print(statistics.median(times), flush=True)


class _Engine:
    """An engine in a process of its own, which waits while it is not asked."""

    def __init__(self, python: str, engine: str, name: str, isa: str | None, keep: Path) -> None:
        environment = dict(os.environ, HLOTOOL_CACHE="off")
        if isa:
            cpu, xla, torch, onednn = ISA[isa]
            environment |= {"PEERS_CPU": cpu, "ATEN_CPU_CAPABILITY": torch, "ONEDNN_MAX_CPU_ISA": onednn}
            environment["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_max_isa={xla}".strip()
        command = [python, os.path.abspath(__file__), "--serve", engine, "--keep", str(keep), name]
        self.times: list[float] = []
        self.problem = ""
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `close`)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=environment
        )
        self._answer()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        answer = self.process.stdout.readline().strip()
        if not answer:
            self.process.wait()
            self.errors.seek(0)
            self.problem = (self.errors.read().strip().splitlines() or ["no output"])[-1][:160]
        return answer

    def time(self, seconds: float) -> None:
        """Have it run for so many seconds, and take down the median."""
        assert self.process.stdin is not None
        if not self.problem:
            self.process.stdin.write(f"{seconds}\n")
            self.process.stdin.flush()
            answer = self._answer()
            if answer:
                self.times.append(float(answer))

    def close(self) -> None:
        self.process.communicate()
        self.errors.close()


def _difference(one: Path, other: Path) -> float:
    """The largest difference of results, as a part of their largest element."""
    with np.load(one) as a, np.load(other) as b:
        found = 0.0
        for key in a.files:
            x, y = a[key].astype(np.float64), b[key].astype(np.float64)
            if x.size != y.size:
                return math.inf
            largest = float(np.max(np.abs(x), initial=0)) or 1.0
            found = max(found, float(np.max(np.abs(x.ravel() - y.ravel()), initial=0)) / largest)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)} (default: all)")
    parser.add_argument("--peers-python", help="a Python with torch, onnxruntime and onnx")
    parser.add_argument("--xla-python", help="a Python with jax")
    parser.add_argument("--isa", choices=ISA)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--budget", type=float, default=0.1, help="seconds of timed calls per measurement")
    parser.add_argument("--serve", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--keep", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}")
    if options.serve:
        serve(options.serve, options.cases[0], options.keep)
        return 0
    pythons = {"hlotool": sys.executable, "onnxruntime": options.peers_python, "torch": options.peers_python}
    pythons["xla"] = options.xla_python
    failed = False
    for name in options.cases or CASES:
        with tempfile.TemporaryDirectory() as folder:
            engines: dict[str, _Engine] = {}
            for engine, python in pythons.items():
                if python is not None and (engine != "onnxruntime" or CASES[name].onnx is not None):
                    engines[engine] = _Engine(python, engine, name, options.isa, Path(folder) / f"{engine}.npz")
            for _ in range(options.rounds):
                for process in engines.values():
                    process.time(options.budget)
            for process in engines.values():
                process.close()
            failed |= _report(name, engines, Path(folder))
    return int(failed)


def _report(name: str, engines: dict[str, _Engine], folder: Path) -> bool:
    """Print a line about a case; whether something was wrong."""
    ours, text, ratios = engines["hlotool"], [], []
    for engine, process in engines.items():
        if not process.times:
            continue
        words = f"{engine} {statistics.median(process.times) * 1e6:.0f} us"
        if process is not ours and ours.times:
            ratios.append(statistics.median(a / b for a, b in zip(ours.times, process.times, strict=True)))
            words += f" ({ratios[-1]:.2f})"
            if CASES[name].compared:
                apart = _difference(folder / "hlotool.npz", folder / f"{engine}.npz")
                if not apart <= TOLERANCE:
                    process.problem = f"another result: {apart:.1e} of the largest element"
        text.append(words)
    best = f"{max(ratios):6.3f} of the best peer's time" if ratios else ""
    print(f"{name:26} {best}  {'  '.join(text)}", flush=True)
    for engine, process in engines.items():
        if process.problem:
            print(f"    {engine}: {process.problem}", flush=True)
    return any(process.problem for process in engines.values())


if __name__ == "__main__":
    sys.exit(main())
