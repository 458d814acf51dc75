"""Code around kernels: the entry function, bodies of loops and branches, steps that overlap, what sharing work costs.

In: the plan of a program and its kernels.  Out: the text of the entry.
"""
