"""A file that was run before runs from the cache, without parsing or passes, and gives the same bytes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import environment

from hlotool.ir import Layout, Shape
from hlotool.runtime.image import Image, image_from_bytes, image_to_bytes

MANAGER = "hlotool.passes.framework.manager"

PROGRAM = """HloModule program

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}

ENTRY main {
  table = f32[9,4]{1,0} parameter(0)
  row = s32[] parameter(1)
  pair = (f32[4]{0}, u8[2,3]{1,0}) parameter(2)
  left = f32[4]{0} get-tuple-element(pair), index=0
  right = u8[2,3]{1,0} get-tuple-element(pair), index=1
  zero = s32[] constant(0)
  slice = f32[1,4]{1,0} dynamic-slice(table, row, zero), dynamic_slice_sizes={1,4}
  flat = f32[4]{0} reshape(slice)
  sum = f32[4]{0} add(flat, left)
  start = f32[] constant(0)
  total = f32[] reduce(sum, start), dimensions={0}, to_apply=add
  ROOT out = (f32[], u8[2,3]{1,0}) tuple(total, right)
}
"""
LOADED = """
import sys
from hlotool.cli import main
try:
    main()
except SystemExit as end:
    names = ("hlotool.text.parser", "hlotool.passes.framework.manager", "hlotool.codegen.program", "hlotool.evaluate")
    print(end.code, *(name for name in names if name in sys.modules), file=sys.stderr)
"""


def run(folder: Path, *arguments: str, cache: Path | str | None = None) -> tuple[str, list[str]]:
    """What ``hlotool run`` prints, and its exit code with the heavy modules that it imported."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, "run", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(HLOTOOL_CACHE=str(cache or folder / "cache")),
        check=True,
    )
    return done.stdout, done.stderr.splitlines()[-1].split()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.hlo"
    path.write_text(PROGRAM)
    return path


@pytest.mark.parametrize(
    "options",
    [
        ["--random", "3"],
        ["--random", "3", "--input", "row=7", "--format", "json"],
        ["--input", "table=iota", "--input", "1=8", "--input", "pair.0=1,2,3,4", "--input", "pair.1=1", "-p", "O1"],
        ["--random", "1", "--threads", "1", "--flush-denormals"],
    ],
)
def test_the_second_run_does_not_compile(program: Path, options: list[str]) -> None:
    first, loaded = run(program.parent, program.name, *options)
    assert loaded[0] == "0"
    assert MANAGER in loaded
    again, loaded = run(program.parent, program.name, *options)
    assert loaded == ["0"]
    assert again == first
    uncached, _ = run(program.parent, program.name, *options, cache="off")
    assert uncached == first


def test_files_in_and_out(program: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {"arg0": rng.random((9, 4), np.float32), "arg1": np.int32(3), "arg2": np.ones(4, np.float32)}
    np.savez(program.parent / "in.npz", **arrays, arg3=rng.integers(0, 9, (2, 3), np.uint8))
    for number in range(2):
        run(program.parent, program.name, "--inputs", "in.npz", "-o", f"out{number}.npz")
    first, second = ((program.parent / f"out{number}.npz").read_bytes() for number in range(2))
    assert first == second
    out, loaded = run(program.parent, program.name, "--inputs", "in.npz", "--compare", "out0.npz")
    assert loaded == ["0"]
    assert "out0: ok" in out
    np.savez(program.parent / "in.npz", **arrays)
    out, loaded = run(program.parent, program.name, "--inputs", "in.npz")
    assert loaded[0] == "3"


def test_another_content_or_option_is_another_program(program: Path) -> None:
    first, _ = run(program.parent, program.name, "--random", "0")
    program.write_text(PROGRAM.replace("add(flat, left)", "subtract(flat, left)"))
    other, loaded = run(program.parent, program.name, "--random", "0")
    assert MANAGER in loaded
    assert other != first
    assert MANAGER in run(program.parent, program.name, "--random", "0", "-p", "O0")[1]
    # What another package may have changed, or what needs the module, is not taken from the cache.
    for options in (["-p", "dce"], ["--compare", "evaluate"]):
        assert all(MANAGER in run(program.parent, program.name, *options)[1] for _ in range(2))


def test_code_that_calls_python_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "calls.hlo").write_text(PROGRAM.replace("u8[2,3]", "u8[<=2,3]"))
    for _ in range(2):
        _, loaded = run(tmp_path, "calls.hlo", "--random", "0")
        assert loaded[0] == "0"
        assert MANAGER in loaded


def test_a_damaged_entry_is_compiled_again(program: Path) -> None:
    first, _ = run(program.parent, program.name, "--random", "0")
    for entry in (program.parent / "cache").iterdir():
        data = bytearray(entry.read_bytes())
        data[len(data) // 2] ^= 1
        entry.write_bytes(data)
    again, loaded = run(program.parent, program.name, "--random", "0")
    assert again == first
    assert MANAGER in loaded
    assert run(program.parent, program.name, "--random", "0") == (first, ["0"])


def test_images_survive_as_bytes() -> None:
    shapes = (Shape("bf16", (2, 0), Layout((1, 0))), Shape("pred"))
    image = Image((b"one", b""), "main", shapes, shapes[1:], 64, np.arange(5, dtype=np.uint8), True, ((0, 1),), (1,))
    found = image_from_bytes(image_to_bytes(image))
    assert found.constants.tolist() == [0, 1, 2, 3, 4]
    assert [getattr(found, f) == getattr(image, f) for f in image.__slots__ if f != "constants"] == [True] * 8
    for odd in (Shape("f32", (2,), dynamic=(True,)), Shape("f32", (2,), Layout((0,), tiles=((8,),)))):
        with pytest.raises(ValueError, match="no plain array"):
            image_to_bytes(Image((), "main", (odd,), (), 0, np.empty(0, np.uint8), False))
