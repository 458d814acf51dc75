"""Emitters for processors: one per kind of kernel (loops, reductions, dots, convolutions, sorts, scatters...).

In: an instruction and a `Unit` to write to.  Out: a `Kernel`: its functions in the unit, and the steps to run them in.
Imports ir, analysis and the rest of codegen.
"""
