"""Programs written against the libraries of JAX's world, recorded as modules and checked; see `tests/wild/README.md`."""
