"""Products of matrices and convolutions: packing, tasks, register tiles, what is fused with them.

In: `dot`, `convolution` and fusions around them.  Out: kernels.
"""
