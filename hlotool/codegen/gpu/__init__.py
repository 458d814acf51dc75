"""Kernels for graphics processors: grids of blocks of threads, and what launches them.

In: a module as code generation gets it.  Out: a program of launches, with its kernels as text for a chip, or as
functions of this processor that go through blocks and threads in loops.
"""
