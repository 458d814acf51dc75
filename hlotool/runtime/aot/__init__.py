"""A program as a library for others: its code behind a C interface, without hlotool.

In: programs of codegen, with what they are called.  Out: the bytes of an object or archive, of a file with weights, and
texts: a C header, wrappers for other languages, a manifest.  `library.py` puts them together; `interface.py` is what
all of them go by.
"""
