"""The variables of the environment that hlotool reads: what the manual and ``hlotool doctor`` show."""

from __future__ import annotations

__all__ = ["VARIABLES"]

VARIABLES = {
    "HLOTOOL_CACHE": "off, or the directory for compiled code (default: hlotool under XDG_CACHE_HOME or ~/.cache).",
    "HLOTOOL_THREADS": "Number of threads (default: all cores).",
    "HLOTOOL_CPU": "Processor to compile for where --cpu names none (default: this one).",
    "HLOTOOL_PORTABLE": "1: do without what Linux has beyond what Python has on every system, for tests.",
    "HLOTOOL_KEEP": "MiB of freed array memory to keep for the next call.",
    "HLOTOOL_CONFIG": "A file to take in place of the nearest hlotool.toml, which gives pipelines names.",
    "HLOTOOL_STRICT": "1: as --strict, also for the library: a failure of a part of hlotool is an error.",
    "HLOTOOL_FALLBACK": "warn (default), silent or error: what is said of a program, or a part, that another compiles.",
    "HLOTOOL_REDUCE": "How many seconds a reproducer of a pass that fails may be reduced (10), or off.",
    "HLOTOOL_TUNE": "off, exact, read or write: what programs take of tuning databases (see hlotool tune).",
    "HLOTOOL_TUNE_DATABASE": "The tuning database (default: hlotool/tuning.jsonl in XDG_DATA_HOME or ~/.local/share).",
    "HLOTOOL_XLA_PYTHON": "A Python that has jax, for comparisons with XLA (default: the one that runs hlotool).",
    "MPI4PY_FUTURES_MAX_WORKERS": "mpi4py: the workers that --executor mpi starts where mpiexec started one process.",
    "XDG_CACHE_HOME": "Where caches are; see HLOTOOL_CACHE.",
    "XDG_DATA_HOME": "Where data are; see HLOTOOL_TUNE_DATABASE.",
    "NO_COLOR": "Set to anything: no colour in messages.",
    "TERM": "dumb: no colour in messages.",
}
