"""Programs of launches at work: on a device of CUDA by its driver, or on this processor, which emulates one.

In: a program of launches.  Out: a function from arrays to arrays.
"""
