"""Passes about loops: what does not change goes out, trips are counted, short loops are written out.

In: a module.  Out: one whose loops do less.
"""
