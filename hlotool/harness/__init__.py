"""Working with programs from outside: inputs, archives of arrays, comparison with a reference.

In: modules, arrays, files.  Out: arrays and verdicts.  May import everything but inspect and cli.
"""
