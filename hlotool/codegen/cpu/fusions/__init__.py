"""Kernels of fusions: plans for the nests of loops that `nests` writes.

In: a fusion, or an instruction that a loop can compute.  Out: its kernel.
"""
