"""Fuzzers of the text format: mutations of real texts, and a grammar of valid modules."""
