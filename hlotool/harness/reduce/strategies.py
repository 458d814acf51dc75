"""What a module is made smaller by: one line each, in the order in which they are tried."""

from __future__ import annotations

from hlotool.harness.reduce.annotations import notes
from hlotool.harness.reduce.arguments import arguments
from hlotool.harness.reduce.bypass import bypasses
from hlotool.harness.reduce.callees import callees
from hlotool.harness.reduce.clean import cleaned
from hlotool.harness.reduce.constants import ones, zeros
from hlotool.harness.reduce.element_types import plainer_types
from hlotool.harness.reduce.inline import inlined
from hlotool.harness.reduce.instructions import instructions
from hlotool.harness.reduce.loop_trips import fewer_trips
from hlotool.harness.reduce.names import renamed
from hlotool.harness.reduce.outputs import outputs
from hlotool.harness.reduce.parameters import merged_parameters
from hlotool.harness.reduce.search import Strategy
from hlotool.harness.reduce.sizes import halves, small_sizes, to_one, to_two
from hlotool.harness.reduce.stand_ins import stand_ins

__all__ = ["FIRST", "LAST", "STRATEGIES", "Strategy"]

FIRST: tuple[Strategy, ...] = (
    Strategy("callees", callees, alone=True),
    Strategy("instructions", instructions),
)
"""What makes large modules small, as long as it does."""

STRATEGIES: tuple[Strategy, ...] = (
    Strategy("annotations", notes),
    Strategy("small sizes", small_sizes, alone=True),
    Strategy("callees", callees, alone=True),
    Strategy("outputs", outputs),
    Strategy("instructions", instructions),
    Strategy("loop trips", fewer_trips),
    Strategy("inline", inlined),
    Strategy("stand-ins", stand_ins),
    Strategy("bypass", bypasses),
    Strategy("arguments", arguments),
    Strategy("clean", cleaned, alone=True),
    Strategy("parameters", merged_parameters),
    Strategy("sizes of 1", to_one),
    Strategy("sizes of 2", to_two),
    Strategy("half sizes", halves),
    Strategy("types", plainer_types),
    Strategy("zeros", zeros),
    Strategy("ones", ones),
)
"""Coarse ones first: what is gone need not be tried again."""

LAST: tuple[Strategy, ...] = (Strategy("names", renamed, alone=True),)
"""What is done once, in the end."""
