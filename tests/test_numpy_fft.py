"""hlotool.numpy.fft against NumPy: lengths, axes, norms, types."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import hlotool
from hlotool.numpy import fft

SHAPES = [(1,), (5,), (2, 8), (3, 33), (4, 6, 5)]


def draw(shape: tuple[int, ...], dtype: str) -> Any:
    generator = numpy.random.default_rng(0)
    found = generator.normal(size=shape)
    if dtype[0] == "c":
        found = found + 1j * generator.normal(size=shape)
    return found.astype(dtype)


def check(name: str, a: Any, **options: Any) -> None:
    found, expected = numpy.asarray(getattr(fft, name)(a, **options)), getattr(numpy.fft, name)(a, **options)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    limit = 1e-4 if expected.dtype in ("f4", "c8") else 1e-11
    assert numpy.allclose(found, expected, rtol=limit, atol=limit)


@pytest.mark.parametrize("shape", SHAPES)
def test_one_axis(shape: tuple[int, ...]) -> None:
    for number, dtype in enumerate(("f8", "c16", "f4", "c8")):
        a = draw(shape, dtype)
        norm = ("backward", "ortho", "forward", "backward")[number]
        for length, axis in ((None, -1), (3, 0), (7, -1)):
            names = ["fft", "ifft"] + ["rfft", "ihfft"] * (dtype[0] == "f")
            names += ["irfft", "hfft"] * (length is not None or shape[-1] > 1)
            for name in names:
                check(name, a, n=length, axis=axis, norm=norm)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_several_axes(norm: str) -> None:
    a = draw((4, 6, 5), "f8")
    for name in ("fftn", "ifftn", "rfftn", "irfftn"):
        check(name, a, norm=norm)
        check(name, a, s=(3, 8), axes=(0, 2), norm=norm)
    for name in ("fft2", "ifft2", "rfft2", "irfft2"):
        check(name, a, norm=norm)


def test_lengths_are_those_of_the_array_that_is_given() -> None:
    a = draw((4, 6, 5), "f8")
    for name in ("fftn", "ifftn", "rfftn", "irfftn"):
        check(name, a, s=(5, -1), axes=(0, 1))
        check(name, a, s=(-1, 7), axes=(-1, -2))
        check(name, a, axes=(1, 1))
    for name in ("fftn", "ifftn"):
        assert numpy.array_equal(getattr(fft, name)(a, axes=()), a)
        assert numpy.asarray(getattr(fft, name)(2.0)).dtype == numpy.complex128


def test_frequencies_and_shifts() -> None:
    a = draw((4, 5), "f8")
    for axes in (None, 0, (0, 1)):
        check("fftshift", a, axes=axes)
        check("ifftshift", a, axes=axes)
    for n in (1, 4, 7):
        assert numpy.array_equal(fft.fftfreq(n, d=0.5), numpy.fft.fftfreq(n, 0.5))
        assert numpy.array_equal(fft.rfftfreq(n, d=0.5), numpy.fft.rfftfreq(n, 0.5))


def test_within_a_compiled_function() -> None:
    a = draw((4, 32), "f8")
    found = hlotool.jit(lambda x: fft.irfft(fft.rfft(x)))(a)
    assert numpy.allclose(found, a)


def test_bad_use_is_told() -> None:
    a = draw((4,), "c16")
    calls = (
        lambda: fft.rfft(a), lambda: fft.fft(a, norm="other"), lambda: fft.fft(a, n=0), lambda: fft.fft(a, axis=1),
        lambda: fft.fftn(a, s=(2, 2)), lambda: fft.irfftn(a, s=(2, 2)), lambda: fft.fftfreq(3, device="gpu"),
        lambda: fft.rfftfreq(3, device="gpu"), lambda: fft.fft(a, n=2.5), lambda: fft.fftfreq(2.5),
        lambda: fft.rfftn(a.real, axes=()),
    )  # fmt: skip
    for call in calls:
        says = r"real numbers|norm 'other'|one element|out of bounds|2 lengths|device|whole number|one axis"
        with pytest.raises((TypeError, ValueError), match=says):
            call()
