"""Einstein's summation: `einsum`."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy

from hlotool.numpy import standard as np
from hlotool.numpy.array import Array
from hlotool.numpy.contractions import contracted
from hlotool.numpy.creation import diagonal_of
from hlotool.numpy.dtypes import kind_of
from hlotool.numpy.errors import value_error
from hlotool.numpy.operation import as_arrays, convert, operation

__all__ = ["einsum", "einsum_path"]


def einsum(*arguments: Any, optimize: Any = "greedy", **options: Any) -> Array:
    """Sums of products that letters name: ``einsum("ij,jk->ik", a, b)`` is a @ b.

    ``einsum(a, [0, 1], b, [1, 2], [0, 2])`` says the same.  Of three operands and more, pairs are multiplied in
    the order that NumPy's `einsum_path` finds, or that `optimize` is.
    """
    text, operands = _as_text(arguments)
    path = tuple(optimize) if isinstance(optimize, (list, tuple)) else optimize
    if isinstance(path, tuple):
        path = tuple(one if isinstance(one, str) else tuple(one) for one in path)
    return _einsum(operands, text, path, **options)


def einsum_path(*arguments: Any, optimize: Any = "greedy") -> tuple[list[Any], str]:
    """NumPy's: the order of the products, and a text about its cost."""
    text, operands = _as_text(arguments)
    stand_ins = [numpy.broadcast_to(numpy.float32(0), numpy.shape(one)) for one in operands]
    return numpy.einsum_path(text, *stand_ins, optimize=optimize)


