"""Propagation of shardings: from the few values that are annotated to all others.

`sharding_propagation.py` is the pass.  `factors.py` has a rule for each opcode: which dimensions of operands and
results run together.  `graph.py` makes one graph of values of them, with the loops, branches and tuples of a module;
`projection.py` carries a sharding from one value to another along these dimensions, and unites two; `shardy.py` turns
annotations over named axes into ones of HLO.
"""
