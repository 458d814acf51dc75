"""From a program to something that runs: compiling, loading, calling, memory, threads, custom calls, the cache.

In: a `Program` of codegen and arrays.  Out: an `Executable`, and arrays.  May import ir, codegen, analysis and, to
serve custom calls, evaluate.
"""
