"""What loops compute, for any target: traces of elements back to what is read, tile spaces, indices, costs, stages.

In: instructions that loops can compute.  Out: loops over typed nodes.  Knows no target.
"""
