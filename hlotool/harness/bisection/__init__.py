"""Finding what makes something fail: the pass, the rewrite in it, the passes of a pipeline, or the inputs.

In: a question (a module, a pipeline, and how to try for the failure).  Out: a finding, and a reproducer of it.
`search` halves, `course` has modules in the middle of a pipeline, `answers` remembers what trials said.
"""
