"""What a call of a library gives back: numbers, what they are called in C, and what they say."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["CODES", "MISSING", "messages"]

CODES = {
    "OK": "done",
    "NULL": "an argument, a result or the workspace is a null pointer",
    "MISALIGNED": "the workspace is not aligned to 64 bytes",
    "SHORT": "the workspace is too short",
    "ALIAS": "a result that takes the memory of an argument has another address",
    "PROCESSOR": "this processor lacks instructions that the code uses",
    "NO_WEIGHTS": "the weights are missing: the context has none",
    "WEIGHTS_MISALIGNED": "the weights are not aligned to 64 bytes",
    "WEIGHTS_MAGIC": "these are no weights: the file begins with something else",
    "WEIGHTS_VERSION": "the weights have another version or byte order than this library reads",
    "WEIGHTS_OTHER": "the weights are those of other code",
    "WEIGHTS_SIZE": "the weights are too short, or longer than they should be",
    "WEIGHTS_HASH": "the weights are damaged: their hash is another one",
    "STOPPED": "the call was stopped by the function poll of its context",
    "FAILED": "a function of the context failed",
    "COUNT": "the number of arrays, or the length of one, is wrong",
}
"""By name, in the order of their numbers.  ``COUNT`` is said by wrappers, which see how much they are given."""

MISSING = 64
"""And the number of a function: the context does not have it."""


def messages(functions: Sequence[str]) -> dict[int, str]:
    """What the numbers say, in a library whose context has `functions`."""
    missing = {MISSING + n: f"the context has no function for {name}" for n, name in enumerate(functions)}
    return {**dict(enumerate(CODES.values())), **missing}
