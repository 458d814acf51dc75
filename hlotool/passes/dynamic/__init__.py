"""Passes that turn arrays of dynamic size into arrays of their bounds and a size beside them.

In: a module.  Out: one whose shapes are all static.
"""
