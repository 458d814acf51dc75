"""What a kernel's code may be told in the place of the formulas that decide usually: tiles, packing, unrolling...

A *knob* is a field of `Choices` with its legal values; None leaves the formula to decide.  Any legal value of any knob
gives right numbers, and one that does not fit a kernel changes nothing.  `hlotool.codegen.configured` says how
instructions carry them, and `hlotool.harness.tune` looks for good ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Annotated, get_args, get_type_hints

from hlotool.lazy_dataclass import dataclass

__all__ = ["FORMULAS", "MEANING", "Choices", "Knob", "knobs"]

MEANING = 2
"""Counts changes of what knobs mean: what was measured before one says nothing any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """The legal values of a field, what they count, and the kinds of kernels that it is for: ``product`` (of matrices,
    and convolutions), ``loop`` (fusions, single instructions), ``sort``.

    One that changes `sums` has floats added up in another order, so that results differ in their last bits.
    """

    values: tuple[int, ...]
    unit: str
    of: tuple[str, ...]
    sums: bool = False


_PRODUCT, _LOOP, _ANY = ("product",), ("loop",), ("product", "loop", "sort")
_YES_NO = (0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What is decided for a kernel."""

    vector_bits: Annotated[int | None, Knob(values=(128, 256, 512), unit="bits", of=(*_PRODUCT, *_LOOP), sums=True)] = (
        None
    )
    """Of its vectors, no more than the processor has."""
    second_level: Annotated[
        int | None,
        Knob(
            values=tuple(n << 10 for n in (256, 512, 1024, 1536, 2048, 3072, 4096, 8192)), unit="bytes", of=_PRODUCT,
            sums=True,
        ),
    ] = None
    """Bytes that the second-level cache is taken to have: of panels that stay there, and of blocks of terms."""
    tile_rows: Annotated[int | None, Knob(values=tuple(range(1, 29)), unit="rows", of=_PRODUCT, sums=True)] = None
    """Of a tile in vector registers."""
    tile_vectors: Annotated[int | None, Knob(values=(1, 2, 3, 4), unit="vectors", of=_PRODUCT, sums=True)] = None
    """Of each row of a tile."""
    block_rows: Annotated[
        int | None, Knob(values=(28, 56, 84, 112, 128, 168, 224, 448, 896), unit="rows", of=_PRODUCT)
    ] = None
    """About as many of the left operand as a task takes together."""
    block_columns: Annotated[int | None, Knob(values=(64, 128, 256, 512, 1024), unit="columns", of=_PRODUCT)] = None
    """That a task takes together."""
    rows_once: Annotated[int | None, Knob(values=_YES_NO, unit="yes or no", of=_PRODUCT)] = None
    """Whether tasks follow one another that have the same rows, which are read once then, rather than the same
    columns."""
    terms: Annotated[int | None, Knob(values=(64, 128, 256, 512, 1024), unit="terms", of=_PRODUCT, sums=True)] = None
    """Of a sum that a task does at a time, if it can keep sums unrounded meanwhile."""
    task_flops: Annotated[
        int | None, Knob(values=tuple(n * 100_000 for n in (1, 4, 8, 30, 60, 240, 1000)), unit="flops", of=_PRODUCT)
    ] = None
    """Of a task of a product."""
    block_bytes: Annotated[
        int | None, Knob(values=tuple(n << 10 for n in (4, 8, 32, 64, 256)), unit="bytes", of=_PRODUCT)
    ] = None
    """Of the result that a task keeps for an epilogue."""
    pack_left: Annotated[int | None, Knob(values=_YES_NO, unit="yes or no", of=_PRODUCT)] = None
    """Whether the left operand is copied to where it is read quicker."""
    pack_right: Annotated[int | None, Knob(values=_YES_NO, unit="yes or no", of=_PRODUCT, sums=True)] = None
    """Whether the right operand is copied to panels, where it could be read in place."""
    own_panels: Annotated[int | None, Knob(values=_YES_NO, unit="yes or no", of=_PRODUCT, sums=True)] = None
    """Whether tasks pack the panels that they use, rather than a step ahead of all tasks."""
    fetch_terms: Annotated[int | None, Knob(values=(0, 4, 8, 16, 32, 64, 96), unit="terms", of=_PRODUCT)] = None
    """How far ahead the right operand is fetched, or both where they are split; 0: not at all."""
    steps: Annotated[int | None, Knob(values=(1, 2, 4, 8), unit="terms", of=_PRODUCT)] = None
    """Of a sum in a turn of the innermost loop of a product, as far as they divide its length."""
    split_f32: Annotated[int | None, Knob(values=_YES_NO, unit="yes or no", of=_PRODUCT, sums=True)] = None
    """Whether f32 numbers are multiplied as sums of three bf16 numbers, where the processor has tile registers."""
    split_group: Annotated[int | None, Knob(values=(1, 2, 4, 8, 16), unit="blocks", of=_PRODUCT)] = None
    """Of 32 columns that a task splits, or multiplies, together, whatever caches hold."""
    split_rows: Annotated[int | None, Knob(values=(1, 2, 3, 4, 6, 8), unit="tiles", of=_PRODUCT)] = None
    """Of rows of a task of a convolution on tile registers."""
    split_tasks: Annotated[int | None, Knob(values=(2, 4, 8, 16, 32, 64), unit="tasks", of=_PRODUCT)] = None
    """That a convolution on tile registers has at least, if there are so many tiles."""
    split_copies: Annotated[int | None, Knob(values=(2, 4, 8, 16, 32, 64, 128), unit="tasks", of=_PRODUCT)] = None
    """Of the copy of the input of such a convolution."""
    updates: Annotated[int | None, Knob(values=_YES_NO, unit="yes or no", of=_PRODUCT, sums=True)] = None
    """Whether a product of few rows is made by updates of the whole result, which read the right operand once."""
    along_line: Annotated[int | None, Knob(values=_YES_NO, unit="yes or no", of=_PRODUCT, sums=True)] = None
    """Whether vectors of a convolution run along pixels, where they can, rather than along features."""
    leave_out: Annotated[int | None, Knob(values=_YES_NO, unit="yes or no", of=_PRODUCT, sums=True)] = None
    """Whether tiles leave out what windows have outside of the input, rather than reading a padded copy."""
    vectors: Annotated[int | None, Knob(values=(1, 2, 4, 8), unit="vectors", of=(*_LOOP, *_PRODUCT), sums=True)] = (
        None
    )
    """Of a trip of a loop over elements."""
    lane: Annotated[int | None, Knob(values=(0, 1, 2), unit="place", of=_LOOP, sums=True)] = None
    """Which loop becomes the one with vectors: the best by the estimate, or the second or third best."""
    tiled: Annotated[int | None, Knob(values=_YES_NO, unit="yes or no", of=_LOOP)] = None
    """Whether squares of elements are transposed in registers, where loads do not lie along vectors."""
    keep_rows: Annotated[int | None, Knob(values=_YES_NO, unit="yes or no", of=_LOOP)] = None
    """Whether a row that is costly to compute is kept for the next pass over it."""
    parts: Annotated[int | None, Knob(values=(1, 2, 4, 8, 16, 32, 64), unit="parts", of=_LOOP, sums=True)] = None
    """In which a reduction is done, if it can be divided so often."""
    past_caches: Annotated[int | None, Knob(values=_YES_NO, unit="yes or no", of=_LOOP)] = None
    """Whether large results are written past the caches."""
    fetch_bytes: Annotated[
        int | None, Knob(values=(256, 512, 1024, 2048, 4096, 8192, 16_384), unit="bytes", of=_LOOP)
    ] = None
    """How far ahead of loads from memory the next ones are fetched."""
    stage_cycles: Annotated[int | None, Knob(values=(36, 48, 72, 108, 144, 1 << 20), unit="cycles", of=_LOOP)] = None
    """Of work on a vector that a stage of a long computation may have."""
    stage_elements: Annotated[int | None, Knob(values=(256, 512, 1024, 2048), unit="elements", of=_LOOP)] = None
    """That go through one stage before the next."""
    task_ns: Annotated[
        int | None,
        Knob(values=tuple(n * 1000 for n in (1, 2, 4, 8, 16, 32, 128, 1000, 16_000)), unit="nanoseconds", of=_LOOP),
    ] = None
    """That a task of a loop should take, by the estimate."""
    digit_bits: Annotated[int | None, Knob(values=(8, 11), unit="bits", of=("sort",))] = None
    """Of the key that one pass of a radix sort goes by."""
    threads: Annotated[int | None, Knob(values=_YES_NO, unit="yes or no", of=_ANY)] = None
    """Whether threads share a kernel that has several tasks."""

    @property
    def given(self) -> dict[str, int]:
        """The knobs that are not left to formulas, and their values."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in values if value is not None}

    def text(self) -> str:
        """``tile_rows=6 tile_vectors=4``; ``formulas`` where all is left to those."""
        return " ".join(f"{name}={value}" for name, value in self.given.items()) or "formulas"


FORMULAS = Choices()


@cache
def knobs() -> Mapping[str, Knob]:
    """All knobs by name, in the order of the fields."""
    hints = get_type_hints(Choices, include_extras=True)
    parts = {field.name: get_args(hints[field.name]) for field in fields(Choices)}
    return {name: next(part for part in found if isinstance(part, Knob)) for name, found in parts.items()}
