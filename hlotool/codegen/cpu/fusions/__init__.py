"""Kernels of fusions: nests of loops with vectors of the lane loop, written from what `loops` found.

In: a fusion, or an instruction that a loop can compute.  Out: its kernel.
"""
