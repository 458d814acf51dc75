"""Ranks of an MPI job that end one after another, each with its part done:

    mpiexec -n 4 python tests/mpi_endings.py WHAT SLOW

Rank SLOW comes late to the last thing that all ranks do, when those that need nothing of it have ended.
"""

from __future__ import annotations

import sys
import time

import hlotool

LAST = {
    "told": lambda devices: devices.told(7 if devices.rank == 0 else 0) == 7,
    "gathered": lambda devices: devices.gathered(b"abc") in (None, [b"abc"] * devices.size),
    "agree": lambda devices: devices.agree({"what is the same": "here"}) is None,
}


def main(what: str, slow: int) -> int:
    devices = hlotool.MpiDevices()
    devices.agree({"the first": "thing"})
    if devices.rank == slow:
        time.sleep(1)
    right = LAST[what](devices)
    devices.close()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
