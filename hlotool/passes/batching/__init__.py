"""Batching of modules: of one that does something to an example, one that does it to many at once.

`batch.py` is the way in, `vmap.py` the pass.  `flow.py` finds what will have a batch, `batcher.py` writes, and a rule
for each opcode in ``rules_*.py`` says what.
"""
