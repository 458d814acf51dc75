"""What ``--input`` says in words: ``x=normal(0,1)``, ``4xf32=1..4``, ``x=@x.npy``.

The forms with a type in front are those of iree-run-module (https://iree.dev); a type is checked against the parameter.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hlotool.harness.archive import DAMAGED, from_bits, read_array, read_member
from hlotool.harness.safetensors import Safetensors
from hlotool.ir import ELEMENT_TYPES, InputError, Shape, dtype_of, element_type

__all__ = ["FORMS", "is_typed", "parse_input"]

FORMS = (
    "@FILE.npy, @FILE.npz:NAME, @FILE.safetensors:NAME, zeros, ones, iota, a number, numbers with commas, A..B "
    "(equal steps), normal(MEAN,DEVIATION), uniform(LOW,HIGH) or integers(LOW,HIGH)"
)
"""What a value may be."""

_TYPE = r"(?:(?:\d+x)*[a-z]+\d\w*|(?:\d+x)*pred|[a-z]+\d*\w*\[[\d,\s]*\])"
_TYPED = re.compile(rf"\s*({_TYPE})\s*=(.*)", re.DOTALL)
_CALL = re.compile(r"(normal|uniform|integers)\s*\(([^()]*)\)")
_WORDS = {"zeros": "0", "ones": "1", "true": "1", "false": "0"}
_Number: TypeAlias = Callable[[str], complex]


def is_typed(text: str) -> bool:
    """Whether a type is in front, as in ``4xf32=1..4``."""
    found = _TYPED.fullmatch(text)
    return found is not None and re.split(r"\[", found[1])[0].rpartition("x")[2] in ELEMENT_TYPES


def parse_input(text: str, shape: Shape, random: np.random.Generator | None = None) -> npt.NDArray[Any]:
    """An array of `shape`, as `text` says (see `FORMS`); `random` is asked for random numbers (by default, seed 0).

    ValueError says what does not fit, InputError which file cannot be read.
    """
    typed = _TYPED.fullmatch(text)
    if typed and is_typed(text):
        _check_type(typed[1], shape)
        text = typed[2]
    text = text.strip()
    if text.startswith("@"):
        return _read(text[1:], shape)
    call = _CALL.fullmatch(text)
    if call:
        return _drawn(call[1], call[2], shape, random or np.random.default_rng(0))
    if text == "iota":
        return np.arange(shape.size).reshape(shape.dimensions).astype(dtype_of(shape.element_type))
    first, dots, last = text.partition("..")
    if dots:
        values = np.linspace(_number(first, shape), _number(last, shape), shape.size)
        return _as_shape(np.rint(values) if _number_of(shape) is int else values, shape)
    words = [word for word in re.split(r"[\s,\[\]]+", text) if word] if "[" in text else text.split(",")
    return _as_shape(np.asarray([_number(word, shape) for word in words]), shape)


def _check_type(text: str, shape: Shape) -> None:
    """ValueError unless `text`, ``4x8xf32`` or ``f32[4,8]``, is the type of `shape`."""
    *sizes, kind = text.split("x") if "[" not in text else [*re.findall(r"\d+", text[text.index("[") :]), text]
    if (kind.partition("[")[0], *map(int, sizes)) != (shape.element_type, *shape.dimensions):
        wanted = f"{shape.element_type}[{','.join(map(str, shape.dimensions))}]"
        raise ValueError(f"{text} is given, where {wanted} is taken")


def _read(path: str, shape: Shape) -> npt.NDArray[Any]:
    """An array of a file: the only one, or the one named after a colon."""
    file, colon, name = path.rpartition(":")
    if not colon or not file.endswith((".npz", ".safetensors")):
        return read_array(path, shape)
    if file.endswith(".safetensors"):
        with Safetensors(file) as tensors:
            return tensors.read(name)
    try:
        with zipfile.ZipFile(file) as archive:
            return from_bits(read_member(archive, file, name, shape), shape)
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror or error}") from error
    except DAMAGED as error:
        raise InputError(f"{file}: not an .npz archive of arrays") from error


def _drawn(what: str, words: str, shape: Shape, random: np.random.Generator) -> npt.NDArray[Any]:
    """Random numbers; both ends of integers are among them, the upper end of ``uniform`` is not."""
    row, size = element_type(shape.element_type), shape.dimensions
    usage = {"normal": "normal(MEAN,DEVIATION)", "uniform": "uniform(LOW,HIGH)", "integers": "integers(LOW,HIGH)"}[what]
    if (what == "integers") != (_number_of(shape) is int):
        raise ValueError(f"{what} is not for {shape.element_type}")
    convert = int if what == "integers" else float
    try:
        one, other = map(convert, words.split(","))
        values: npt.NDArray[Any]
        if what == "normal":
            values = random.normal(one, other, size)
            if row.is_complex:
                values = values + 1j * random.normal(0, other, size)
        elif what == "uniform":
            values = random.uniform(one, other, size)
        else:
            kind = np.uint64 if other >= 1 << 63 else np.int64
            values = random.integers(int(one), int(other), size, endpoint=True, dtype=kind)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{what}({words}): expected {usage}: {error}") from None
    return _as_shape(np.asarray(values), shape)


def _number_of(shape: Shape) -> _Number:
    row = element_type(shape.element_type)
    return complex if row.is_complex else float if row.is_float else int


def _number(word: str, shape: Shape) -> complex:
    convert, word = _number_of(shape), word.strip()
    try:
        return convert(_WORDS.get(word.lower(), word))
    except ValueError:
        kind = {complex: "complex numbers", int: "whole numbers", float: "numbers"}[convert]  # type: ignore[index]
        raise ValueError(f"{word!r}: expected {kind}, or {FORMS}") from None


def _as_shape(values: npt.NDArray[Any], shape: Shape) -> npt.NDArray[Any]:
    """`values`, one for all elements or one for each, as an array of `shape`; ValueError if they do not fit."""
    if values.size not in (1, shape.size):
        raise ValueError(f"{values.size} numbers for the {shape.size} elements of {shape}")
    row = element_type(shape.element_type)
    if _number_of(shape) is int and values.size:
        signed = row.kind == "signed"
        bits = 1 if row.kind == "pred" else row.bits
        low, high = -(1 << bits - 1) if signed else 0, (1 << bits - signed) - 1
        if int(values.min()) < low or int(values.max()) > high:
            raise ValueError(f"a number is out of the range of {shape.element_type}")
    flat = np.broadcast_to(values, (shape.size,)) if values.size == 1 else values
    return flat.astype(dtype_of(shape.element_type)).reshape(shape.dimensions)
