"""Products and convolutions in few bits beside f32: how many times as fast are they?

    python tests/survey_low_precision.py [decode] [products] [convolutions] [nodes] [--cpu tiles,host,x86-64-v3]
        [--threads 1] [--seconds 0.5] [--size 4096]

A line per computation and processor: the time of f32 in microseconds, and by how much each other type is faster (below
1: slower).  All of a line run in turns in this process; times are lower quartiles.  ``tiles`` is this processor with
its tile registers, ``host`` without.  ``decode`` meets weights of --size squared, which are constants, with a few rows:
a scale for each column or, behind a colon, for groups of so many terms; KN and NK say which dimension lies side by side
last.

Where ONNX Runtime is installed (with onnx, to make its models), lines of ``tiles``, and of the first processor named
otherwise, have its times of the same work, too: MatMulNBits, MatMulInteger and ConvInteger, beside hlotool's of the
same types: ``ort`` is how many times as long it takes.  ``nodes`` are models of one quantised node with constant
weights, as quantised models have them, imported by hlotool and run by both: QLinearMatMul, QLinearConv (a scale for
each channel, and a bias), MatMulInteger and ConvInteger; ``off`` is by how much a result differs at most.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from hlotool.codegen.machine import Machine, host, named
from hlotool.driver import compile_module
from hlotool.driver.specialise import bind
from hlotool.ir import literal
from hlotool.text.parser import parse

DTYPES: dict[str, Any] = {
    "f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "s32": np.int32, "s8": np.int8, "u8": np.uint8,
    "s4": ml_dtypes.int4, "u4": ml_dtypes.uint4, "f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2,
}
WEIGHTS = ("bf16", "f16", "s8", "u8", "s8:64", "s4", "s4:32", "s4:128", "f8e4m3fn", "f8e5m2")
PAIRS = (
    ("s8", "s8", "s32"), ("u8", "s8", "s32"), ("s4", "s4", "s32"), ("bf16", "bf16", "f32"), ("f16", "f16", "f32"),
    ("bf16", "bf16", "bf16"), ("f16", "f16", "f16"), ("f8e4m3fn", "f8e4m3fn", "f32"), ("f8e5m2", "f8e5m2", "f32"),
)  # fmt: skip
OPERANDS = (("f32", "f32"), ("bf16", "bf16"), ("f16", "f16"), ("f8e4m3fn", "f8e4m3fn"), ("s8", "s8"), ("u8", "s8"))
IMAGES = (
    (56, (64, 64), 3, 1, 1), (28, (128, 128), 3, 1, 1), (14, (256, 256), 3, 1, 1), (28, (256, 256), 1, 1, 1),
    (56, (128, 128), 3, 2, 1), (28, (256, 512), 1, 2, 1), (224, (3, 64), 7, 2, 1), (28, (192, 192), 3, 1, 192),
    (28, (128, 128), 3, 1, 4),
)  # fmt: skip
"""Convolutions: pixels of a side, features before and after, window, stride, and groups."""
Run = Callable[[], Any]


def decode(m: int, k: int, n: int, kind: str, group: int, turned: bool) -> str:
    """`m` rows by weights of `kind`, with scales."""
    sizes, few, at = (k // group, group, n), (k // group, n), "0,2"
    matrix = (k, n)
    if turned:
        sizes, few, at, matrix = (n, k // group, group), (n, k // group), "0,1", (n, k)
    full, scales, dense = (",".join(map(str, x)) for x in (sizes, few, matrix))
    weights = f"w = f32[{dense}] parameter(1)\n" if kind == "f32" else (
        f"v = {kind}[{full}] parameter(1)\ns = f32[{scales}] parameter(2)\nc = f32[{full}] convert(v)\n"
        f"b = f32[{full}] broadcast(s), dimensions={{{at}}}\nq = f32[{full}] multiply(c, b)\n"
        f"w = f32[{dense}] reshape(q)\n"
    )
    return (
        f"HloModule m\nENTRY e {{\nx = f32[{m},{k}] parameter(0)\n{weights}ROOT y = f32[{m},{n}] dot(x, w), "
        f"lhs_contracting_dims={{1}}, rhs_contracting_dims={{{int(turned)}}}\n}}"
    )


def product(size: int, left: str, right: str, result: str) -> str:
    shape = f"[{size},{size}]"
    return (
        f"HloModule m\nENTRY e {{\nx = {left}{shape} parameter(0)\nw = {right}{shape} parameter(1)\n"
        f"ROOT y = {result}{shape} dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}"
    )


def convolution(
    kinds: Sequence[str], nchw: bool, size: int, features: tuple[int, int], window: int, stride: int = 1,
    groups: int = 1,
) -> str:  # fmt: skip
    """A convolution with sums, and a result, of 32 bits; bytes are converted to that first."""
    (inputs, outputs), made = features, -(-size // stride)
    share = inputs // groups
    image, kernel = f"1,{size},{size},{inputs}", f"{window},{window},{share},{outputs}"
    result = f"1,{made},{made},{outputs}"
    labels, whole = "b01f_01io->b01f", kinds[0][:1] in ("s", "u")
    if nchw:
        image, kernel = f"1,{inputs},{size},{size}", f"{outputs},{share},{window},{window}"
        labels, result = "bf01_oi01->bf01", f"1,{outputs},{made},{made}"
    wide = "s32" if whole else "f32"
    low = ((made - 1) * stride + window - size) // 2
    pad = f"{low}_{(made - 1) * stride + window - size - low}"
    converted = f"a = s32[{image}] convert(x)\nb = s32[{kernel}] convert(w)\n" if whole else ""
    return (
        f"HloModule m\nENTRY e {{\nx = {kinds[0]}[{image}] parameter(0)\nw = {kinds[1]}[{kernel}] parameter(1)\n"
        f"{converted}ROOT y = {wide}[{result}] convolution({'a, b' if whole else 'x, w'}), "
        f"window={{size={window}x{window} stride={stride}x{stride} pad={pad}x{pad}}}, dim_labels={labels}, "
        f"feature_group_count={groups}\n}}"
    )


def compiled(text: str, machine: Machine, threads: int, constants: bool = False) -> Run:
    """A run on small whole numbers; all but the first array may be `constants`, as weights are."""
    module, generator = parse(text), np.random.default_rng(1)
    arrays = []
    for p in module.entry.parameters:
        low = 0 if p.shape.element_type[0] == "u" else -4
        arrays.append(generator.integers(low, 5, p.shape.dimensions).astype(DTYPES[p.shape.element_type]))
    if constants:
        others = zip(module.entry.parameters[1:], arrays[1:], strict=True)
        module = bind(module, {p.name: literal(value, p.shape.element_type) for p, value in others})
        del arrays[1:]
    executable = compile_module(module, machine=machine, threads=threads)
    return lambda: executable(*arrays)


def times(runs: Sequence[Run], seconds: float) -> list[float]:
    """Seconds of each: the lower quartile of turns."""
    taken: list[list[float]] = [[] for _ in runs]
    for run in runs:
        run()
    end = time.perf_counter() + seconds * len(runs)
    while len(taken[0]) < 5 or time.perf_counter() < end:
        for run, own in zip(runs, taken, strict=True):
            begin = time.perf_counter()
            run()
            own.append(time.perf_counter() - begin)
    return [float(np.quantile(own, 0.25)) for own in taken]


def one_node(node: str, sizes: Sequence[Sequence[int]], types: Sequence[Any], **attributes: Any) -> bytes:
    """A model of one node, whose operands are inputs (those of `types` that are arrays: constants)."""
    from onnx import TensorProto, helper, numpy_helper

    kinds = {np.float32: TensorProto.FLOAT, np.uint8: TensorProto.UINT8, np.int8: TensorProto.INT8}
    names = [f"i{number}" for number in range(len(types))]
    pairs = list(zip(names, types, sizes, strict=False))
    given = [(name, kind, size) for name, kind, size in pairs if not isinstance(kind, np.ndarray)]
    constants = [numpy_helper.from_array(t, name) for name, t in zip(names, types, strict=True)
                 if isinstance(t, np.ndarray)]  # fmt: skip
    result = TensorProto.FLOAT if node == "MatMulNBits" else TensorProto.INT32
    result = TensorProto.UINT8 if node.startswith("QLinear") else result
    graph = helper.make_graph(
        [helper.make_node(node, names, ["y"], domain="com.microsoft" if node == "MatMulNBits" else "", **attributes)],
        "g", [helper.make_tensor_value_info(name, kinds[kind], size) for name, kind, size in given],
        [helper.make_tensor_value_info("y", result, None)], constants,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    return model


def session_of(model: bytes, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def peer(node: str, sizes: Sequence[Sequence[int]], types: Sequence[Any], threads: int, **attributes: Any) -> Run:
    """A run of `one_node`."""
    session = session_of(one_node(node, sizes, types, **attributes), threads)
    feeds = {
        f"i{number}": np.ones(size, kind)
        for number, (kind, size) in enumerate(zip(types, sizes, strict=False)) if not isinstance(kind, np.ndarray)
    }  # fmt: skip
    return lambda: session.run(None, feeds)


def quantised_nodes() -> list[tuple[str, tuple[int, ...], bytes]]:
    """Models of one node with their titles and the shapes of their inputs, of u8."""
    generator = np.random.default_rng(2)
    found: list[tuple[str, tuple[int, ...], bytes]] = []

    def scale(size: Any = None) -> Any:
        return np.asarray(generator.uniform(0.001, 0.01, size), np.float32)

    def weights(*shape: int) -> Any:
        return generator.integers(-127, 128, shape).astype(np.int8)

    zero, middle = np.asarray(0, np.int8), np.asarray(128, np.uint8)
    for m, k, n in ((1, 1024, 1024), (64, 512, 512), (256, 768, 3072), (512, 512, 512), (1024, 1024, 1024)):
        w, rows, title = weights(k, n), (m, k), f"{m}x{k}x{n}"
        found.append((f"MatMulInteger {title}", rows, one_node("MatMulInteger", [rows], [np.uint8, w])))
        operands = [np.uint8, scale(), middle, w, scale(), zero, np.asarray(0.5, np.float32), middle]
        found.append((f"QLinearMatMul {title}", rows, one_node("QLinearMatMul", [rows], operands)))
    images = ((56, 64, 64, 3, 1, 1), (28, 128, 128, 3, 1, 1), (14, 256, 256, 3, 1, 1), (56, 64, 256, 1, 1, 1),
              (28, 256, 512, 1, 2, 1), (112, 32, 32, 3, 1, 32), (28, 192, 192, 3, 1, 192), (28, 128, 128, 3, 1, 4))
    for pixels, inputs, outputs, window, stride, groups in images:
        w, size = weights(outputs, inputs // groups, window, window), (1, inputs, pixels, pixels)
        given: dict[str, Any] = {"pads": [window // 2] * 4, "strides": [stride] * 2, "group": groups}
        bias = generator.integers(-500, 500, outputs).astype(np.int32)
        operands = [np.uint8, scale(), middle, w, scale(outputs), np.zeros(outputs, np.int8),
                    np.asarray(0.2, np.float32), middle, bias]  # fmt: skip
        title = f"{window}x{window} {inputs}>{outputs} of {pixels}^2 /{stride} in {groups}"
        found.append((f"QLinearConv {title}", size, one_node("QLinearConv", [size], operands, **given)))
        if groups == 1 and window == 3:
            found.append((f"ConvInteger {title}", size, one_node("ConvInteger", [size], [np.uint8, w], **given)))
    return found


def measure_nodes(label: str, machine: Machine, arguments: argparse.Namespace) -> None:
    from hlotool.onnx import import_model, read_model

    ratios = []
    for title, size, model in quantised_nodes():
        array = np.random.default_rng(3).integers(0, 256, size).astype(np.uint8)
        module = import_model(read_model(model)).module
        executable = compile_module(module, machine=machine, threads=arguments.threads)
        session = session_of(model, arguments.threads)
        runs: list[Run] = [partial(executable, array), partial(session.run, None, {"i0": array})]
        found, wanted = (np.asarray(run()[0]).astype(np.int64) for run in runs)
        own, other = times(runs, arguments.seconds)
        ratios.append(other / own)
        off = int(np.abs(found - wanted).max())
        print(f"{f'{label} {title}':52}{own * 1e6:9.0f} us  ort {other / own:6.2f}  off {off}", flush=True)
    mean = float(np.exp(np.mean(np.log(ratios))))
    print(f"{label} nodes: ORT takes {mean:.2f} times as long in the geometric mean of {len(ratios)}", flush=True)


def has_peer() -> bool:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError:
        return False
    return True


def line(title: str, names: Sequence[str], runs: Sequence[Run], seconds: float, beside: str = "") -> None:
    """Print how much faster than the first each is; the last one is the peer of the type `beside`, if that is given."""
    found = times(runs, seconds)
    text = [f"{name} {found[0] / own:.2f}" for name, own in zip(names[1:], found[1:], strict=False)]
    if beside:
        text.append(f"| ort/{beside} {found[-1] / found[names.index(beside)]:.2f}")
    print(f"{title:44}{found[0] * 1e6:9.0f} us  {'  '.join(text)}", flush=True)


def measure(part: str, label: str, machine: Machine, arguments: argparse.Namespace, peers: bool) -> None:
    threads, seconds, size = arguments.threads, arguments.seconds, arguments.size
    if part == "nodes":
        if peers:
            measure_nodes(label, machine, arguments)
    elif part == "decode":
        for turned in (False, True):
            for m in (1, 4, 16):
                runs = [compiled(decode(m, size, size, "f32", size, turned), machine, threads, constants=True)]
                for name in WEIGHTS:
                    kind, _, group = name.partition(":")
                    text = decode(m, size, size, kind, int(group or size), turned)
                    runs.append(compiled(text, machine, threads, constants=True))
                if peers and turned:
                    packed = np.full((size, size // 32, 16), 0x77, np.uint8)
                    scales = np.ones(size * size // 32, np.float32)
                    runs.append(peer(
                        "MatMulNBits", [(m, size)], [np.float32, packed, scales], threads, K=size, N=size, bits=4,
                        block_size=32, accuracy_level=1,
                    ))  # fmt: skip
                title = f"{label} decode {m}x{size}x{size} {'NK' if turned else 'KN'}"
                line(title, ["f32", *WEIGHTS], runs, seconds, "s4:32" if peers and turned else "")
    elif part == "products":
        for side in (256, 512, 1024, 2048):
            runs = [compiled(product(side, *kinds), machine, threads) for kinds in (("f32",) * 3, *PAIRS)]
            names = ["f32", *(f"{a}*{b}>{c}" for a, b, c in PAIRS)]
            if peers:
                constant = np.ones((side, side), np.int8)
                runs.append(peer("MatMulInteger", [(side, side)], [np.uint8, constant], threads))
            line(f"{label} product {side}", names, runs, seconds, "u8*s8>s32" if peers else "")
    else:
        for pixels, features, window, stride, groups in IMAGES:
            for nchw in (False, True):
                shape = nchw, pixels, features, window, stride, groups
                runs = [compiled(convolution(kinds, *shape), machine, threads, constants=True) for kinds in OPERANDS]
                peered = peers and nchw and groups == stride == 1
                if peered:
                    constant, pad = np.ones((*features[::-1], window, window), np.int8), [window // 2] * 4
                    size = (1, features[0], pixels, pixels)
                    runs.append(peer("ConvInteger", [size], [np.uint8, constant], threads, pads=pad))
                title = f"{features[0]}>{features[1]} of {pixels}^2 /{stride} in {groups} {'NCHW' if nchw else 'NHWC'}"
                names = [kinds[0] if kinds[0] == kinds[1] else "*".join(kinds) for kinds in OPERANDS]
                line(f"{label} {window}x{window} {title}", names, runs, seconds, "u8*s8" if peered else "")


def main() -> None:
    parts = ("decode", "products", "convolutions", "nodes")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*parts, []])
    parser.add_argument("--cpu", default="tiles,host,x86-64-v3")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--size", type=int, default=4096)
    arguments = parser.parse_args()
    peers = has_peer()
    for number, label in enumerate(arguments.cpu.split(",")):
        machine = host() if label == "tiles" else named(label)
        for part in arguments.parts or parts:
            measure(part, label, machine, arguments, peers and number == 0)


if __name__ == "__main__":
    main()
