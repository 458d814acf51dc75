"""Write down how often loops run."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.trip_count import trip_count
from hlotool.ir import Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import calls_of
from hlotool.passes.loops.while_loops import set_config

__all__ = ["WhileLoopTripCountAnnotator"]


@dataclass(frozen=True, slots=True)
class WhileLoopTripCountAnnotator:
    """Annotates counted loops in ``backend_config``, in XLA's form: trip count, induction variable, start, step."""

    name: ClassVar[str] = "while-loop-trip-count-annotator"
    opcodes: ClassVar[frozenset[str]] = frozenset({"while"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for loop in calls_of(module, "while"):
            found = trip_count(loop)
            if found is None:
                log.refuse("not-counted", loop, "no induction variable with constant start, step and limit")
                continue
            variable = None if found.index is None else {"tuple_index": str(found.index)}
            if log.allow() and set_config(
                loop,
                known_trip_count={"n": str(found.count)},
                known_induction_variable=variable,
                known_init_step={"init": str(found.initial), "step": str(found.step)},
            ):
                log.rewrite("annotate", loop, loop, count=found.count)
                changed = True
        return changed
