"""The verdict on one module: compiled code against the truth, the evaluator and what XLA gave."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from hlotool.analysis.cost import ModuleCost
from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.evaluate.bounds import Bounded
from hlotool.evaluate.truth import bounded_results, truth
from hlotool.harness.compare import Comparison, Tolerance, compare, compare_with_truth, default_tolerance
from hlotool.harness.inputs import random_inputs
from hlotool.ir import ELEMENT_TYPES, ExecutionError, HloError, InputError, Module, UnsupportedError, element_type_of
from hlotool.ir.verifier import check
from hlotool.text.parser import parse

__all__ = ["VERDICTS", "Verdict", "judge"]

Array = npt.NDArray[Any]

VERDICTS = ("ok", "undecided", "mismatch", "bounds", "refused", "crash", "timeout", "endless", "unchecked")
"""bounds: compiled code and the evaluator are both further from the truth than the bounds allow: those are to blame;
undecided: more than 5 % of the elements may be anything, also by statistical bounds, and the evaluator's own roundings
differ;
unchecked: compiled and run, but too large to be evaluated, and without outputs of XLA's."""

_UNDECIDED = 0.05
_DRAWS = 4
"""Of runs for statistical bounds."""
_WORK = 3e9
"""Operations that the evaluator does in a bearable time."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`by` says what the results were compared with; `undecided` is the share of elements without a bound."""

    word: str
    detail: str = ""
    by: tuple[str, ...] = ()
    undecided: float = 0.0

    def record(self) -> dict[str, Any]:
        return asdict(self)


def judge(
    text: str,
    given: Sequence[Sequence[Array]] | None = None,
    wanted: Sequence[Sequence[Array]] | None = None,
    devices: int = 1,
    work: float = _WORK,
    timeout: float | None = None,
) -> Verdict:
    """Compile and run `text` and compare; inputs and XLA's outputs are a list of arrays for each device.

    Programs of more than `work` operations are not evaluated; those that run for more than `timeout` seconds may be
    endless.
    """
    try:
        module = parse(text)
        check(module)
        rows = [list(row) for row in given] if given else [random_inputs(module, 0, d) for d in range(devices)]
        executable = compile_module(module, partitions=devices if devices > 1 else None, timeout=timeout)
        got = executable.run_devices(rows, None) if devices > 1 else [executable(*rows[0])]
        return _compared(module, rows, [list(row) for row in got], wanted, work)
    except ExecutionError as error:
        return Verdict("endless" if timeout is not None else "refused", _first(error))
    except HloError as error:
        return Verdict("refused", _first(error))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        if not _frames(error):
            raise
        return Verdict("crash", _signature(error))


def _compared(module: Module, rows: list[list[Array]], got: list[list[Array]], wanted: Any, work: float) -> Verdict:
    by: list[str] = []
    undecided = 0.0
    settled = False
    problems: list[str] = []
    flat = [a for row in got for a in row]
    small = ModuleCost(module).total.flops * len(rows) < work
    bounds = None
    if small and len(rows) == 1:
        try:
            bounds = truth(module, rows[0])
        except (UnsupportedError, InputError):
            bounds = None
    if bounds is not None:
        by.append("truth")
        problems, undecided = _within(flat, bounds)
        if problems and _within(evaluate(module, rows[0]), bounds)[0]:
            return Verdict("bounds", "; ".join(problems)[:600], tuple(by), undecided)
        settled = undecided <= _UNDECIDED
    if small and not settled:
        by.append("evaluator")
        evaluated = [evaluate(module, rows[0])] if len(rows) == 1 else _evaluated(module, rows)
        exact = [a for row in evaluated for a in row]
        far = _far(flat, exact, 4)
        if far and bounds is None:
            far = _far(flat, exact, 4, _shaken(module, rows, exact))
            by += ["shaken inputs"]
        settled = not far
        if bounds is None:
            problems += [f"evaluator: {line}" for line in far]
    if wanted is not None:
        by.append("XLA")
        far = _far(flat, [a for row in wanted for a in row], 16)
        if bounds is None or undecided > _UNDECIDED:
            if not by[:-1]:
                problems += [f"XLA: {line}" for line in far]
            settled = settled or not far
    if bounds is not None and not settled and not problems:
        by.append("statistics")
        wide, undecided = _within(flat, bounded := bounded_results(module, rows[0], draws=_DRAWS))
        if wide and _within(evaluate(module, rows[0]), bounded)[0]:
            return Verdict("bounds", "; ".join(wide)[:600], tuple(by), undecided)
        problems, settled = wide, undecided <= _UNDECIDED
    if problems:
        return Verdict("mismatch", "; ".join(problems)[:600], tuple(by), undecided)
    if not by:
        return Verdict("unchecked")
    return Verdict("ok" if settled else "undecided", "", tuple(by), undecided)


