"""StableHLO as bytecode of MLIR: found by content, made text by jaxlib in a process of its own, refused without it.

``tests/data/stablehlo/exported.bin`` is what ``jax.export.export(jax.jit(lambda x, y: jnp.sin(x) @ y + 1))`` of
``f32[3,4]`` and ``f32[4,5]`` serialises.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from conftest import Run

import hlotool as library
from hlotool.ir import ParseError
from hlotool.text.foreign import bytecode_in

EXPORTED = Path(__file__).parent / "data" / "stablehlo" / "exported.bin"
needs_jax = pytest.mark.skipif(
    not os.environ.get("HLOTOOL_XLA_PYTHON") and find_spec("jax") is None, reason="HLOTOOL_XLA_PYTHON names no Python"
)


def test_where_the_bytecode_is() -> None:
    data = EXPORTED.read_bytes()
    found = bytecode_in(data)
    assert found is not None
    assert (found[:4], len(found)) == (b"ML\xefR", 796)
    assert bytecode_in(found) == found
    assert bytecode_in(data[:1000]) is None  # cut off
    assert bytecode_in(b"HloModule m") is None
    assert bytecode_in(b"\x10\0\0\0" + bytes(40)) is None


def test_without_jaxlib(hlotool: Run) -> None:
    done = hlotool("import", str(EXPORTED), "--xla-python", "/no/such/python")
    assert (done.returncode, done.stdout) == (4, "")
    assert "exported.bin is StableHLO as bytecode of MLIR, which is made text by jaxlib" in done.stderr
    assert "--xla-python PYTHON or HLOTOOL_XLA_PYTHON" in done.stderr


def test_the_option_is_for_bytecode(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text("func.func @main() {\n  return\n}\n")
    done = hlotool("import", "m.mlir", "--xla-python", "python")
    assert done.returncode == 2
    assert "--xla-python is for bytecode of MLIR" in done.stderr


@needs_jax
def test_numbers() -> None:
    module = library.load(EXPORTED)
    x, y = (np.linspace(-1, 2, n, dtype=np.float32).reshape(shape) for n, shape in ((12, (3, 4)), (20, (4, 5))))
    found = library.compile(module)(x, y)
    assert np.allclose(found, np.sin(x) @ y + 1, atol=1e-5)


@needs_jax
def test_damaged(tmp_path: Path) -> None:
    whole = bytecode_in(EXPORTED.read_bytes())
    assert whole is not None
    for number, data in enumerate((whole[:400], whole[:4], whole[:100] + b"\xff" * 50 + whole[150:])):
        path = tmp_path / f"{number}.mlirbc"
        path.write_bytes(data)
        with pytest.raises(ParseError, match="the bytecode of MLIR cannot be read"):
            library.load(path)
