"""The partitioner: of one program for one device and shardings, a program for many.

`partition.py` is the way in, `spmd_partitioner.py` the pass.  `tiling.py` is what a sharding says by device,
`reshard.py` finds the cheapest way from one tiling to another, `axes.py` chooses how an instruction is divided,
`halo.py` gets what a device lacks at the border of its tile, and a rule for each opcode in ``rules_*.py`` names what
goes together.
"""
