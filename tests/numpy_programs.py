"""Small programs as users of NumPy write them: functions of a namespace, and of arrays in it.

Those in `EAGER` look at values (``if``, sizes that depend on elements), and cannot be traced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

RANDOM = numpy.random.default_rng(7)
POINTS = RANDOM.normal(size=(40, 2)) + numpy.repeat(numpy.array([[0.0, 0.0], [5.0, 5.0]]), 20, axis=0)
MATRIX = RANDOM.normal(size=(6, 6)) + 6 * numpy.eye(6)
IMAGE = RANDOM.uniform(size=(12, 10))
SERIES = numpy.cumsum(RANDOM.normal(size=64))
LABELS = RANDOM.integers(0, 4, 30)
VALUES = RANDOM.normal(size=30)
BOARD = (RANDOM.uniform(size=(10, 12)) > 0.6).astype(numpy.int64)

Program = Callable[..., Any]
PROGRAMS: dict[str, tuple[Program, tuple[Any, ...]]] = {}
EAGER: set[str] = set()


def program(*inputs: Any, eager: bool = False) -> Callable[[Program], Program]:
    def known(function: Program) -> Program:
        PROGRAMS[function.__name__] = function, inputs
        if eager:
            EAGER.add(function.__name__)
        return function

    return known


@program(POINTS)
def k_means(np: Any, points: Any) -> Any:
    centers = points[[0, -1]].copy()
    for _ in range(4):
        apart = np.sqrt(((points[:, None, :] - centers[None]) ** 2).sum(axis=2))
        nearest = np.argmin(apart, axis=1)
        for k in range(2):
            mine = (nearest == k).astype(points.dtype)
            centers[k] = (points * mine[:, None]).sum(axis=0) / mine.sum()
    return centers, nearest


@program(POINTS, eager=True)
def k_means_with_masks(np: Any, points: Any) -> Any:
    centers = points[:2].copy()
    for _ in range(10):
        nearest = np.linalg.norm(points[:, None] - centers, axis=-1).argmin(axis=1)
        moved = np.array([points[nearest == k].mean(axis=0) for k in range(len(centers))])
        if np.allclose(moved, centers):
            break
        centers = moved
    return centers


@program(POINTS[:8])
def n_body(np: Any, place: Any) -> Any:
    speed = np.zeros_like(place)
    mass = np.linspace(1, 2, len(place))
    for _ in range(5):
        apart = place[None, :, :] - place[:, None, :]
        length = np.sqrt((apart**2).sum(-1) + 0.1)
        np.fill_diagonal(length, 1.0)
        force = (apart * (mass[None, :] / length**3)[..., None]).sum(axis=1)
        speed += 0.01 * force
        place = place + 0.01 * speed
    energy = 0.5 * np.sum(mass * np.einsum("ij,ij->i", speed, speed))
    return place, energy


@program(POINTS)
def principal_components(np: Any, x: Any) -> Any:
    x = x - x.mean(axis=0)
    covariance = x.T @ x / (len(x) - 1)
    values, vectors = np.linalg.eigh(covariance)
    order = values.argsort()[::-1]
    scores = x @ vectors[:, order]
    return values[order], np.abs(scores), np.allclose(np.cov(x.T), covariance)


@program(SERIES)
def low_pass(np: Any, x: Any) -> Any:
    spectrum = np.fft.rfft(x)
    frequencies = np.fft.rfftfreq(len(x), d=1.0)
    spectrum[frequencies > 0.1] = 0
    return np.fft.irfft(spectrum, n=len(x)), np.abs(spectrum).argmax()


@program(BOARD)
def game_of_life(np: Any, board: Any) -> Any:
    for _ in range(3):
        near = sum(np.roll(np.roll(board, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
        board = ((near == 3) | ((board == 1) & (near == 2))).astype(int)
    return board


@program(BOARD)
def game_of_life_in_place(np: Any, board: Any) -> Any:
    grid = np.zeros((board.shape[0] + 2, board.shape[1] + 2), dtype=board.dtype)
    grid[1:-1, 1:-1] = board
    for _ in range(2):
        near = (grid[:-2, :-2] + grid[:-2, 1:-1] + grid[:-2, 2:] + grid[1:-1, :-2] + grid[1:-1, 2:] + grid[2:, :-2]
                + grid[2:, 1:-1] + grid[2:, 2:])
        born = (near == 3) & (grid[1:-1, 1:-1] == 0)
        stays = ((near == 2) | (near == 3)) & (grid[1:-1, 1:-1] == 1)
        grid[...] = 0
        grid[1:-1, 1:-1] = np.where(born | stays, 1, 0)
    return grid


@program(IMAGE)
def box_blur(np: Any, image: Any) -> Any:
    padded = np.pad(image, 1, mode="edge")
    result = np.zeros_like(image)
    for i in range(3):
        for j in range(3):
            result += padded[i : i + image.shape[0], j : j + image.shape[1]]
    result /= 9
    return result


@program(IMAGE)
def edges(np: Any, image: Any) -> Any:
    across, down = np.gradient(image)
    size = np.hypot(across, down)
    size *= 255.0 / size.max()
    return (size + 0.5).astype(np.uint8), np.degrees(np.arctan2(down, across))


@program(IMAGE)
def convolved(np: Any, image: Any) -> Any:
    kernel = np.outer([1, 2, 1], [1, 2, 1]) / 16
    windows = np.stack([image[i : i + 10, j : j + 8] for i in range(3) for j in range(3)], axis=-1)
    by_windows = windows @ kernel.ravel()
    size = (image.shape[0] + 2, image.shape[1] + 2)
    by_transform = np.fft.ifft2(np.fft.fft2(image, size) * np.fft.fft2(kernel, size)).real[2:12, 2:10]
    return by_windows, by_transform


@program(IMAGE, eager=True)
def equalised(np: Any, image: Any) -> Any:
    levels = np.clip(np.round(image * 15), 0, 15).astype(np.int64)
    counts = np.bincount(levels.ravel(), minlength=16)
    share = np.cumsum(counts) / levels.size
    return share[levels], counts


@program(numpy.array([100.0, 80.0, 120.0]), RANDOM.normal(size=(500, 3)))
def monte_carlo(np: Any, price: Any, noise: Any) -> Any:
    paths = price * np.exp((0.05 - 0.5 * 0.2**2) * 1.0 + 0.2 * noise)
    payoff = np.maximum(paths - 100.0, 0.0)
    value = np.exp(-0.05) * payoff.mean(axis=0)
    error = payoff.std(axis=0, ddof=1) / np.sqrt(len(noise))
    return value, error, np.percentile(paths, [5, 50, 95], axis=0)


@program(SERIES + 100)
def finance(np: Any, prices: Any) -> Any:
    returns = np.diff(np.log(prices))
    window = 10
    sums = np.cumsum(np.insert(prices, 0, 0.0))
    average = (sums[window:] - sums[:-window]) / window
    drop = 1 - prices / np.maximum.accumulate(prices)
    sharpe = returns.mean() / returns.std() * np.sqrt(252)
    return average, drop.max(), sharpe, np.where(returns > 0, 1, -1).sum()


@program(MATRIX, numpy.arange(6.0))
def elimination(np: Any, a: Any, b: Any) -> Any:
    a, b = a.copy(), b.copy()
    n = len(b)
    for k in range(n):
        for i in range(k + 1, n):
            factor = a[i, k] / a[k, k]
            a[i, k:] -= factor * a[k, k:]
            b[i] -= factor * b[k]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (b[i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
    return x


@program(MATRIX)
def lu_by_hand(np: Any, a: Any) -> Any:
    n = a.shape[0]
    lower, upper = np.eye(n), a.copy()
    for k in range(n - 1):
        lower[k + 1 :, k] = upper[k + 1 :, k] / upper[k, k]
        upper[k + 1 :] -= np.outer(lower[k + 1 :, k], upper[k])
    return lower, np.triu(upper), np.prod(np.diag(upper))


@program(MATRIX)
def gram_schmidt(np: Any, a: Any) -> Any:
    q = np.zeros(a.shape)
    for k in range(a.shape[1]):
        v = a[:, k].copy()
        for j in range(k):
            v -= (q[:, j] @ a[:, k]) * q[:, j]
        q[:, k] = v / np.sqrt(np.dot(v, v))
    return q, q.T @ q


@program(MATRIX)
def power_iteration(np: Any, a: Any) -> Any:
    v = np.ones(len(a)) / np.sqrt(len(a))
    for _ in range(12):
        v = a @ v
        v /= np.linalg.norm(v)
    return v @ a @ v


@program(numpy.array([3, 1, 4, 1, 5, 9, 2, 6]), numpy.array([1, 4, 5, 2, 6]))
def longest_common(np: Any, a: Any, b: Any) -> Any:
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            table[i, j] = np.where(
                a[i - 1] == b[j - 1], table[i - 1, j - 1] + 1, np.maximum(table[i - 1, j], table[i, j - 1])
            )
    return table


@program(numpy.array([2, 3, 4, 5]), numpy.array([3, 4, 5, 6]))
def knapsack(np: Any, weights: Any, values: Any) -> Any:
    best = np.zeros(11)
    sizes = (2, 3, 4, 5)
    for k, size in enumerate(sizes):
        taken = best.copy()
        taken[size:] = np.maximum(best[size:], best[:-size] + values[k])
        best = taken
    return best, np.sum(weights)


@program(RANDOM.uniform(1, 9, size=(7, 7)))
def floyd_warshall(np: Any, apart: Any) -> Any:
    apart = apart.copy()
    np.fill_diagonal(apart, 0)
    for k in range(apart.shape[0]):
        apart = np.minimum(apart, apart[:, k, np.newaxis] + apart[np.newaxis, k, :])
    return apart


@program(numpy.array([[0, 2, 1, 3], [1, 0, 0, 2], [3, 1, 0, 0], [0, 0, 3, 1]]), eager=True)
def sudoku(np: Any, given: Any) -> Any:
    board = given.copy()

    def fits(i: int, j: int, n: int) -> bool:
        r, c = i // 2 * 2, j // 2 * 2
        return not (np.any(board[i] == n) or np.any(board[:, j] == n) or (board[r : r + 2, c : c + 2] == n).any())

    def solve() -> bool:
        free = np.argwhere(board == 0)
        if len(free) == 0:
            return True
        i, j = map(int, free[0])
        for n in range(1, 5):
            if fits(i, j, n):
                board[i, j] = n
                if solve():
                    return True
                board[i, j] = 0
        return False

    return solve(), board


@program(LABELS, VALUES, eager=True)
def grouped(np: Any, labels: Any, values: Any) -> Any:
    counts = np.bincount(labels, minlength=4)
    sums = np.bincount(labels, weights=values, minlength=4)
    centered = values - (sums / counts)[labels]
    totals = np.zeros(4)
    np.add.at(totals, labels, values)
    return counts, sums, centered, totals


@program(LABELS, VALUES, eager=True)
def grouped_by_unique(np: Any, labels: Any, values: Any) -> Any:
    keys, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    means = np.array([values[labels == key].mean() for key in keys])
    order = np.lexsort((values, labels))
    first = np.searchsorted(labels[order], keys)
    return keys, counts, means, inverse, values[order][first]


@program(VALUES)
def masked(np: Any, x: Any) -> Any:
    x = x.copy()
    x[x < 0] = 0
    x[::3] *= 2
    low = np.where(x > 0.5, x, np.nan)
    return x, np.nanmean(low), np.nanmax(low), np.isnan(low).sum(), np.count_nonzero(x)


@program(VALUES, eager=True)
def chosen(np: Any, x: Any) -> Any:
    kept = x[(x > -0.5) & (x < 1)]
    kept.sort()
    places = np.flatnonzero(x > 1)
    x = np.delete(x, places)
    return kept, places, x, kept[kept.size // 2], np.median(kept)


@program(SERIES[:16], numpy.arange(16.0))
def fitted(np: Any, y: Any, x: Any) -> Any:
    a = np.vstack([x, np.ones(len(x))]).T
    slope, offset = np.linalg.lstsq(a, y, rcond=None)[0]
    cubic = np.polyfit(x, y, 3)
    return slope, offset, np.polyval(cubic, x), np.corrcoef(x, y)[0, 1]


@program(RANDOM.normal(size=(20, 3)), RANDOM.integers(0, 2, 20))
def logistic_regression(np: Any, x: Any, y: Any) -> Any:
    w, b = np.zeros(x.shape[1]), 0.0
    for _ in range(8):
        p = 1 / (1 + np.exp(-(x @ w + b)))
        w -= 0.5 * x.T @ (p - y) / len(y)
        b -= 0.5 * np.mean(p - y)
    loss = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
    return w, b, loss, ((p > 0.5) == y).mean()


@program(RANDOM.normal(size=(12, 3)), RANDOM.normal(size=(3, 5)), RANDOM.normal(size=(5, 1)))
def network(np: Any, x: Any, first: Any, second: Any) -> Any:
    weights = [first.copy(), second.copy()]
    y = np.sin(x.sum(axis=1, keepdims=True))
    for _ in range(3):
        hidden = np.maximum(0, x @ weights[0])
        error = (hidden @ weights[1] - y) / len(x)
        slopes = [x.T @ (error @ weights[1].T * (hidden > 0)), hidden.T @ error]
        for n, slope in enumerate(slopes):
            weights[n] -= 0.1 * slope
    return weights[0], weights[1]


@program(RANDOM.normal(size=(12, 3)), RANDOM.normal(size=(3, 5)), eager=True)
def changed_in_a_loop(np: Any, x: Any, w: Any) -> Any:
    layers = [w.copy(), np.ones(5)]
    same = layers[0]
    for one, slope in zip(layers, [x.T @ (x @ w), np.arange(5.0)], strict=True):
        one -= 0.1 * slope  # which changes the array in the list
    return layers[0], layers[1], same


@program(numpy.arange(20))
def fizz_buzz(np: Any, n: Any) -> Any:
    return np.select([n % 15 == 0, n % 5 == 0, n % 3 == 0], [-15, -5, -3], default=n)


@program(30, eager=True)
def primes(np: Any, n: int) -> Any:
    sieve = np.ones(n + 1, dtype=bool)
    sieve[:2] = False
    for i in range(2, int(n**0.5) + 1):
        if sieve[i]:
            sieve[i * i :: i] = False
    return np.nonzero(sieve)[0]


@program(IMAGE)
def heat(np: Any, u: Any) -> Any:
    u = u.copy()
    for _ in range(4):
        u[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
        u[0, :] = u[-1, :] = 0
    return u


@program(numpy.linspace(-2, 1, 14), numpy.linspace(-1.2, 1.2, 9))
def mandelbrot(np: Any, x: Any, y: Any) -> Any:
    c = x[None, :] + 1j * y[:, None]
    z = np.zeros_like(c)
    steps = np.zeros(c.shape, dtype=int)
    for _ in range(12):
        inside = np.abs(z) <= 2
        z = np.where(inside, z * z + c, z)
        steps += inside
    return steps


@program(numpy.linspace(0, 10, 41))
def integrals(np: Any, x: Any) -> Any:
    y = np.sin(x) * np.exp(-x / 5)
    simpson = (x[1] - x[0]) / 3 * (y[0] + y[-1] + 4 * y[1:-1:2].sum() + 2 * y[2:-1:2].sum())
    return np.trapezoid(y, x), simpson, np.interp([0.3, 2.7], x, y)


@program(numpy.array([1.0, 0.0]))
def runge_kutta(np: Any, state: Any) -> Any:
    def slope(s: Any) -> Any:
        return np.array([s[1], -s[0] - 0.1 * s[1]])

    track = [state]
    for _ in range(6):
        a = slope(state)
        b = slope(state + 0.05 * a)
        c = slope(state + 0.05 * b)
        d = slope(state + 0.1 * c)
        state = state + 0.1 / 6 * (a + 2 * b + 2 * c + d)
        track.append(state)
    return np.array(track)


@program(POINTS[:10])
def distances(np: Any, points: Any) -> Any:
    squares = np.sum(points**2, axis=1)
    apart = np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2 * points @ points.T, 0))
    i, j = np.triu_indices(len(points), k=1)
    near = np.argsort(apart, axis=1)[:, 1:4]
    return apart[i, j], near, np.take_along_axis(apart, near, axis=1)


@program(RANDOM.integers(0, 5, size=(6, 6)))
def page_rank(np: Any, links: Any) -> Any:
    links = links * (1 - np.eye(6, dtype=int))
    share = links / np.maximum(links.sum(axis=0, keepdims=True), 1)
    rank = np.full(6, 1 / 6)
    for _ in range(10):
        rank = 0.15 / 6 + 0.85 * share @ rank
    return rank / rank.sum()


@program(numpy.array([0, 1, 1, 0, 2, 2, 1]), numpy.array([[0.7, 0.2, 0.1], [0.3, 0.5, 0.2], [0.2, 0.3, 0.5]]))
def viterbi(np: Any, seen: Any, moves: Any) -> Any:
    emits = np.array([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
    score = np.log(np.ones(3) / 3) + np.log(emits[:, seen[0]])
    back = []
    for t in range(1, len(seen)):
        ways = score[:, None] + np.log(moves)
        back.append(ways.argmax(axis=0))
        score = ways.max(axis=0) + np.log(emits[:, seen[t]])
    path = [score.argmax()]
    for one in back[::-1]:
        path.insert(0, one[path[0]])
    return np.stack(path), score


@program(VALUES)
def standardised(np: Any, x: Any) -> Any:
    ranks = np.empty(x.shape, dtype=int)
    ranks[np.argsort(x)] = np.arange(len(x))
    z = (x - x.mean()) / x.std(ddof=1)
    counts, ends = np.histogram(x, bins=5)
    return ranks, z, counts, ends, np.digitize(x, ends), (z**3).mean(), (z**4).mean() - 3


@program(numpy.arange(24).reshape(2, 3, 4))
def shapes(np: Any, x: Any) -> Any:
    joined = np.concatenate([x, x[::-1]], axis=0).transpose(2, 0, 1)
    parts = np.split(joined, 2, axis=0)
    rows = np.c_[x[0, 0], x[1, 2]]
    more = np.r_[x[0, 0], 0:3], np.tile(x[0], 2), x.reshape(-1, order="F"), x.swapaxes(0, 2)
    return joined, parts[1].sum(), rows, *more


@program(numpy.array([5, 3, 8, 1, 9, 2]), eager=True)
def bubble_sort(np: Any, x: Any) -> Any:
    x = x.copy()
    for i in range(len(x)):
        for j in range(len(x) - i - 1):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1], x[j]
    return x


@program(numpy.array([5, 3, 8, 1, 9, 2]))
def rotated_in_place(np: Any, x: Any) -> Any:
    x = x.copy()
    x[1:], x[0] = x[:-1].copy(), x[-1]
    x[[0, 2]] = x[[2, 0]]
    x[1], x[3] = x[3], x[1]
    return x


@program(numpy.array([0.0, 1.0, 0.0, 4.0]), numpy.array([2.0, 0.0, 3.0, 2.0]))
def guarded_division(np: Any, a: Any, b: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        plain = np.nan_to_num(a / b, posinf=-1.0)
    safe = np.divide(a, b, out=np.zeros_like(a), where=b != 0)
    np.add(safe, 1, out=safe)
    return plain, safe
