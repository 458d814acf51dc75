"""From an optimised module to a program: kernels as textual LLVM IR, a schedule, and buffers.

In: a module that is ready for it (see the pipeline ``lowering``) and a `Machine`.  Out: a `Program`: LLVM IR units,
constants, the size of the arena, the custom calls to serve.  Nothing is compiled or run here.  May import ir and
analysis.
"""
