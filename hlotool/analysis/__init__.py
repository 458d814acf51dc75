"""Pure questions about a module: what may be fused, how indices map, how often a loop runs, what may be in place.

In: modules, computations, instructions.  Out: facts as values, and the log of decisions; nothing here changes a module.
May import ir and evaluate.
"""
