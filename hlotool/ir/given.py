"""What callers give instead of a module, and how to make one of it."""

from __future__ import annotations

from os import PathLike

from hlotool.ir.errors import InputError
from hlotool.ir.module import Module

__all__ = ["check_module", "check_text", "kind_of"]


def check_module(value: object, function: str) -> None:
    """InputError, with a way to make one of what was given, where `value` is no module."""
    if not isinstance(value, Module):
        message = f"{function} takes a module, as hlotool.load and hlotool.parse give it, not {kind_of(value)}"
        raise InputError(message + _way(value))


def check_text(value: object, function: str) -> None:
    """InputError, with a way to have one, where `value` is no text."""
    if not isinstance(value, str):
        raise InputError(f"{function} takes the text of a module, not {kind_of(value)}{_way(value)}")


def kind_of(value: object) -> str:
    """What somebody gave."""
    shown = isinstance(value, (bool, int, float)) or (isinstance(value, str) and len(value) < 80)
    return repr(value) if shown else f"a {type(value).__name__}"


def _way(value: object) -> str:
    """What makes a module of `value`; nothing where nobody knows.

    JAX's stages have ``as_text``, functions that it compiles ``lower``, XLA's computations ``as_hlo_text``; its modules
    ``to_string``.
    """
    name = type(value).__name__
    if isinstance(value, str):
        return "; hlotool.parse takes text, hlotool.load the path of a file"
    if isinstance(value, PathLike):
        return "; hlotool.load takes the path of a file"
    if isinstance(value, bytes):
        return "; hlotool.parse takes text, hlotool.load reads files of any form"
    if hasattr(value, "as_hlo_text"):
        return "; hlotool.parse(computation.as_hlo_text()) makes one"
    if hasattr(value, "as_text"):
        return f"; hlotool.parse({name.lower()}.as_text({'' if name == 'Compiled' else repr('hlo')})) makes one"
    if name == "HloModule" and hasattr(value, "to_string"):
        return "; hlotool.parse(module.to_string()) makes one"
    if callable(value):
        function = "function" if hasattr(value, "lower") else "jax.jit(function)"
        return f"; with JAX, hlotool.parse({function}.lower(*arguments).as_text('hlo')) makes one"
    return ""
