"""``hlotool.vmap``: a function of an example as a function of many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any

from hlotool.ir import Shape, array
from hlotool.numpy.array import Array
from hlotool.numpy.errors import type_error, value_error
from hlotool.numpy.jit import jit
from hlotool.numpy.operation import call_module
from hlotool.numpy.pytree import LEAF, Structure, describe, flatten, leaf_paths, unflatten
from hlotool.numpy.trace import Weak, shape_of, trace

__all__ = ["vmap"]

_NONE = (type(None), None)


def vmap(function: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """A function that does for many examples at once what `function` does for one.

    `in_axes` says where the examples are in the arrays of the arguments: a dimension (negative: from the end), None for
    what all examples share, or a tuple of such for each argument, in which a container of the form of the argument, or
    of its upper part, may stand for one.  What is passed by name has its examples in front.  `out_axes` says where they
    go in the results, in the same way; None is for results that are the same for all examples.

    The function sees the arrays of one example.  It is traced once for each kind of arguments, as by `jit`, and its
    program is batched, instruction by instruction: `while_loop` runs until the last example is done, `cond` on a value
    of an example becomes a selection.  It can be batched, differentiated and compiled again.
    """
    if not callable(function):
        raise type_error(f"vmap takes a function, not a {type(function).__name__}")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not (in_axes is None or isinstance(in_axes, (int, tuple))) or isinstance(in_axes, bool):
        raise type_error(f"in_axes: expected a number, None or a tuple for the arguments, not {in_axes!r}")

    @wraps(function, updated=())  # a function may be an object with attributes of its own, such as what jit gives
    def batched(*arguments: Any, **options: Any) -> Any:
        from hlotool.passes.batching.batch import batch_module, batched_results  # which few programs need

        if isinstance(in_axes, tuple) and len(in_axes) != len(arguments):
            raise value_error(f"in_axes is for {len(in_axes)} arguments, {len(arguments)} were given by position")
        leaves, structure = flatten((arguments, options))
        by_position = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(arguments)
        axes = [*_spread("in_axes", by_position, structure[2]), *_spread("in_axes", 0, structure[3])]
        paths = [*leaf_paths(structure[2], "arguments"), *leaf_paths(structure[3], "options")]
        ranks = [shape_of(leaf).rank for leaf in leaves]
        axes = [_place("in_axes", *row) for row in zip(axes, ranks, paths, strict=True)]
        size = _size(axes, leaves, paths)
        examples = [_example(leaf, axis) for leaf, axis in zip(leaves, axes, strict=True)]
        own_arguments, own_options = unflatten(structure, examples)
        traced = trace(lambda given, named: function(*given, **named), own_arguments, own_options, name=_name(function))
        given = [*axes, *[None] * len(traced.captured)]
        module = traced.module()
        results = [leaf.rank for leaf in module.entry.root.shape.elements]
        wanted = _spread("out_axes", out_axes, traced.structure)
        out_paths = leaf_paths(traced.structure, "result")
        places: list[int | None] = []
        rows = zip(wanted, results, out_paths, batched_results(module, given), strict=True)
        for axis, rank, path, differs in rows:
            if axis is None and differs:
                raise value_error(
                    f"out_axes is None for {path}, which differs from example to example",
                    "say where its examples go, or reduce over them",
                )
            places.append(_place("out_axes", axis, rank + 1, path))
        batch_module(module, size, given, places)
        return unflatten(traced.structure, call_module(module, [*leaves, *traced.captured]))

    return jit(batched)  # type: ignore[no-any-return]


def _name(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", "function")
    return "".join(c if c.isalnum() else "_" for c in name).strip("_") or "function"


def _spread(what: str, axes: Any, structure: Structure) -> list[int | None]:
    """An axis for each leaf; one that stands for a container is that of all leaves in it."""
    return list(_spread_over(what, axes, structure))


def _spread_over(what: str, axes: Any, structure: Structure) -> Iterator[int | None]:
    if axes is None or (isinstance(axes, int) and not isinstance(axes, bool)):
        yield from [axes] * len(leaf_paths(structure))
        return
    children = _children(axes, structure)
    if children is None:
        hint = "give a number, None, or a tree of its form"
        raise value_error(f"{what} has {axes!r} for {describe(structure)}", hint)
    for one, inside in zip(children, structure[2:], strict=True):
        yield from _spread_over(what, one, inside)


def _children(axes: Any, structure: Structure) -> Sequence[Any] | None:
    """The parts of a tree of axes for the children of a structure, where they have one form; else None."""
    if structure in (LEAF, _NONE):
        return None
    kind, fixed, *inside = structure
    if kind is dict:
        return [axes[key] for key in fixed] if isinstance(axes, dict) and set(axes) == set(fixed) else None
    if is_dataclass(kind):
        dynamic = [field.name for field in fields(kind) if not field.metadata.get("static")]
        return [getattr(axes, name) for name in dynamic] if type(axes) is kind else None
    if isinstance(axes, (list, tuple)) and issubclass(kind, (list, tuple)):
        return axes if len(axes) == len(inside) else None
    return None


def _place(what: str, axis: int | None, rank: int, path: str) -> int | None:
    """An axis counted from the front, of an array of so many dimensions with that of the examples."""
    if axis is None:
        return None
    if not -rank <= axis < rank:
        words = f"{rank} dimension{'' if rank == 1 else 's'}"
        hint = "None is for what all examples share" if what == "in_axes" else None
        raise value_error(f"{what}: {path} has {words}, and no axis {axis}", hint)
    return axis % rank


def _size(axes: Sequence[int | None], leaves: Sequence[Any], paths: Sequence[str]) -> int:
    """How many examples there are."""
    found = {
        path: shape_of(leaf).dimensions[axis]
        for axis, leaf, path in zip(axes, leaves, paths, strict=True) if axis is not None
    }  # fmt: skip
    sizes = set(found.values())
    if not sizes:
        raise value_error("no argument has examples: in_axes must be a number for one array at least")
    if len(sizes) > 1:
        first = next(iter(found))
        other = next(path for path, size in found.items() if size != found[first])
        raise value_error(f"{first} has {found[first]} examples, and {other} has {found[other]}")
    (size,) = sizes
    if size == 0:
        raise value_error("there are no examples: the arrays are empty")
    return size


def _example(leaf: Any, axis: int | None) -> Shape | Weak:
    """What stands for an array of one example."""
    shape = shape_of(leaf)
    if axis is not None:
        sizes = shape.dimensions
        return array(shape.element_type, (*sizes[:axis], *sizes[axis + 1 :]))
    weak = leaf._weak if isinstance(leaf, Array) else isinstance(leaf, (bool, int, float, complex))
    return Weak(shape) if weak else shape
