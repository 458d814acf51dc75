"""Constants in a file of their own, which the caller maps or reads: its head, and the hash that guards it.

The head has 64 bytes: the magic, the version, a mark for the byte order, the bytes of the data behind it, 16 bytes that
name the code which reads it, and the hash of the data.  The code decides: a file fits every library whose code is the
same to the letter, so that other weights of the same model do, and whatever would be read wrongly does not.

The hash is a sum over 64-bit words (modulo 2**64) of each word xor its number times an odd constant, mixed as SplitMix
does (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014): each word and its place
count, and both NumPy and a dozen instructions compute it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

__all__ = ["HEAD", "MAGIC", "MULTIPLIERS", "VERSION_AND_ORDER", "code_id", "data_hash", "weights_file"]

MAGIC = int.from_bytes(b"hlo wght", "little")
HEAD = 64
_VERSION, _ORDER = 1, 0x01020304
VERSION_AND_ORDER = _ORDER << 32 | _VERSION
"""As one word, which reads differently where the bytes have another order."""
MULTIPLIERS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_CHUNK = 1 << 20


def code_id(texts: Iterable[str]) -> bytes:
    """16 bytes that name code."""
    found = blake2b(digest_size=16)
    for text in texts:
        found.update(text.encode() + b"\0")
    return found.digest()


def data_hash(data: npt.NDArray[np.uint8], order: str = "<") -> int:
    """The hash of bytes, whose number is a multiple of eight, read as words in a byte order."""
    words = data.view(f"{order}u8").astype(np.uint64)
    first, second, third = (np.uint64(number) for number in MULTIPLIERS)
    total = 0
    for start in range(0, len(words), _CHUNK):
        part = words[start : start + _CHUNK]
        z = part ^ (np.arange(start + 1, start + 1 + len(part), dtype=np.uint64) * first)
        z = (z ^ (z >> np.uint64(30))) * second
        z = (z ^ (z >> np.uint64(27))) * third
        total += int(np.sum(z ^ (z >> np.uint64(31)), dtype=np.uint64))
    return total % (1 << 64)


def weights_file(data: npt.NDArray[np.uint8], code: bytes, order: str) -> tuple[bytes, bytes]:
    """The head for `data`, which `code` reads in a byte order (``<`` or ``>``), and the data."""
    first, second = struct.unpack("<2Q", code)
    words = (MAGIC, VERSION_AND_ORDER, len(data), first, second, data_hash(data, order))
    head = struct.pack(f"{order}6Q", *words)
    return head.ljust(HEAD, b"\0"), data.tobytes()
