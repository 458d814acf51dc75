"""Many jobs on any executor: a call of a function of hlotool, written as JSON with its contents beside it, goes to a
worker, which may be on another machine, and its answer comes back as JSON.

`Jobs` gives and takes; `executors.py` knows who works, `worker.py` is what a worker does, `codec.py` the JSON.  It is
in this room because its workers are `hlotool.harness.children`.
"""

from hlotool.harness.jobs.executors import Pool, pool_of
from hlotool.harness.jobs.jobs import Jobs, WorkerLost

__all__ = ["Jobs", "Pool", "WorkerLost", "pool_of"]
