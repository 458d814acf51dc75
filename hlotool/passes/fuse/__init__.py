"""Passes that decide what one kernel computes: fusions of elementwise work, around products, and their operands.

In: a module.  Out: one with fusion instructions, each of which is a kernel.
"""
