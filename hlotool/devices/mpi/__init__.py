"""One program on the processes of an MPI job: an executable comes in, and goes out with its devices among them."""

from hlotool.devices.mpi.devices import MpiDevices

__all__ = ["MpiDevices"]
