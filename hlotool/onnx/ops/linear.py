"""The classical models of ai.onnx.ml that are linear or made of distances, and what prepares features for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

import hlotool.numpy as np
from hlotool.numpy.array import Array
from hlotool.onnx.lowering import ML, Context, Refused, lowering
from hlotool.onnx.ops.activations import softmax_of
from hlotool.onnx.ops.pieces import constant, number

__all__ = ["labels_of", "transformed"]

Floats = Sequence[float]


def transformed(scores: Array, kind: str) -> Array:
    """Scores [rows, classes] after the transform that models of ai.onnx.ml end with."""
    if kind == "NONE":
        return scores
    if kind == "LOGISTIC":
        from hlotool.numpy.trace import apply

        return apply("logistic", scores)
    if kind == "SOFTMAX":
        return softmax_of(scores, (scores.ndim - 1,))
    if kind == "SOFTMAX_ZERO":
        zero = number(0, scores)
        powers = np.where(scores == zero, zero, np.exp(scores - np.max(scores, axis=-1, keepdims=True)))
        return powers / np.sum(powers, axis=-1, keepdims=True)
    raise Refused(f"the transform {kind}")


def labels_of(places: Array, integers: Sequence[int] | None, strings: Sequence[str] | None) -> Array:
    """The labels of classes by number."""
    if strings:
        raise Refused("labels that are strings")
    if not integers:
        return np.astype(places, numpy.int64)
    return np.take(constant(numpy.asarray(integers, numpy.int64)), places, axis=0)


def _rows(x: Array) -> Array:
    return np.astype(np.reshape(x, (1, -1)) if x.ndim == 1 else x, numpy.float32)


@lowering("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(c: Context, x: Array, places: Array) -> Array:
    index = np.reshape(places, (-1,))
    return np.take(np.reshape(x, (1, -1)) if x.ndim == 1 else x, index, axis=-1)


@lowering("Binarizer", domain=ML)
def binarizer(c: Context, x: Array, *, threshold: float = 0.0) -> Array:
    return np.astype(x > number(threshold, x), x.dtype)


@lowering("Scaler", domain=ML)
def scaler(c: Context, x: Array, *, offset: Floats = (0.0,), scale: Floats = (1.0,)) -> Array:
    wide = np.astype(x, numpy.float32)
    return (wide - constant(numpy.asarray(offset, "f4"))) * constant(numpy.asarray(scale, "f4"))


@lowering("Normalizer", domain=ML)
def normalizer(c: Context, x: Array, *, norm: str = "MAX") -> Array:
    wide = np.astype(x, numpy.float32)
    axis = -1
    if norm == "MAX":
        by = np.max(wide, axis=axis, keepdims=True)
    elif norm == "L1":
        by = np.sum(np.abs(wide), axis=axis, keepdims=True)
    elif norm == "L2":
        by = np.sqrt(np.sum(wide * wide, axis=axis, keepdims=True))
    else:
        raise Refused(f"the norm {norm}")
    return np.where(by == number(0, by), wide, wide / by)


@lowering("Imputer", domain=ML)
def imputer(
    c: Context, x: Array, *, imputed_value_floats: Floats = (), imputed_value_int64s: Sequence[int] = (),
    replaced_value_float: float = 0.0, replaced_value_int64: int = 0,
) -> Array:  # fmt: skip
    floats = x.dtype.kind == "f"
    wanted = constant(numpy.asarray(imputed_value_floats if floats else imputed_value_int64s, x.dtype))
    old = replaced_value_float if floats else replaced_value_int64
    hit = np.isnan(x) if floats and numpy.isnan(old) else x == number(old, x)
    return np.where(hit, np.broadcast_to(wanted, x.shape), x)


@lowering("OneHotEncoder", domain=ML)
def one_hot_encoder(
    c: Context, x: Array, *, cats_int64s: Sequence[int] = (), cats_strings: Any = None, zeros: int = 1
) -> Array:
    if cats_strings:
        raise Refused("categories that are strings")
    kinds = constant(numpy.asarray(cats_int64s, numpy.int64))
    return np.astype(np.expand_dims(np.astype(x, numpy.int64), axis=-1) == kinds, numpy.float32)


@lowering("FeatureVectorizer", domain=ML)
def feature_vectorizer(c: Context, *values: Array, inputdimensions: Sequence[int] = ()) -> Array:
    return np.concat([_rows(one)[:, :size] for one, size in zip(values, inputdimensions, strict=True)], axis=1)


@lowering("LabelEncoder", domain=ML, since=2)
def label_encoder(c: Context, x: Any, **given: Any) -> Array:
    """Keys replaced by the values beside them."""
    keys = next((given[name] for name in ("keys_tensor", "keys_int64s", "keys_floats") if name in given), None)
    names = ("values_tensor", "values_int64s", "values_floats")
    values = next(((name, given[name]) for name in names if name in given), None)
    if not isinstance(x, Array) or keys is None or values is None or getattr(values[1], "dtype", x.dtype).kind in "OSU":
        raise Refused("labels that are strings")
    name, held = values
    kind = {"values_int64s": "i8", "values_floats": "f4"}.get(name)
    table = numpy.asarray(held) if kind is None else numpy.asarray(held, kind)
    default: Any = given.get("default_tensor")
    if default is None:
        default = given.get("default_int64", -1) if table.dtype.kind == "i" else given.get("default_float", -0.0)
    found = np.full(x.shape, constant(numpy.asarray(default).reshape(-1)[0], table.dtype), dtype=table.dtype)
    own = numpy.asarray(keys, x.dtype)
    hits = np.equal(np.expand_dims(x, axis=-1), constant(own))
    if x.dtype.kind == "f" and numpy.isnan(own).any():
        hits = np.logical_or(hits, np.logical_and(np.isnan(np.expand_dims(x, axis=-1)), constant(numpy.isnan(own))))
    return np.where(np.any(hits, axis=-1), np.take(constant(table), np.argmax(hits, axis=-1), axis=0), found)


@lowering("LinearRegressor", domain=ML)
def linear_regressor(
    c: Context, x: Array, *, coefficients: Floats, intercepts: Floats = (), post_transform: str = "NONE",
    targets: int = 1,
) -> Array:  # fmt: skip
    weights = numpy.asarray(coefficients, "f4").reshape(targets, -1)
    found = np.matmul(_rows(x), constant(weights.T))
    if intercepts:
        found = found + constant(numpy.asarray(intercepts, "f4"))
    return transformed(found, post_transform)


@lowering("LinearClassifier", domain=ML)
def linear_classifier(
    c: Context, x: Array, *, coefficients: Floats, intercepts: Floats = (), classlabels_ints: Sequence[int] = (),
    classlabels_strings: Any = None, multi_class: int = 0, post_transform: str = "NONE",
) -> tuple[Array, Array]:  # fmt: skip
    if classlabels_strings:
        raise Refused("labels that are strings")
    rows = _rows(x)
    weights = numpy.asarray(coefficients, "f4").reshape(-1, rows.shape[1])
    scores = np.matmul(rows, constant(weights.T))
    if intercepts:
        scores = scores + constant(numpy.asarray(intercepts, "f4"))
    if scores.shape[1] == 1 and len(classlabels_ints) in (0, 2):
        other = number(1, scores) - transformed(scores, "LOGISTIC") if post_transform == "LOGISTIC" else -scores
        first = np.astype(scores[:, 0] > number(0, scores), numpy.int64)
        return labels_of(first, classlabels_ints, None), np.concat([other, transformed(scores, post_transform)], axis=1)
    best = np.argmax(scores, axis=1)
    return labels_of(best, classlabels_ints, None), transformed(scores, post_transform)


def _kernel(x: Array, vectors: Any, kind: str, params: Floats) -> Array:
    """The kernel of each row of `x` with each of the vectors."""
    gamma, coefficient, degree = (*params, 0.0, 0.0, 3.0)[:3] if len(params) < 3 else params[:3]
    other = constant(numpy.asarray(vectors, "f4").T)
    if kind == "RBF":
        square = np.sum(x * x, axis=1, keepdims=True) + np.sum(other * other, axis=0, keepdims=True)
        distance = square - number(2, square) * np.matmul(x, other)
        return np.exp(number(-gamma, square) * distance)
    product = np.matmul(x, other)
    if kind == "LINEAR":
        return product
    moved = number(gamma, product) * product + number(coefficient, product)
    if kind == "POLY":
        return np.power(moved, number(degree, moved))
    if kind == "SIGMOID":
        return np.tanh(moved)
    raise Refused(f"the kernel {kind}")


@lowering("SVMRegressor", domain=ML)
def svm_regressor(
    c: Context, x: Array, *, coefficients: Floats, kernel_params: Floats = (), kernel_type: str = "LINEAR",
    n_supports: int = 0, one_class: int = 0, post_transform: str = "NONE", rho: Floats = (0.0,),
    support_vectors: Floats = (),
) -> Array:  # fmt: skip
    rows = _rows(x)
    weights = constant(numpy.asarray(coefficients, "f4").reshape(-1, 1))
    if n_supports:
        values = _kernel(rows, numpy.reshape(support_vectors, (n_supports, -1)), kernel_type, kernel_params)
    else:
        values = rows
    found = np.matmul(values, weights) + constant(rho[0], "f4")
    if one_class:
        found = np.where(found > number(0, found), number(1, found), number(-1, found))
    return transformed(found, post_transform)


@lowering("SVMClassifier", domain=ML)
def svm_classifier(
    c: Context, x: Array, *, coefficients: Floats, classlabels_ints: Sequence[int] = (),
    classlabels_strings: Any = None, kernel_params: Floats = (), kernel_type: str = "LINEAR",
    post_transform: str = "NONE", prob_a: Floats = (), prob_b: Floats = (), rho: Floats = (),
    support_vectors: Floats = (), vectors_per_class: Sequence[int] = (),
) -> tuple[Array, Array]:  # fmt: skip
    """One classifier for each pair of classes, each of which votes."""
    if classlabels_strings:
        raise Refused("labels that are strings")
    if prob_a or not vectors_per_class:
        raise Refused("probabilities by pairs of classes" if prob_a else "a support vector machine without vectors")
    rows, counts = _rows(x), list(vectors_per_class)
    classes, total = len(counts), sum(counts)
    values = _kernel(rows, numpy.reshape(support_vectors, (total, -1)), kernel_type, kernel_params)
    weights = numpy.asarray(coefficients, "f4").reshape(classes - 1, total)
    starts = numpy.concatenate([[0], numpy.cumsum(counts)])
    matrix, votes, pairs = [], [], 0
    for i in range(classes):
        for j in range(i + 1, classes):
            column = numpy.zeros(total, "f4")
            column[starts[i] : starts[i + 1]] = weights[j - 1, starts[i] : starts[i + 1]]
            column[starts[j] : starts[j + 1]] = weights[i, starts[j] : starts[j + 1]]
            matrix.append(column)
            votes.append((i, j))
            pairs += 1
    scores = np.matmul(values, constant(numpy.stack(matrix, axis=1))) + constant(numpy.asarray(rho, "f4"))
    ahead = scores > number(0, scores)
    tally: Any = None
    for n, (i, j) in enumerate(votes):
        line = numpy.zeros((2, classes), "i4")
        line[0, j], line[1, i] = 1, 1
        vote = np.take(constant(line), np.astype(ahead[:, n], numpy.int64), axis=0)
        tally = vote if tally is None else tally + vote
    best = np.argmax(tally, axis=1)
    given = np.concat([-scores, scores], axis=1) if classes == 2 else scores
    return labels_of(best, classlabels_ints, None), transformed(given, post_transform)
