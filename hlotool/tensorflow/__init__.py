"""Functions of TensorFlow, compiled by hlotool (extra ``hlotool[tensorflow]``).

    @hlotool.tensorflow.function
    def step(x, y):
        ...

A Python function of tensors enters; a function over tensors that runs as native code leaves.  TensorFlow is loaded
when such a function is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlotool.tensorflow.compiled import Function, explain, function

__all__ = ["Function", "explain", "function"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'hlotool.tensorflow' has no attribute {name!r}")
    import hlotool.tensorflow.compiled as home

    return getattr(home, name)


def __dir__() -> list[str]:
    return sorted(__all__)