def _within(got: Sequence[Array], bounds: Sequence[Bounded]) -> tuple[list[str], float]:
    """The outputs that lie outside of their bounds, and the share of elements that may be anything."""
    found = compare_with_truth(got, bounds, max_undecided=1.0)
    share = sum(c.undecided for c in found) / max(1, sum(c.count for c in found))
    return [f"truth: out{n}: {c}" for n, c in enumerate(found) if not c.ok], share


def _evaluated(module: Module, rows: list[list[Array]]) -> list[list[Array]]:
    return compile_module(module, "evaluate", partitions=len(rows)).run_devices(rows, None)


def _shaken(module: Module, rows: list[list[Array]], exact: Sequence[Array]) -> list[npt.NDArray[np.float64]]:
    """How far each result may go where inputs change by a unit of their last places: four times in a row.

    Stands in for error bounds, which truth mode has for one device only.
    """
    reach = [np.zeros(a.shape) for a in exact]
    for seed in range(4):
        rng = np.random.default_rng(seed)
        moved = [[_moved(a, rng) for a in row] for row in rows]
        found = (a for row in _evaluated(module, moved) for a in row)
        with np.errstate(all="ignore"):
            for n, (a, b) in enumerate(zip(found, exact, strict=True)):
                reach[n] = np.maximum(reach[n], np.nan_to_num(np.abs(a.astype(complex) - b.astype(complex))))
    return reach


def _moved(array: Array, rng: np.random.Generator) -> Array:
    kind = ELEMENT_TYPES[element_type_of(array.dtype)]
    if not kind.is_float:
        return array
    unit = float(ml_dtypes.finfo(array.dtype).eps)
    return (array.astype(np.float64) * (1 + unit * rng.uniform(-1, 1, array.shape))).astype(array.dtype)


def _far(
    got: Sequence[Array], want: Sequence[Array], times: float, reach: Sequence[npt.NDArray[np.float64]] | None = None
) -> list[str]:
    """The outputs that differ by more than so many times the usual tolerance, and than 16 times their `reach`."""
    lines = []
    for number, (g, w) in enumerate(zip(got, want, strict=True)):
        comparison = _compare(g, np.asarray(w).view(g.dtype) if g.dtype.itemsize == w.dtype.itemsize else w, times)
        if comparison.ok:
            continue
        if reach is not None:
            apart = np.abs(g.astype(complex) - w.astype(complex))
            usual = default_tolerance(element_type_of(g.dtype))
            if bool(
                np.all(
                    apart <= times * (usual.absolute + usual.relative * np.abs(w.astype(complex))) + 16 * reach[number]
                )
            ):
                continue
        lines.append(f"out{number}: {comparison}")
    return lines


def _compare(got: Array, want: Array, times: float) -> Comparison:
    usual = default_tolerance(element_type_of(got.dtype))
    exact = not usual.absolute
    return compare(got, want, None if exact else Tolerance(usual.absolute * times, usual.relative * times))


def _first(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Those of the product; of an error without any, this file is to blame."""
    return [f for f in traceback.extract_tb(error.__traceback__) if "/hlotool/" in f.filename]


def _signature(error: BaseException) -> str:
    last = _frames(error)[-1]
    where = f"{Path(last.filename).name}:{last.lineno} in {last.name}"
    return f"{type(error).__name__} at {where}: {_first(error)}"
