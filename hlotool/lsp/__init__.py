"""The language server: what an editor shows about HLO text while it is written.

In: the text of a document, half-typed or not, and a place in it.  Out: what to show there, as ranges of the text; only
`server.py` and `wire.py` know the protocol.  May import ir, text, lint and analysis.
"""
