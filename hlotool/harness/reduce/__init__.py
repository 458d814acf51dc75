"""Cutting a module down to what a failure needs: delta debugging (Zeller and Hildebrandt 2002) on the graph.

`search.py` knows how to look, and nothing of HLO: which of a list of edits can be made, so that the failure is still
there.  What can be edited is one short file each, listed in `strategies.py`; `draft.py` makes edits on a copy.  The
failure, and how it is tried for, come from `hlotool.harness.failure` and `hlotool.harness.trials`.
"""

from hlotool.harness.reduce.reduction import Found, NoFailure, Reduction, find_failure, reduce_text
from hlotool.harness.reduce.search import Step

__all__ = ["Found", "NoFailure", "Reduction", "Step", "find_failure", "reduce_text"]
