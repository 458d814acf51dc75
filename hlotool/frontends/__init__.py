"""What the ways in from other frameworks share: records of the programs that came in, for their ``explain()``."""
