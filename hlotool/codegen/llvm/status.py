"""How an execution stands: what the word for its status says, and who looks at it (`hlotool.codegen.llvm.polling`)."""

from __future__ import annotations

__all__ = ["COMPLETE", "POLL", "STOPPED"]

POLL = "hlo_poll"
"""The function that says whether to go on."""

COMPLETE = int.from_bytes(b"complete", "little")
"""The status of an execution that has done all of its work; no accident writes it."""

STOPPED = 1
