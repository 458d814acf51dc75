"""StableHLO, CHLO and what stands around them in MLIR: read from text, made HLO, and written.

`reader` makes a tree of operations of any text (`tree`), `convert` makes a module of that by the table in `operations`;
`export` is the way back.  Nothing here is loaded for files of HLO.

Sources: the StableHLO specification (``openxla/stablehlo``, ``docs/spec.md``) and MLIR's language reference.
"""
