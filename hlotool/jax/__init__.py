"""Programs of JAX, compiled by hlotool (extra ``hlotool[jax]``).

    import hlotool.jax

    @hlotool.jax.jit
    def step(weights, batch): ...

Functions of JAX, or programs that it hands to its plug-in, enter; arrays leave.  JAX is loaded when it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import hlotool.jax.passes as passes
    from hlotool.jax.explain import explain
    from hlotool.jax.jit import jit

__all__ = ["explain", "jit", "passes"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'hlotool.jax' has no attribute {name!r}")
    try:
        home = import_module(f"hlotool.jax.{name}")
    except ModuleNotFoundError as error:
        if error.name not in ("jax", "jaxlib"):
            raise
        raise ImportError("hlotool.jax needs JAX, which is not installed: pip install 'hlotool[jax]'") from error
    value = home if name == "passes" else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
