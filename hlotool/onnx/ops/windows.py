"""Windows of convolutions and pooling: padding as attributes have it, for any number of dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.onnx.lowering import Refused

__all__ = ["per_dimension", "window_padding"]


def per_dimension(given: Sequence[int] | None, count: int, default: int = 1) -> tuple[int, ...]:
    """One number for each of `count` dimensions."""
    found = (default,) * count if given is None else tuple(given)
    if len(found) != count:
        raise Refused(f"{len(found)} numbers for {count} dimensions")
    return found


def window_padding(
    auto: str, pads: Sequence[int] | None, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int],
    dilations: Sequence[int],
) -> list[tuple[int, int]]:  # fmt: skip
    """(before, after) of each dimension."""
    count = len(sizes)
    if auto in ("", "NOTSET"):
        given = tuple(pads) if pads else (0,) * (2 * count)
        if len(given) != 2 * count:
            raise Refused(f"{len(given)} numbers of padding for {count} dimensions")
        return [(given[n], given[n + count]) for n in range(count)]
    if auto == "VALID":
        return [(0, 0)] * count
    found = []
    for size, k, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        total = max(0, (-(-size // stride) - 1) * stride + (k - 1) * dilation + 1 - size)
        small, large = total // 2, total - total // 2
        found.append((small, large) if auto == "SAME_UPPER" else (large, small))
    return found
