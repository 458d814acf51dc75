"""Counts of sequences of words, whose words are integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

import hlotool.numpy as np
from hlotool.numpy.array import Array
from hlotool.onnx.lowering import Context, Refused, lowering
from hlotool.onnx.ops.pieces import constant, number

__all__: list[str] = []


@lowering("TfIdfVectorizer")
def tf_idf_vectorizer(
    c: Context, x: Array, *, max_gram_length: int, max_skip_count: int, min_gram_length: int, mode: str,
    ngram_counts: Sequence[int], ngram_indexes: Sequence[int], pool_int64s: Sequence[int] = (),
    pool_strings: Any = None, weights: Sequence[float] = (),
) -> Array:  # fmt: skip
    """How often each n-gram of the pool is in a row, weighted; its words may be apart by as many as are skipped.

    ``pool_int64s`` has all n-grams of one word, then those of two words...: ``ngram_counts`` says where each begins.
    """
    if pool_strings:
        raise Refused("strings")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise Refused(f"the mode {mode}")
    rows = np.reshape(x, (1, -1)) if x.ndim == 1 else x
    width = max(ngram_indexes) + 1
    total, first = np.zeros((rows.shape[0], width), numpy.float32), 0
    ends = [*ngram_counts[1:], len(pool_int64s)]
    for size, (begin, end) in enumerate(zip(ngram_counts, ends, strict=True), start=1):
        grams = numpy.asarray(pool_int64s[begin:end], numpy.int64).reshape(-1, size)
        columns = numpy.asarray(ngram_indexes[first : first + len(grams)], numpy.int64)
        first += len(grams)
        if not len(grams) or not min_gram_length <= size <= max_gram_length:
            continue
        for skip in range(max_skip_count + 1 if size > 1 else 1):
            places = rows.shape[1] - (size - 1) * (skip + 1)
            if places > 0:
                total = total.at[:, constant(columns)].add(_counts(rows, grams, skip + 1, places))
    if mode == "IDF":
        total = np.where(total > number(0, total), number(1, total), total)
    if mode != "TF" and weights:
        by = numpy.ones(width, numpy.float32)
        by[numpy.asarray(ngram_indexes)] = numpy.asarray(weights, numpy.float32)
        total = total * constant(by)
    return np.reshape(total, (-1,)) if x.ndim == 1 else total


def _counts(rows: Array, grams: numpy.ndarray[Any, Any], step: int, places: int) -> Array:
    """How often each n-gram begins in each row, its words `step` apart."""
    hit: Any = None
    for n in range(grams.shape[1]):
        word = np.expand_dims(rows[:, n * step : n * step + places], axis=2)  # rows, places, 1
        same = np.equal(word, constant(grams[:, n], rows.dtype))
        hit = same if hit is None else np.logical_and(hit, same)
    return np.sum(np.astype(hit, numpy.float32), axis=1)
