"""The processor as a target: `fusions`, `products`, `algorithms`, and the `host` code around them.

In: instructions, machines.  Out: kernels, and the entry function that runs them.
"""
