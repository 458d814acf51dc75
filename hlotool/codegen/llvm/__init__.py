"""Text of LLVM IR: the writer, typed values and their mathematics, memory, low precision, looks at the clock.

In: what to compute.  Out: functions of a unit.  Asks the machine for the width of its vectors and for instructions that
it has, and is right without any.
"""
