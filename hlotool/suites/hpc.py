"""Numerical programs: stencils over many steps, Fourier transforms, sparse and dense linear algebra, n-body.

The kinds are those of Asanović et al. (The Landscape of Parallel Computing Research, 2006) that HLO can say.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlotool.suites.case import FULL, Case, Graph, Scale, headlines

__all__ = ["cases"]

SUITE = "hpc"
_HEADLINES = ("matmul-1024-f32", "jacobi-2d-1000-t100", "fft-2d-512", "sparse-100000x20", "n-body-1000-t1")


def cases(scale: Scale = FULL) -> list[Case]:
    return headlines(list(_cases(scale)), _HEADLINES)


def _cases(scale: Scale) -> Iterator[Case]:
    for element in ("f32", "f64"):
        for size in (512, 1024, 2048):
            yield _matmul(scale, element, size)
    yield _matmul(scale, "bf16", 1024)
    yield _int8(scale)
    yield from _stencils(scale)
    yield from _transforms(scale)
    yield from _sparse(scale)
    for size, steps in ((100, 10), (1000, 1), (2000, 1)):
        graph, bodies = Graph(), scale(size)
        places, speeds = (graph.argument((bodies, 3)) for _ in range(2))
        graph.add("n_body", places, speeds, graph.argument((bodies,), "positive"), steps=scale(steps))
        yield graph.case(SUITE, f"n-body-{size}-t{steps}")
    for size in (10_000, 10_000_000):
        graph = Graph()
        graph.add("black_scholes", *(graph.argument((scale(size),), "positive") for _ in range(3)))
        yield graph.case(SUITE, f"black-scholes-{size}")


def _matmul(scale: Scale, element: str, size: int) -> Case:
    graph, n = Graph(element), scale(size)
    graph.add("matmul", graph.argument((n, n)), graph.weights(n, n))
    return graph.case(SUITE, f"matmul-{size}-{element}")


def _int8(scale: Scale) -> Case:
    graph, n = Graph("s8"), scale(1024)
    graph.add("matmul_int8", graph.argument((n, n)), graph.argument((n, n)))
    return graph.case(SUITE, "matmul-1024-int8")


def _stencils(scale: Scale) -> Iterator[Case]:
    for name, operation, size, rank, steps in (
        ("jacobi-2d", "jacobi_2d", 100, 2, 100), ("jacobi-2d", "jacobi_2d", 1000, 2, 100),
        ("jacobi-2d", "jacobi_2d", 2000, 2, 10), ("heat-3d", "heat_3d", 32, 3, 100),
        ("heat-3d", "heat_3d", 100, 3, 20), ("heat-3d", "heat_3d", 256, 3, 5), ("wave-2d", "wave_2d", 500, 2, 100),
        ("conjugate-gradients", "conjugate_gradients", 500, 2, 50),
    ):  # fmt: skip
        graph = Graph()
        graph.add(operation, graph.argument([scale(size)] * rank), steps=scale(steps))
        yield graph.case(SUITE, f"{name}-{size}-t{steps}")


def _transforms(scale: Scale) -> Iterator[Case]:
    for name, shape, dimensions in (
        ("1d-1000x1024", (1000, 1024), 1), ("1d-1048576", (1 << 20,), 1), ("1d-1000x1000", (1000, 1000), 1),
        ("2d-512", (512, 512), 2), ("3d-64", (64, 64, 64), 3),
    ):  # fmt: skip
        graph = Graph()
        graph.add("fft", graph.argument(scale.all(*shape)), dimensions=dimensions)
        yield graph.case(SUITE, f"fft-{name}")
    graph = Graph()
    graph.add("poisson_fft", graph.argument(scale.all(512, 512)))
    yield graph.case(SUITE, "poisson-fft-512")


def _sparse(scale: Scale) -> Iterator[Case]:
    """Square matrices with so many numbers a row, at random columns, times a vector."""
    for size, each in ((1000, 10), (100_000, 20)):
        graph, rows = Graph(), scale(size)
        count = rows * scale(each)
        values, columns = graph.argument((count,)), graph.argument((count,), f"below {rows}", "s32")
        places = graph.argument((count,), f"sorted below {rows}", "s32")
        graph.add("sparse_product", values, columns, places, graph.argument((rows,)))
        yield graph.case(SUITE, f"sparse-{size}x{each}")
