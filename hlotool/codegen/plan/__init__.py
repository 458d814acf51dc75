"""What a program consists of, for any target: buffers, the order of steps, which of them run at the same time, units.

In: a lowered module and the kernels of its instructions.  Out: where every value lies and what runs when.  Knows no
target.
"""
