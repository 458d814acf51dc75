"""Where a program runs when one process is not enough: an executable comes in, and goes out with devices elsewhere."""
