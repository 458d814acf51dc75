"""Passes that make a module smaller and plainer: identities, merging, dead code, inlining, folding of constants.

In: a module.  Out: one that computes the same with less.
"""
