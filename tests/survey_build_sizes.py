#!/usr/bin/env python3
"""What four models take as programs for other programs: `hlotool build` beside what others export.

    python tests/survey_build_sizes.py [--jax PYTHON] [--torch PYTHON] [--onnx PYTHON] [--iree PYTHON] [MODEL...]

Each option names a Python that has these packages (by default this one); what is missing is said below the table.  All
weights are arguments, so that sizes are of code and of what describes it: the library and the shared library of
`hlotool build`, what `jax.export` serialises (StableHLO, which XLA compiles where it is loaded), XLA's executable
(`runtime_executable().serialize()`), IREE's module for this processor, the shared library of PyTorch's AOTInductor in
its package, as it is and without what the debugger reads (`strip`), and the model of ONNX.  Models are written once,
over the few operations in which the frameworks differ.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Sizes = tuple[int, ...]

# ---- models


def mlp(o: Any, x: Any, *w: Any) -> Any:
    """Three layers."""
    return o.tanh(o.tanh(x @ w[0] + w[1]) @ w[2] + w[3]) @ w[4] + w[5]


def convolutional(o: Any, x: Any, *w: Any) -> Any:
    """A classifier of digits."""
    for kernel, bias in (w[0:2], w[2:4]):
        x = o.pool(o.relu(o.conv(x, kernel, 1, 1) + bias.reshape(1, -1, 1, 1)), 2, 0)
    return o.softmax(x.reshape(x.shape[0], -1) @ w[4] + w[5])


def transformer(o: Any, x: Any, *w: Any) -> Any:
    """A block of four heads, with layer norm ahead of each half."""
    batch, length, width = x.shape
    parts = [part.reshape(batch, length, 4, -1).swapaxes(1, 2) for part in (o.norm(x) @ m for m in w[:3])]
    weights = o.softmax(parts[0] @ parts[1].swapaxes(2, 3) * (width // 4) ** -0.5)
    x = x + (weights @ parts[2]).swapaxes(1, 2).reshape(batch, length, width) @ w[3]
    return x + o.gelu(o.norm(x) @ w[4] + w[5]) @ w[6] + w[7]


def resnet(o: Any, x: Any, *w: Any) -> Any:
    """ResNet-18 for inference: each convolution has a scale and a shift."""
    left = iter(w)

    def conv(x: Any, stride: int = 1) -> Any:
        kernel, scale, shift = next(left), next(left), next(left)
        found = o.conv(x, kernel, stride, kernel.shape[-1] // 2)
        return found * scale.reshape(1, -1, 1, 1) + shift.reshape(1, -1, 1, 1)

    x = o.pool(o.relu(conv(x, 2)), 3, 1)
    for block in range(8):
        stride = 2 if block in (2, 4, 6) else 1
        y = conv(o.relu(conv(x, stride)))
        x = o.relu(y + (conv(x, 2) if stride == 2 else x))
    return x.mean((2, 3)) @ next(left) + next(left)


def _resnet_sizes() -> list[Sizes]:
    found: list[Sizes] = []

    def conv(features: int, given: int, size: int) -> None:
        found.extend([(features, given, size, size), (features,), (features,)])

    conv(64, 3, 7)
    given = 64
    for block in range(8):
        features = 64 << block // 2
        conv(features, given, 3)
        conv(features, features, 3)
        if given != features:
            conv(features, given, 1)
        given = features
    return [*found, (512, 1000), (1000,)]


MODELS: dict[str, tuple[Callable[..., Any], list[Sizes]]] = {
    "mlp": (mlp, [(32, 13), (13, 64), (64,), (64, 64), (64,), (64, 1), (1,)]),
    "convolutional": (
        convolutional, [(1, 1, 28, 28), (8, 1, 3, 3), (8,), (16, 8, 3, 3), (16,), (784, 10), (10,)]
    ),
    "transformer": (
        transformer, [(1, 128, 256), *[(256, 256)] * 4, (256, 1024), (1024,), (1024, 256), (256,)]
    ),
    "resnet18": (resnet, [(1, 3, 224, 224), *_resnet_sizes()]),
}  # fmt: skip
"""Functions, and the sizes of the input and the weights, all of f32."""


def _jax_operations() -> Any:
    import jax
    import jax.numpy as jnp
    from jax import lax, nn

    def conv(x: Any, kernel: Any, stride: int, pad: int) -> Any:
        return lax.conv_general_dilated(x, kernel, (stride, stride), [(pad, pad)] * 2)

    def pool(x: Any, size: int, pad: int) -> Any:
        window, step, pads = (1, 1, size, size), (1, 1, 2, 2), ((0, 0), (0, 0), (pad, pad), (pad, pad))
        return lax.reduce_window(x, -jnp.inf, lax.max, window, step, pads)

    def norm(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

    return SimpleNamespace(
        conv=conv, pool=pool, norm=norm, tanh=jnp.tanh, relu=nn.relu, softmax=nn.softmax, gelu=nn.gelu,
        version=jax.__version__,
    )  # fmt: skip


def _torch_operations() -> Any:
    import torch
    from torch.nn import functional as f

    return SimpleNamespace(
        conv=lambda x, kernel, stride, pad: f.conv2d(x, kernel, stride=stride, padding=pad),
        pool=lambda x, size, pad: f.max_pool2d(x, size, 2, pad), norm=lambda x: f.layer_norm(x, x.shape[-1:]),
        tanh=torch.tanh, relu=torch.relu, softmax=lambda x: torch.softmax(x, -1),
        gelu=lambda x: f.gelu(x, approximate="tanh"), version=torch.__version__,
    )  # fmt: skip


# ---- what others make: each in a Python of its own, which writes files into a folder and prints sizes


def of_jax(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    """Also writes the models as HLO and StableHLO, for the others."""
    import jax
    import jaxlib

    o = _jax_operations()
    found: dict[str, Any] = {}
    for name in names:
        function, sizes = MODELS[name]
        given = [jax.ShapeDtypeStruct(size, "float32") for size in sizes]
        made = jax.jit(lambda *arrays, function=function: function(o, *arrays))
        lowered = made.lower(*given)
        (folder / f"{name}.hlo").write_text(lowered.as_text("hlo"))
        (folder / f"{name}.mlir").write_text(lowered.as_text())
        from jax import export

        exported = len(export.export(made)(*given).serialize())
        found[name] = {"jax.export": exported, "XLA": len(lowered.compile().runtime_executable().serialize())}
    runtime = sum(path.stat().st_size for path in Path(jaxlib.__file__).parent.glob("libjax_common*"))
    return {"versions": {"jax": jax.__version__, "jaxlib": jaxlib.__version__}, "models": found,
            "runtimes": {"XLA": runtime, "jax.export": runtime}}  # fmt: skip


def of_iree(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    from importlib.metadata import version

    import iree.runtime
    from iree.compiler import tools

    found = {}
    for name in names:
        made = tools.compile_file(
            str(folder / f"{name}.mlir"), input_type="stablehlo", target_backends=["llvm-cpu"],
            extra_args=["--iree-llvmcpu-target-cpu=host"],
        )  # fmt: skip
        found[name] = {"IREE": len(made)}
    home = Path(iree.runtime.__file__).parents[1]
    runtime = sum(path.stat().st_size for path in home.rglob("_runtime*.so") if "tracy" not in str(path))
    return {"versions": {"iree-base-compiler": version("iree-base-compiler")}, "models": found,
            "runtimes": {"IREE": runtime}}  # fmt: skip


def _module(name: str) -> tuple[Any, tuple[Any, ...]]:
    """The model as a module of PyTorch, and its arguments."""
    import torch

    function, sizes = MODELS[name]
    o = _torch_operations()

    class Model(torch.nn.Module):
        def forward(self, *arrays: Any) -> Any:
            return function(o, *arrays)

    return Model(), tuple(torch.zeros(size) for size in sizes)


def of_torch(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    import torch

    found = {}
    for name in names:
        module, given = _module(name)
        package = folder / f"{name}.pt2"
        torch._inductor.aoti_compile_and_package(torch.export.export(module, given), package_path=str(package))
        with zipfile.ZipFile(package) as archive:
            (code,) = (row for row in archive.namelist() if row.endswith(".so"))
            made, bare = Path(archive.extract(code, folder)), folder / f"{name}.so"
        subprocess.run(["strip", "-o", str(bare), str(made)], check=True)
        found[name] = {"AOTInductor": bare.stat().st_size, "AOTInductor's": made.stat().st_size}
    libraries = Path(torch.__file__).parent / "lib"
    runtime = sum(path.stat().st_size for path in libraries.glob("lib*.so") if path.stem in ("libtorch_cpu", "libc10"))
    return {"versions": {"torch": torch.__version__}, "models": found,
            "runtimes": {"AOTInductor": runtime, "AOTInductor's": runtime}}  # fmt: skip


def of_onnx(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    import onnxruntime
    import torch

    found = {}
    for name in names:
        module, given = _module(name)
        path = folder / f"{name}.onnx"
        torch.onnx.export(module, given, str(path), dynamo=True, external_data=False, verbose=False)
        onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])  # that it can be used
        found[name] = {"ONNX": path.stat().st_size}
    home = Path(onnxruntime.__file__).parent / "capi"
    runtime = max(path.stat().st_size for path in home.glob("*.so*"))
    return {"versions": {"onnxruntime": onnxruntime.__version__}, "models": found, "runtimes": {"ONNX": runtime}}


CHILDREN = {"jax": of_jax, "iree": of_iree, "torch": of_torch, "onnx": of_onnx}
COLUMNS = {
    "static": "hlotool, static", "shared": "hlotool, shared", "XLA": "XLA executable", "jax.export": "`jax.export`",
    "IREE": "IREE vmfb", "AOTInductor": "AOTInductor, stripped", "AOTInductor's": "as made", "ONNX": "ONNX model",
}  # fmt: skip


# ---- the table


def of_hlotool(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    from hlotool import __version__

    found = {}
    for name in names:
        row = {}
        for kind, suffix in (("static", ".a"), ("shared", ".so")):
            target = folder / f"{name}-{kind}"
            command = [sys.executable, "-m", "hlotool", "build", str(folder / f"{name}.hlo"), "-o", str(target)]
            subprocess.run([*command, "--kind", kind, "--name", name], check=True, capture_output=True)
            (library,) = target.glob(f"*{suffix}")
            row[kind] = library.stat().st_size
        found[name] = row
    return {"versions": {"hlotool": __version__}, "models": found, "runtimes": {"static": 0, "shared": 0}}


def _run(kind: str, python: str, folder: Path, names: Sequence[str]) -> dict[str, Any] | str:
    """What a child found, or why it did not."""
    done = subprocess.run(
        [python, __file__, "--child", kind, str(folder), *names], capture_output=True, text=True, check=False
    )
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _bytes(size: int | None) -> str:
    if size is None:
        return ""
    return f"{size / 1024:,.1f} KiB" if size < 1 << 20 else f"{size / (1 << 20):,.1f} MiB"


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        kind, folder, *names = sys.argv[2:]
        print(json.dumps(CHILDREN[kind](Path(folder), names)))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for kind in CHILDREN:
        parser.add_argument(f"--{kind}", default=sys.executable, metavar="PYTHON")
    parser.add_argument("models", nargs="*", choices=[*MODELS, []], metavar="MODEL")
    options = parser.parse_args()
    names = options.models or list(MODELS)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        answers = {kind: _run(kind, getattr(options, kind), folder, names) for kind in CHILDREN}
        if isinstance(answers["jax"], str):
            sys.exit(f"the models are lowered by jax: {answers['jax']}")
        answers["hlotool"] = of_hlotool(folder, names)
    found = [answer for answer in answers.values() if not isinstance(answer, str)]
    columns = {key: title for key, title in COLUMNS.items() if any(key in one["runtimes"] for one in found)}
    print("| model | " + " | ".join(columns.values()) + " |\n|---|" + "---:|" * len(columns))
    for name in names:
        row = {key: size for answer in found for key, size in answer["models"][name].items()}
        print(f"| {name} | " + " | ".join(_bytes(row.get(key)) for key in columns) + " |")
    runtimes = {key: size for answer in found for key, size in answer["runtimes"].items()}
    print("| it needs | " + " | ".join(_bytes(runtimes[key]) if runtimes[key] else "nothing" for key in columns) + " |")
    versions = {name: text for answer in found for name, text in answer["versions"].items()}
    print(f"\n{date.today()}, {platform.machine()}: {', '.join(f'{n} {v}' for n, v in sorted(versions.items()))}")
    for kind, answer in answers.items():
        if isinstance(answer, str):
            print(f"left out: {kind}: {answer}")


if __name__ == "__main__":
    main()
