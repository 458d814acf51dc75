"""Nests of loops as code, for any target: nodes written where the loops around them are known, in one lane or several.

In: nodes and loops of `loops`.  Out: the text of a function.  Knows no target.
"""
