"""The reference evaluator: what every opcode means, in plain NumPy.

It is slow, accurate and obviously right.  `evaluate` runs a module; passes fold constants with
`evaluate_instruction`; tests compare compiled programs with it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlotool.evaluate.interpreter import Observer, evaluate, evaluate_computation, evaluate_instruction
    from hlotool.evaluate.values import Value

__all__ = ["Observer", "Value", "evaluate", "evaluate_computation", "evaluate_instruction"]


def __getattr__(name: str) -> Any:
    """Most programs are compiled without that anything is evaluated: names are loaded as they are used."""
    if name not in __all__:
        raise AttributeError(f"module 'hlotool.evaluate' has no attribute {name!r}")
    value = getattr(import_module(f"hlotool.evaluate.{'values' if name == 'Value' else 'interpreter'}"), name)
    globals()[name] = value
    return value