def _as_text(arguments: Sequence[Any]) -> tuple[str, list[Any]]:
    if not arguments:
        raise value_error("einsum takes a text of subscripts and arrays")
    if isinstance(arguments[0], str):
        return arguments[0], list(arguments[1:])
    operands, lists = list(arguments[0 : len(arguments) // 2 * 2 : 2]), list(arguments[1::2])
    names: dict[Any, str] = {}
    numbers = sorted({one for each in (*lists, *arguments[len(operands) * 2 :]) for one in each if one is not Ellipsis})
    if len(numbers) > len(string.ascii_letters):
        raise value_error(f"einsum knows {len(string.ascii_letters)} subscripts, not {len(numbers)}")
    names = dict(zip(numbers, string.ascii_letters, strict=False))
    terms = ["".join("..." if one is Ellipsis else names[one] for one in each) for each in lists]
    text = ",".join(terms)
    if len(arguments) % 2:
        text += "->" + "".join("..." if one is Ellipsis else names[one] for one in arguments[-1])
    return text, operands


@operation("operands")
def _einsum(operands: Any, text: str, optimize: Any, dtype: Any = None, **unknown: Any) -> Array:
    """The body: subscripts are read, then the operands are joined pair by pair."""
    if unknown:
        raise value_error(f"einsum has no option {next(iter(unknown))!r}")
    arrays = list(as_arrays(*operands))
    if dtype is not None:
        arrays = [np.astype(one, dtype) for one in arrays]
    wanted = arrays[0].dtype
    if kind_of(wanted) == "pred":  # a sum of products is an or of ands
        arrays = [convert(one, numpy.dtype(numpy.int64)) for one in arrays]
    terms, output = _subscripts(text, [one.ndim for one in arrays])
    _check_sizes(text, terms, arrays, output)
    work = list(zip(arrays, terms, strict=True))
    for pair in _path(work, output, optimize):
        chosen = [work.pop(number) for number in sorted(pair, reverse=True)][::-1]
        rest = set(output).union(*[term for _, term in work])
        joined = _without(*chosen[0], rest.union(*[term for _, term in chosen[1:]]))
        for number in range(1, len(chosen)):
            later = rest.union(*[term for _, term in chosen[number + 1 :]])
            other = _without(*chosen[number], later | set(joined[1]))
            joined = _joined(joined, other, later)
        work.append(joined)
    value, term = _without(*work[0], set(output))
    value = np.permute_dims(value, tuple(term.index(one) for one in output))
    return value != 0 if kind_of(wanted) == "pred" else value


def _path(work: Sequence[tuple[Array, str]], output: str, optimize: Any) -> list[tuple[int, ...]]:
    if len(work) <= 2:
        return [tuple(range(len(work)))]
    if optimize is False:
        return [(0, 1), *((0, n) for n in range(len(work) - 2, 0, -1))]
    stand_ins = [numpy.broadcast_to(numpy.float32(0), value.shape) for value, _ in work]
    terms = [term for _, term in work]
    given = "greedy" if optimize is True else list(optimize) if isinstance(optimize, tuple) else optimize
    found, _ = numpy.einsum_path(",".join(terms) + "->" + output, *stand_ins, optimize=given)
    return [tuple(one) for one in found[1:]]


def _subscripts(text: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of every operand and of the result, with letters in the place of dots."""
    plain = text.replace(" ", "")
    inputs, arrow, output = plain.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ranks):
        raise value_error(f"einsum {text!r} has {len(terms)} terms for {len(ranks)} operands")
    free = [one for one in string.ascii_letters if one not in plain]
    lengths = [len(term.replace("...", "")) for term in terms]
    hidden = [n - m if "..." in term else 0 for term, n, m in zip(terms, ranks, lengths, strict=True)]
    most = max(hidden, default=0)
    if most > len(free):
        raise value_error(f"einsum {text!r} needs more than {len(string.ascii_letters)} subscripts")
    dots = "".join(free[:most])
    found = []
    for term, rank, count in zip(terms, ranks, hidden, strict=True):
        spelled = term.replace("...", dots[most - count :] if count > 0 else "", 1)
        if count < 0 or len(spelled) != rank or not all(one in string.ascii_letters for one in spelled):
            raise value_error(f"einsum {text!r}: {term!r} does not describe an array of {rank} dimensions")
        found.append(spelled)
    if arrow:
        result = output.replace("...", dots, 1)
    else:
        counts = Counter("".join(found))
        result = dots + "".join(sorted(one for one, count in counts.items() if count == 1 and one not in dots))
    known = set("".join(found))
    if len(set(result)) != len(result) or not set(result) <= known:
        raise value_error(f"einsum {text!r}: the result {output!r} has subscripts twice, or that no operand has")
    return found, result


def _check_sizes(text: str, terms: Sequence[str], arrays: Sequence[Array], output: str) -> None:
    sizes: dict[str, int] = {}
    for term, value in zip(terms, arrays, strict=True):
        for letter, size in zip(term, value.shape, strict=True):
            if sizes.setdefault(letter, size) == 1:
                sizes[letter] = size
            elif size not in (1, sizes[letter]):
                raise value_error(f"einsum {text!r}: subscript {letter} is {sizes[letter]} long, and {size}")


def _without(value: Array, term: str, kept: set[str]) -> tuple[Array, str]:
    """Diagonals of subscripts that come twice, and sums over those that nothing else has."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            first = term.index(letter)
            second = term.index(letter, first + 1)
            moved = np.moveaxis(value, (first, second), (-2, -1))
            rest = "".join(one for n, one in enumerate(term) if n not in (first, second))
            value, term = _diagonal(moved), rest + letter
    lost = tuple(n for n, letter in enumerate(term) if letter not in kept)
    if lost:
        value = np.sum(value, axis=lost, dtype=value.dtype)
        term = "".join(letter for letter in term if letter in kept)
    return value, term


def _diagonal(value: Array) -> Array:
    rows, columns = value.shape[-2:]
    if rows != columns:  # one of them is 1, and goes with every element of the other
        return value[..., 0, :] if rows == 1 else value[..., 0]
    return diagonal_of(value, 0)


def _joined(one: tuple[Array, str], other: tuple[Array, str], later: set[str]) -> tuple[Array, str]:
    """The product of two operands, summed over what nothing after it has."""
    a, left = _squeezed(*one, other[1], other[0])
    b, right = _squeezed(*other, left, a)
    common = [letter for letter in left if letter in right]
    summed = [letter for letter in common if letter not in later]
    if not summed:
        return _multiplied(a, left, b, right)
    batch = [letter for letter in common if letter in later]
    places = [[term.index(letter) for letter in letters] for letters in (summed, batch) for term in (left, right)]
    made = contracted(a, b, (places[0], places[1]), (places[2], places[3]))
    term = "".join(batch) + "".join(n for n in left if n not in common) + "".join(n for n in right if n not in common)
    return made, term


def _squeezed(value: Array, term: str, others: str, other: Array) -> tuple[Array, str]:
    """Without dimensions of 1 that meet longer ones."""
    lost = tuple(
        n for n, letter in enumerate(term)
        if value.shape[n] == 1 and letter in others and other.shape[others.index(letter)] != 1
    )  # fmt: skip
    kept = "".join(letter for n, letter in enumerate(term) if n not in lost)
    return (np.squeeze(value, axis=lost), kept) if lost else (value, term)


def _multiplied(a: Array, left: str, b: Array, right: str) -> tuple[Array, str]:
    """Element by element."""
    term = left + "".join(letter for letter in right if letter not in left)
    a = np.reshape(a, (*a.shape, *(1,) * (len(term) - len(left))))
    present = [letter for letter in term if letter in right]
    b = np.permute_dims(b, tuple(right.index(letter) for letter in present))
    sizes = iter(b.shape)
    b = np.reshape(b, tuple(next(sizes) if letter in right else 1 for letter in term))
    return a * b, term
