"""Programs that are mostly overhead, or of operations that have been slow on XLA's CPU backend: loops of small steps,
chains of small products, running sums, sorts, scatters, gathers, transposes, long elementwise chains.

Each is of a kind that issues of the projects openxla/xla and jax-ml/jax complain about.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlotool.suites.case import FULL, Case, Graph, Scale, headlines

__all__ = ["cases"]

SUITE = "xla-small"
_HEADLINES = (
    "loop-100-of-16x16", "running-sum-100000", "sort-100000", "scatter-add-10000", "chain-1000000",
    "products-10000-of-3x3",
)  # fmt: skip


def cases(scale: Scale = FULL) -> list[Case]:
    return headlines(list(_cases(scale)), _HEADLINES)


def _cases(scale: Scale) -> Iterator[Case]:
    yield from _dispatch(scale)
    yield from _elementwise(scale)
    yield from _rows(scale)
    yield from _sparse(scale)


def _one(scale: Scale, name: str, operation: str, *shapes: tuple[int, ...], **attributes: object) -> Case:
    """An operation on normal numbers."""
    graph = Graph()
    graph.add(operation, *(graph.argument(scale.all(*shape)) for shape in shapes), **attributes)
    return graph.case(SUITE, name)


def _dispatch(scale: Scale) -> Iterator[Case]:
    yield _one(scale, "add-8", "add", (8,), (8,))
    yield _one(scale, "matmul-4x4", "matmul", (4, 4), (4, 4))
    for steps in (10, 100, 1000):
        for kind, operation in (("loop", "small_layers"), ("unrolled", "small_layers_unrolled")):
            if kind == "loop" or steps < 1000:
                graph, width = Graph(), scale(16)
                x = graph.argument((scale(16), width))
                w, b = graph.weights(width, width), graph.argument((width,))
                graph.add(operation, x, w, b, steps=scale(steps))
                yield graph.case(SUITE, f"{kind}-{steps}-of-16x16")
    yield _one(scale, "averages-1000x8", "averages", (1000, 8))
    yield _one(scale, "averages-100x1000", "averages", (100, 1000))
    yield _one(scale, "products-10000-of-3x3", "matmul", (10000, 3, 3), (10000, 3, 3))
    yield _one(scale, "products-1000-of-4-by-vectors", "matmul", (1000, 4, 4), (1000, 4, 1))
    yield _one(scale, "product-1x1000-by-1000x3", "matmul", (1, 1000), (1000, 3))


def _elementwise(scale: Scale) -> Iterator[Case]:
    for size in (1000, 1_000_000):
        yield _one(scale, f"chain-{size}", "long_chain", (size,), (size,))
        yield _one(scale, f"three-x-squared-mean-{size}", "three_x_squared_mean", (size,), (size,))
        yield _one(scale, f"tanh-{size}", "tanh", (size,))
    for size in (100, 100_000):
        graph = Graph()
        graph.add("black_scholes", *(graph.argument((scale(size),), "positive") for _ in range(3)))
        yield graph.case(SUITE, f"black-scholes-{size}")


def _rows(scale: Scale) -> Iterator[Case]:
    yield _one(scale, "running-sum-100000", "running_sum", (100_000,), axis=0)
    yield _one(scale, "running-sum-1000x100", "running_sum", (1000, 100), axis=0)
    yield _one(scale, "sum-of-columns-1000x1000", "sum_over", (1000, 1000), axis=0)
    yield _one(scale, "sum-of-rows-1000x1000", "sum_over", (1000, 1000), axis=1)
    yield _one(scale, "sum-of-middle-100x100x100", "sum_over", (100, 100, 100), axis=1)
    yield _one(scale, "softmax-1000x1000", "softmax", (1000, 1000))
    yield _one(scale, "softmax-10x10", "softmax", (10, 10))
    yield _one(scale, "largest-place-1000x1000", "largest_place", (1000, 1000))
    yield _one(scale, "sort-100000", "sorted_rows", (100_000,))
    yield _one(scale, "sort-1000x100", "sorted_rows", (1000, 100))
    yield _one(scale, "transpose-1000x1000", "transpose", (1000, 1000), order=[1, 0])
    yield _one(scale, "transpose-64x32x64x32", "transpose", (64, 32, 64, 32), order=[0, 2, 3, 1])


def _sparse(scale: Scale) -> Iterator[Case]:
    for size, width in ((10_000, 1), (10_000, 64)):
        graph, rows = Graph(), scale(size)
        places = graph.argument((rows,), f"below {rows}", "s32")
        tail = (scale(width),) if width > 1 else ()
        graph.add("scatter_add", graph.argument((rows, *tail)), places, graph.argument((rows, *tail)))
        yield graph.case(SUITE, f"scatter-add-{size}{f'x{width}' if width > 1 else ''}")
        graph = Graph()
        places = graph.argument((rows,), f"below {rows}", "s32")
        graph.add("take_rows", graph.argument((rows, *tail)), places)
        yield graph.case(SUITE, f"gather-{size}{f'x{width}' if width > 1 else ''}")
    graph, rows = Graph(), scale(10_000)
    table, places = graph.argument((rows, scale(64))), graph.argument((scale(256), scale(20)), f"below {rows}", "s32")
    graph.add("bag", table, places)
    yield graph.case(SUITE, "bag-256x20-of-64")
