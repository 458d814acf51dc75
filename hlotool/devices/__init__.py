"""Where programs run when one process is not enough."""
