"""Where code that is profiled looks at the clock.

A probe is such a place: what it adds up is how often it was passed, and ticks of a clock.  Probes with the same *scope*
lie in one function, or in one parallel job, and share its time.  Those of the entry function are passed one after the
other, and have all time between two of them: their sum is the time of the execution.  Those of other scopes say only
how that of the probe which `opens` their scope is to be divided: several threads may have been at work, or several
callers.
"""

from __future__ import annotations

from hlotool.ir import Instruction
from hlotool.lazy_dataclass import dataclass

__all__ = ["Probe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """`kind` is ``kernel`` (an instruction's), ``tasks`` (some tasks of a step, or a step that is one task, on
    whichever thread), ``region`` (steps side by side), ``call`` (of a routine), ``host`` (the runtime), ``copy`` (of
    state or results), ``loop`` (arithmetic on single elements, and control, of a loop), ``scalars`` (such arithmetic
    elsewhere), ``rest`` (the end of a function), or ``span``: a loop with all that is in it, which is in no scope.

    `instruction` is what it belongs to, if it is one; `kernel` the function that ran.
    """

    kind: str
    scope: str | None
    computation: str
    instruction: Instruction | None = None
    kernel: str = ""
    opens: str | None = None
