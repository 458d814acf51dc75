"""Ensembles of trees: every row walks down all trees at once, as deep as the deepest of them is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

import hlotool.numpy as np
from hlotool.lazy_dataclass import dataclass
from hlotool.numpy.array import Array
from hlotool.onnx.lowering import ML, Context, Refused, lowering
from hlotool.onnx.ops.linear import labels_of, transformed
from hlotool.onnx.ops.pieces import constant, number

__all__: list[str] = []

Ints = numpy.ndarray[Any, Any]

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Forest:
    """Nodes of all trees, by number; a leaf is its own child.

    `weights` are what each leaf adds to each target: [nodes, targets].  `modes` are numbers of `_MODES`.
    """

    roots: Ints
    feature: Ints
    threshold: Ints
    modes: Ints
    yes: Ints
    no: Ints
    missing: Ints
    weights: Ints
    depth: int


def _depth(roots: Ints, yes: Ints, no: Ints) -> int:
    """Steps from a root to the deepest leaf; Refused where nodes are in a circle."""
    level, depth = set(roots.tolist()), 0
    while True:
        below = {int(one[n]) for n in level for one in (yes, no) if one[n] != n}
        if not below:
            return depth
        depth += 1
        if depth > len(yes):
            raise Refused("nodes of a tree in a circle")
        level = below


def _leaves(x: Array, forest: _Forest) -> Array:
    """The leaf of each row in each tree: [rows, trees]."""
    from hlotool.numpy.control import fori_loop

    rows, kinds = x.shape[0], sorted(set(forest.modes[forest.yes != numpy.arange(len(forest.yes))].tolist()))
    feature, threshold = constant(forest.feature), constant(forest.threshold, x.dtype)
    yes, no, modes = constant(forest.yes), constant(forest.no), constant(forest.modes)
    missing = constant(forest.missing)
    lines = constant(numpy.arange(rows).reshape(-1, 1))
    tests: dict[int, Any] = {
        0: lambda a, b: a <= b, 1: lambda a, b: a < b, 2: lambda a, b: a >= b, 3: lambda a, b: a > b,
        4: lambda a, b: a == b, 5: lambda a, b: a != b,
    }  # fmt: skip

    def step(turn: Any, place: Any) -> Any:
        value, limit = x[lines, np.take(feature, place)], np.take(threshold, place)
        kind = np.take(modes, place)
        goes: Any = np.zeros(place.shape, bool)
        for one in kinds:
            goes = np.where(kind == number(one, kind), tests[one](value, limit), goes)
        goes = np.logical_or(goes, np.logical_and(np.isnan(value), np.take(missing, place)))
        return np.where(goes, np.take(yes, place), np.take(no, place))

    begin = np.broadcast_to(constant(forest.roots.reshape(1, -1)), (rows, len(forest.roots)))
    return fori_loop(0, forest.depth, step, begin) if forest.depth else begin


def _totals(x: Array, forest: _Forest, how: str) -> Array:
    """The sums (or the means, least or greatest) of what leaves add: [rows, targets]."""
    values = np.take(constant(forest.weights), _leaves(x, forest), axis=0)
    if how in ("MIN", "MAX"):
        return (np.min if how == "MIN" else np.max)(values, axis=1)
    total = np.sum(values, axis=1)
    return total / number(len(forest.roots), total) if how == "AVERAGE" else total


def _old_forest(
    given: dict[str, Any], leaves: tuple[str, str, str, str], targets: int, kind: Any
) -> _Forest:
    """The forest of TreeEnsembleRegressor and TreeEnsembleClassifier, whose nodes have numbers in their trees."""
    trees, ids = given.get("nodes_treeids", ()), given.get("nodes_nodeids", ())
    place = {key: n for n, key in enumerate(zip(trees, ids, strict=True))}
    count = len(place)
    names = given.get("nodes_modes", ())
    if any(one not in (*_MODES, "LEAF") for one in names):
        raise Refused("modes of nodes that are unknown")
    modes = numpy.asarray([_MODES.index(one) if one != "LEAF" else 0 for one in names], numpy.int64)
    own = numpy.arange(count)
    yes, no = own.copy(), own.copy()
    for n, mode in enumerate(names):
        if mode != "LEAF":
            try:
                yes[n] = place[trees[n], given["nodes_truenodeids"][n]]
                no[n] = place[trees[n], given["nodes_falsenodeids"][n]]
            except KeyError as error:
                raise Refused(f"node {ids[n]} of tree {trees[n]}, whose branches lead to no node") from error
    weights = numpy.zeros((count, targets), kind)
    for tree, node, target, weight in zip(*(given.get(one, ()) for one in leaves), strict=True):
        weights[place[tree, node], target] += weight
    children = set(yes[yes != own].tolist()) | set(no[no != own].tolist())
    roots = numpy.asarray([n for n in range(count) if n not in children], numpy.int64)
    missing = given.get("nodes_missing_value_tracks_true") or (0,) * count
    values = given.get("nodes_values_as_tensor")
    return _Forest(
        roots=roots, feature=numpy.asarray(given.get("nodes_featureids", ()), numpy.int64),
        threshold=numpy.asarray(given.get("nodes_values", ()) if values is None else values),
        modes=modes, yes=yes, no=no, missing=numpy.asarray(missing, bool), weights=weights,
        depth=_depth(roots, yes, no),
    )  # fmt: skip


def _base(total: Array, given: dict[str, Any]) -> Array:
    base = given.get("base_values_as_tensor")
    base = given.get("base_values") if base is None else base
    return total if base is None or not len(base) else total + constant(numpy.asarray(base, total.dtype))


def _input(x: Array) -> Array:
    return x if x.dtype.kind == "f" else np.astype(x, numpy.float32)


@lowering("TreeEnsembleRegressor", domain=ML)
def tree_ensemble_regressor(c: Context, x: Array, **given: Any) -> Array:
    wide = _input(x)
    names = ("target_treeids", "target_nodeids", "target_ids", "target_weights")
    forest = _old_forest(given, names, given.get("n_targets", 1), numpy.float32)
    total = _totals(wide, forest, given.get("aggregate_function", "SUM"))
    return transformed(np.astype(_base(total, given), numpy.float32), given.get("post_transform", "NONE"))


@lowering("TreeEnsembleClassifier", domain=ML)
def tree_ensemble_classifier(c: Context, x: Array, **given: Any) -> tuple[Array, Array]:
    integers: Sequence[int] = given.get("classlabels_int64s", ())
    if given.get("classlabels_strings"):
        raise Refused("labels that are strings")
    names = ("class_treeids", "class_nodeids", "class_ids", "class_weights")
    forest = _old_forest(given, names, max(len(integers), 1), numpy.float32)
    total = _base(_totals(_input(x), forest, "SUM"), given)
    kind = given.get("post_transform", "NONE")
    if len(integers) == 2 and len(set(given.get("class_ids", ()))) == 1:  # weights of one class stand for both
        own = total[:, max(set(given["class_ids"]))]
        if kind == "LOGISTIC":
            chance = transformed(own, kind)
            pair = [number(1, chance) - chance, chance]
            best = chance > number(0.5, chance)
        else:
            pair, best = [number(1, own) - own, own], own > number(0.5, own)
        return labels_of(np.astype(best, numpy.int64), integers, None), np.stack(pair, axis=1)
    return labels_of(np.argmax(total, axis=1), integers, None), transformed(total, kind)


@lowering("TreeEnsemble", domain=ML, since=5)
def tree_ensemble(c: Context, x: Array, **given: Any) -> Array:
    """Inner nodes and leaves have numbers of their own; sets that a feature may be in are chains of tests."""
    modes, splits = numpy.asarray(given["nodes_modes"]), numpy.asarray(given["nodes_splits"])
    inner, leaves = len(modes), len(given["leaf_weights"])
    sets = _members(numpy.asarray(given.get("membership_values", ())), int((modes == 6).sum()))
    wide, targets = _input(x), given.get("n_targets", 1)
    rows = _Rows(inner + leaves + sum(max(0, len(one) - 1) for one in sets), targets, splits.dtype)
    yes_leaf, no_leaf = given["nodes_trueleafs"], given["nodes_falseleafs"]
    tracks = given.get("nodes_missing_value_tracks_true") or (0,) * inner
    extra = inner + leaves
    pending = iter(sets)
    for n in range(inner):
        yes = given["nodes_truenodeids"][n] + (inner if yes_leaf[n] else 0)
        no = given["nodes_falsenodeids"][n] + (inner if no_leaf[n] else 0)
        feature, track = given["nodes_featureids"][n], bool(tracks[n])
        if modes[n] != 6:
            rows.set(n, feature, splits[n], int(modes[n]), yes, no, track)
            continue
        here = n
        values = next(pending)
        for number_, value in enumerate(values):
            last = number_ == len(values) - 1
            rows.set(here, feature, value, 4, yes, no if last else extra, track)
            here, extra = extra, extra + (not last)
    for n in range(leaves):
        rows.weights[inner + n, given["leaf_targetids"][n]] += given["leaf_weights"][n]
    roots = numpy.asarray(given["tree_roots"], numpy.int64)
    roots = roots if inner else roots + inner
    forest = rows.forest(roots)
    how = ("AVERAGE", "SUM", "MIN", "MAX")[given.get("aggregate_function", 1)]
    kinds = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    return transformed(_totals(wide, forest, how), kinds[given.get("post_transform", 0)])


def _members(values: Ints, count: int) -> list[list[Any]]:
    """The sets in order, which nan separates."""
    found: list[list[Any]] = [[]]
    for one in values:
        if numpy.isnan(one):
            found.append([])
        else:
            found[-1].append(one)
    return found[:count]


class _Rows:
    """Nodes of a forest while it is read."""

    def __init__(self, count: int, targets: int, kind: Any) -> None:
        own = numpy.arange(count)
        self.feature, self.modes = numpy.zeros(count, numpy.int64), numpy.zeros(count, numpy.int64)
        self.threshold, self.missing = numpy.zeros(count, kind), numpy.zeros(count, bool)
        self.yes, self.no = own.copy(), own.copy()
        self.weights = numpy.zeros((count, targets), kind)

    def set(self, n: int, feature: int, value: Any, mode: int, yes: int, no: int, missing: bool) -> None:
        self.feature[n], self.threshold[n], self.modes[n] = feature, value, mode
        self.yes[n], self.no[n], self.missing[n] = yes, no, missing

    def forest(self, roots: Ints) -> _Forest:
        return _Forest(
            roots=roots, feature=self.feature, threshold=self.threshold, modes=self.modes, yes=self.yes, no=self.no,
            missing=self.missing, weights=self.weights, depth=_depth(roots, self.yes, self.no),
        )  # fmt: skip
