"""Arrays in ``.safetensors`` files, by the package of that name (the extra ``hlotool[safetensors]``)."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import IO, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from hlotool.ir import InputError, UnsupportedError

__all__ = ["Safetensors", "write_safetensors"]

_NARROW = {
    "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2, "F8_E8M0": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip
"""Types that the package reads, but not as arrays of NumPy."""


class Safetensors:
    """An open file.  UnsupportedError where the package is not installed, InputError where the file is none."""

    def __init__(self, path: str) -> None:
        package = _package()
        self._path = path
        try:
            self._file = package.safe_open(path, "np")
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}") from error
        except package.SafetensorError as error:
            raise InputError(f"{path}: not a file of safetensors: {error}") from error
        self.names = frozenset(self._file.keys())

    def __enter__(self) -> Safetensors:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.__exit__(kind, error, trace)

    def read(self, name: str) -> npt.NDArray[Any]:
        """The array called `name`; InputError where there is none."""
        if name not in self.names:
            raise InputError(f"{self._path}: no array {name}; there are {', '.join(sorted(self.names)) or 'none'}")
        found = self._file.get_slice(name)
        narrow = _NARROW.get(found.get_dtype())
        if narrow is None:
            array: npt.NDArray[Any] = self._file.get_tensor(name)
            return array
        with open(self._path, "rb") as stream:
            for key, tensor in _package().deserialize(stream.read()):
                if key == name:
                    return np.frombuffer(bytearray(tensor["data"]), narrow).reshape(tensor["shape"])
        raise InputError(f"{self._path}: no array {name} any more")


def write_safetensors(stream: IO[bytes], arrays: Iterable[tuple[str, npt.NDArray[Any]]]) -> None:
    """Write arrays with their names; UnsupportedError for types that the format has not."""
    package = _package()
    from safetensors.numpy import save

    try:
        stream.write(save({name: np.ascontiguousarray(array) for name, array in arrays}))
    except package.SafetensorError as error:
        raise UnsupportedError(f"{error}: save these arrays as .npz") from error


def _package() -> Any:
    try:
        import safetensors
    except ImportError as error:
        message = "files of safetensors need the package: pip install 'hlotool[safetensors]'"
        raise UnsupportedError(message) from error
    return safetensors
