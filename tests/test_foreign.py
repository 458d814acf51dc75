"""What is given where HLO is expected: files of other tools, and objects of other libraries."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from conftest import Run

import hlotool
from hlotool.ir import InputError

STABLEHLO = """module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32>) -> (tensor<4xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""
SMALL = "HloModule m\n\nENTRY e {\n  ROOT x = f32[4]{0} parameter(0)\n}\n"


def _archive() -> bytes:
    data = BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("m/data.pkl", b"\x80\x02}q\x00.")
    return data.getvalue()


FILES: list[tuple[str, bytes, str]] = [
    ("f.txt", b"{ lambda ; a:f32[4]. let b:f32[4] = add a a in (b,) }\n", "a jaxpr"),
    ("f.onnx", b"\x08\x0e:5\n\x0e\n\x01x\n\x01x\x12\x01y\"\x03Add\x12\x01gZ\x0f", "an ONNX or TensorFlow model"),
    ("f.onnx", b"\x08\x08\x12\x07pytorch:\x02\n\x00", "an ONNX or TensorFlow model"),
    ("saved_model.pb", b"\x08\x01\x12\x04\n\x02\x12\x00", "an ONNX or TensorFlow model"),
    ("f.tflite", b"\x1c\x00\x00\x00TFL3\x14\x00 \x00", "a TensorFlow Lite model"),
    ("f.pt2", _archive(), "a zip archive"),
    ("f.ll", b"; ModuleID = 'm'\nsource_filename = \"m\"\n", "LLVM IR"),
    ("f.ll", b"; unit 0\ndefine void @k0(ptr %a) {\n", "LLVM IR"),
    ("f.s", b"# unit 0\n\t.text\n\t.file\t\"x\"\n", "assembly"),
    ("f.o", b"\x7fELF\x02\x01\x01\x00", "compiled code"),
]


@pytest.mark.parametrize(("name", "content", "what"), FILES)
def test_files_of_other_tools(hlotool: Run, tmp_path: Path, name: str, content: bytes, what: str) -> None:
    (tmp_path / name).write_bytes(content)
    done = hlotool("opt", name)
    assert (done.returncode, done.stdout) == (3, "")
    assert f"error[HLO0003]: this is {what}" in done.stderr
    assert "\nhint: " in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        STABLEHLO, "// dumped\n\n" + STABLEHLO, STABLEHLO[STABLEHLO.index("func.func") : -2],
        '#loc = loc("f.py":1:1)\n' + STABLEHLO, "module {\n  func.func @main() {\n    return\n  }\n}\n",
    ],
)  # fmt: skip
def test_stablehlo_is_read(text: str) -> None:
    assert hlotool.parse(text).entry.name == "main"


def test_hlo_that_looks_like_them(tmp_path: Path) -> None:
    body = "{\n  func.func = f32[4]{0} parameter(0)\n  func = f32[4]{0} negate(func.func)\n}\n"
    for name in ("module", "func", "func.func", "lambda", "define", "MZ", "BC", "PK", "attributes", "declare"):
        module = hlotool.parse(f"{name} {body}")
        assert hlotool.parse(hlotool.print_module(module)).entry.name == name


class Lowered:
    """As JAX's, for what matters here."""

    def as_text(self, dialect: str | None = None) -> str:
        return SMALL if dialect == "hlo" else STABLEHLO


class Compiled:
    def as_text(self) -> str:
        return SMALL


class XlaComputation:
    def as_hlo_text(self) -> str:
        return SMALL


FUNCTIONS: list[Callable[[Any], object]] = [hlotool.compile, hlotool.optimise, hlotool.verify, hlotool.print_module]


@pytest.mark.parametrize("function", FUNCTIONS, ids=["compile", "optimise", "verify", "print_module"])
@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (Lowered(), r"hlotool.parse\(lowered.as_text\('hlo'\)\)"),
        (Compiled(), r"hlotool.parse\(compiled.as_text\(\)\)"),
        (XlaComputation(), r"hlotool.parse\(computation.as_hlo_text\(\)\)"),
        (lambda x: x, r"jax.jit\(function\).lower\("),
        (SMALL, "hlotool.parse takes text"),
        (Path("m.hlo"), "hlotool.load takes the path"),
        (SMALL.encode(), "hlotool.load reads files"),
        (None, "not a NoneType"),
    ],
)
def test_objects_that_are_no_module(function: Callable[[Any], object], value: object, hint: str) -> None:
    with pytest.raises(InputError, match=hint):
        function(value)


def test_what_is_no_text_and_no_path() -> None:
    parse: Callable[[Any], object] = hlotool.parse
    load: Callable[[Any], object] = hlotool.load
    for value in (Lowered(), None, 3, b"x", Path("m.hlo")):
        with pytest.raises(InputError, match="parse takes the text of a module"):
            parse(value)
    for value in (Lowered(), None, 3, b"x"):
        with pytest.raises(InputError, match="expected the path of a file"):
            load(value)
    assert isinstance(parse(Lowered().as_text()), hlotool.Module)
