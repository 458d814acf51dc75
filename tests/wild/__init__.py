"""Programs of JAX's libraries, recorded as modules and judged; see `tests/wild/README.md`."""
