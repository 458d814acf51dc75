"""Low precision: what becomes of products whose operands are stored as small numbers and scales."""
