"""What passes and kernels go by where several ways are right: the sizes from which on one costs less than another.

A module carries the numbers of the target that it is compiled for (`Module.costs`); the compiler driver gives them to
it ahead of the first pass, and code generation finds the same ones.  What is here by default is measured on x86-64
cores with 32 KB and 512 KB to 2 MB of caches of their own and vectors of 128 to 512 bits.
"""

from __future__ import annotations

from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.ir import Instruction, Module
from hlotool.lazy_dataclass import dataclass

__all__ = ["Costs", "costs_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Rows and columns are those of the result of a product, terms those of its sums."""

    places: Annotated[int, Threshold("places")] = 4  # at which a loop fusion may compute what it holds
    costly_places: Annotated[int, Threshold("places")] = 2  # at which it may compute what is expensive
    view_places: Annotated[int, Threshold("places")] = 8  # at which it may read what only moves elements
    largest_choice: Annotated[int, Threshold("elements")] = 1 << 16
    """Of a concatenation whose source a loop fusion chooses for each element."""

    row_bytes: Annotated[int, Threshold("bytes")] = 8 << 10
    """Most bytes of a row of which a task holds enough for a register tile."""
    repeated_bytes: Annotated[int, Threshold("bytes")] = 1 << 20
    """An operand that every block of whole rows reads again has to stay in a second-level cache."""
    prologues: bool = True
    """Kernels of products compute what makes their operands where they read them."""
    byte_rows: bool = True
    """Convolutions of bytes had better be dots, with a row for each pixel."""
    streams: Annotated[int, Threshold("arrays")] = 3  # that an epilogue of blocks may read and write
    streamed_bytes: Annotated[int, Threshold("bytes")] = 256 << 10  # of each, from which that holds
    streamed_terms: Annotated[int, Threshold("terms")] = 64
    """Blocks are short pieces of many rows, which memory is slow to deliver: so many arrays that are not in the caches
    anyway had better be read and written in a loop of their own over all of them in order (measured: Adam takes five
    times as long in blocks); or in whole rows, where sums have so few terms that the product is little work."""
    shared_rows: Annotated[int, Threshold("rows")] = 64  # enough for threads to share
    row_work: Annotated[int, Threshold("multiplications")] = 1 << 16
    """Threads share rows, and tiles of few rows are slow: there should be a row for every so many multiplications, or
    as many rows as that."""

    panel_columns: Annotated[int, Threshold("columns")] = 32  # of which panels are made
    turned_instructions: Annotated[int, Threshold("instructions")] = 16
    """That may be written out for each of the columns of a panel that are turned together."""
    shared_results: Annotated[int, Threshold("results")] = 64  # enough for threads to share
    alone_bytes: Annotated[int, Threshold("bytes")] = 256 << 10  # of an operand that need not be shared

    page_bytes: int = 4096
    """Rows of whole pages fall on the same sets of the caches."""
    rows_in_place: Annotated[int, Threshold("rows")] = 128  # up to which products read right operands where they lie
    rows_along: Annotated[int, Threshold("rows")] = 24  # the same for one that lies along the sum
    paged_rows: Annotated[int, Threshold("rows")] = 16  # the same for one whose rows are whole pages
    columns_in_place: Annotated[int, Threshold("columns")] = 200  # up to which others are read so by any number of rows
    terms_in_place: Annotated[int, Threshold("terms")] = 64  # up to which left operands are read where they lie

    def rows_read_in_place(self, pitch: int) -> int:
        """Rows up to which products read a right operand where it lies in rows, `pitch` bytes apart."""
        return self.paged_rows if pitch % self.page_bytes == 0 else self.rows_in_place


_USUAL = Costs()


def costs_of(instruction: Instruction) -> Costs:
    """The costs that the module of an instruction carries."""
    module: Module | None = None if instruction.parent is None else instruction.parent.module
    return module.costs if module is not None and isinstance(module.costs, Costs) else _USUAL
