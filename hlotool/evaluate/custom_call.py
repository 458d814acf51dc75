"""What the handler of a custom call is told, and what a handler is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hlotool.lazy_dataclass import dataclass

__all__ = ["EVALUATED", "Array", "CustomCall", "Handler", "Leaf"]

EVALUATED = "hlotool.evaluate"
"""The target of a custom call that means the computation that it calls: the runtime has it evaluated."""

Array: TypeAlias = npt.NDArray[Any]
Leaf: TypeAlias = tuple[np.dtype[Any], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class CustomCall:
    """What a handler is told: the target, the leaves of operands and outputs as (dtype, shape), and the attributes.

    `backend_config` is a dictionary when the text is one (JSON, or the typed form ``{uplo = 76 : ui8}``), else the
    text itself.  `computations` are those of ``to_apply`` or ``called_computations``, as functions from one array per
    parameter leaf to one per root leaf.  `aliases` maps output leaves to the operand leaves that they replace
    (``output_to_operand_aliasing``); the handler gets such an operand as an array of its own, which it may change and
    return.  `name` is the instruction's.
    """

    target: str
    operands: tuple[Leaf, ...]
    outputs: tuple[Leaf, ...]
    backend_config: Mapping[str, Any] | str = ""
    api_version: str = ""
    frontend_attributes: Mapping[str, str] = field(default_factory=dict)
    computations: tuple[Callable[..., tuple[Array, ...]], ...] = ()
    aliases: Mapping[int, int] = field(default_factory=dict)
    name: str = ""


Handler: TypeAlias = Callable[[tuple[Array, ...], CustomCall], Sequence[Array]]
