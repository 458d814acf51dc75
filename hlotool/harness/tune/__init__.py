"""Looking for the choices that make kernels quickest: the engine of ``hlotool tune``.

`subjects.py` says what is tuned, `space.py` what can be chosen for it, `trial.py` how a candidate is compiled, checked
and timed, in a child process, `model.py` which candidate to try next.  `search.py` goes about it, and knows nothing of
compilers: what is measured comes from a `Lab` (`lab.py`), and every answer goes into a journal, from
which a search that was cut off goes on as if it never had been.
"""

from hlotool.harness.journal import Journal
from hlotool.harness.tune.lab import Lab, Local
from hlotool.harness.tune.search import Budget, Found, Plan, search
from hlotool.harness.tune.subjects import Subject, kernels_in, module_subject, wanted_subject
from hlotool.harness.tune.write import add_entries, entry_for

__all__ = [
    "Budget", "Found", "Journal", "Lab", "Local", "Plan", "Subject", "add_entries", "entry_for", "kernels_in",
    "module_subject", "search", "wanted_subject",
]  # fmt: skip
