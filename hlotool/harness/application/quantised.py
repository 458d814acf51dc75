"""An application in integers of 8 bits: the modules of the precision int8, as `hlotool quantise` makes them.

Products stay in f32, those first that cost most, until the results for the inputs to calibrate with are as close as
the application is asked to be.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.harness.application.replica import Application, error_of, load_application, place_of
from hlotool.harness.application.space import INT8
from hlotool.harness.quantise.engine import Quantised, quantise
from hlotool.harness.quantise.options import Options, Sample
from hlotool.harness.quantise.samples import read_samples
from hlotool.harness.quantise.weights import with_weights_outside
from hlotool.ir import UnsupportedError
from hlotool.lazy_dataclass import dataclass
from hlotool.text.printer import print_module

__all__ = ["make_quantised"]

Arrays = Sequence[npt.NDArray[Any]]
_ABOUT_ARGUMENTS = ("input_output_alias", "buffer_donor")


@dataclass(frozen=True, slots=True)
class _LargestError:
    """The largest error of a result for any of the samples, as a replica measures it."""

    words: str = "largest error of results"

    def of(self, wanted: Sequence[Arrays], found: Sequence[Arrays], samples: Sequence[Sample]) -> float:
        pairs = zip(found, wanted, strict=True)
        return max(error_of([*map(np.asarray, own)], [*map(np.asarray, good)]) for own, good in pairs)


def make_quantised(folder: str, paths: Sequence[str], accuracy: float) -> str:
    """Write the application of one module in integers, or why there is none; the same in words.

    `paths` are files of inputs to calibrate with.  InputError where they do not fit the module.
    """
    application = load_application(folder)
    ((name, module),) = application.modules().items()
    samples = read_samples(module, paths, None)
    made: Application | str
    try:
        found = quantise(module, samples, Options(to=INT8, max_error=accuracy), _LargestError())
    except UnsupportedError as error:
        made = said = error.message
    else:
        if found.chosen and found.within:
            outside, arrays = with_weights_outside(found.module)
            kept = {key: one for key, one in found.module.attributes.items() if key in _ABOUT_ARGUMENTS}
            outside.attributes.update(kept)  # what was taken out comes after these arguments, and goes back
            made = Application(entries={name: print_module(outside)}, weights={name: arrays}, over=application.over)
            said = (
                f"{len(found.chosen)} of {len(found.layers)} products are of integers; the error for the inputs to "
                f"calibrate with is {found.error:.2g}"
            )
        else:
            made = said = _too_far(found, accuracy)
    place_of(folder, INT8).write_bytes(pickle.dumps(made))
    return said


def _too_far(found: Quantised, accuracy: float) -> str:
    least = min((layer.error for layer in found.layers), default=None)
    costs = "" if least is None else f": one product alone costs {least:.2g} or more"
    return f"no product can be of integers with an error of at most {accuracy:g}{costs}"
