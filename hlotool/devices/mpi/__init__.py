"""One program on the processes of an MPI job."""

from hlotool.devices.mpi.devices import MpiDevices

__all__ = ["MpiDevices"]
