"""A file per library or topic, imported by `tests/wild/recorder.py` under a Python that has jax."""
