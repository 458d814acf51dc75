"""Elements of less than a byte at the border of a program: bits that an element does not use do not count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Run

import hlotool
from hlotool.ir import ELEMENT_TYPES, dtype_of

Array = np.ndarray[Any, Any]

NARROW = [name for name, row in ELEMENT_TYPES.items() if row.is_array and row.bits < 8 and name != "pred"]
BYTES = np.arange(256, dtype=np.uint8)


def clean(kind: str) -> Array:
    """The elements that these bytes are."""
    low = BYTES & np.uint8((1 << ELEMENT_TYPES[kind].bits) - 1)
    return (-low.astype(np.int8) if kind == "s1" else low).view(dtype_of(kind))


@pytest.mark.parametrize("backend", ["evaluate", "cpu"])
@pytest.mark.parametrize("kind", NARROW)
def test_unused_bits_do_not_count(backend: str, kind: str) -> None:
    layout = f"{{0:E({ELEMENT_TYPES[kind].bits})}}"  # how XLA packs them changes nothing
    module = hlotool.parse(
        f"HloModule m\n\nENTRY main {{\n  x = {kind}[256]{layout} parameter(0)\n  same = {kind}[256] copy(x)\n"
        f"  back = {kind}[256] reverse(x), dimensions={{0}}\n  wide = f32[256] convert(x)\n"
        f"  ROOT r = ({kind}[256], {kind}[256], f32[256], {kind}[256]) tuple(same, back, wide, x)\n}}\n"
    )
    executable = hlotool.compile(module, backend=backend)
    want = clean(kind)
    for given in (BYTES.view(dtype_of(kind)), want):
        same, back, wide, direct = executable(given)
        for got in (same, back[::-1], wide, direct):
            assert got.astype(np.float32).tolist() == want.astype(np.float32).tolist()
        assert same.tobytes() == want.tobytes()


@pytest.mark.parametrize("backend", ["evaluate", "cpu"])
def test_every_byte_but_zero_is_true(backend: str) -> None:
    module = hlotool.parse(
        "HloModule m\n\nENTRY main {\n  x = pred[256] parameter(0)\n  n = pred[256] not(x)\n"
        "  w = u8[256] convert(x)\n  ROOT r = (pred[256], u8[256]) tuple(n, w)\n}\n"
    )
    negated, wide = hlotool.compile(module, backend=backend)(BYTES.view(np.bool_))
    assert negated.view(np.uint8).tolist() == [1] + [0] * 255
    assert wide.tolist() == [0] + [1] * 255


@pytest.mark.parametrize("kind", ["s1", "u4", "f4e2m1fn"])
def test_archives_keep_them(hlotool: Run, tmp_path: Path, kind: str) -> None:
    """In .npz files they are bytes, whatever their high bits."""
    text = f"HloModule m\n\nENTRY main {{\n  x = {kind}[256] parameter(0)\n  ROOT y = {kind}[256] copy(x)\n}}\n"
    (tmp_path / "m.hlo").write_text(text)
    given = BYTES.view(np.int8) if kind == "s1" else BYTES
    np.savez(tmp_path / "in.npz", arg0=given)
    np.savez(tmp_path / "want.npz", out0=clean(kind).view(given.dtype))
    done = hlotool("run", "m.hlo", "--inputs", "in.npz", "--compare", "want.npz", "-o", "out.npz")
    assert done.returncode == 0, done.stdout + done.stderr
    again = hlotool("run", "m.hlo", "--inputs", "in.npz", "--compare", "evaluate")
    assert again.returncode == 0, again.stdout + again.stderr
    with np.load(tmp_path / "out.npz") as archive:
        assert archive["out0"].tobytes() == clean(kind).tobytes()
