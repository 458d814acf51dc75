"""Kernels of opcodes that are algorithms of their own: sorting, scatter, windows, FFT, linear algebra, random bits.

In: one instruction.  Out: its kernel, whose steps are divided into tasks for any target.
"""
