"""Threefry-2x32 with 20 rounds, the counter-based generator of random bits.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).  Word number i of a key depends
on the key and on i alone: results do not depend on threads, nor on what else is drawn.
"""

from __future__ import annotations

from typing import Any

__all__ = ["threefry"]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def threefry(key: tuple[Any, Any], counter: tuple[Any, Any]) -> tuple[Any, Any]:
    """Two words of random bits for two words of a counter; all are uint32, of shapes that broadcast."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    first, second = counter[0] + keys[0], counter[1] + keys[1]
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            first = first + second
            second = ((second << distance) | (second >> (32 - distance))) ^ first
        first = first + keys[(group + 1) % 3]
        second = second + (keys[(group + 2) % 3] + (group + 1))
    return first, second
