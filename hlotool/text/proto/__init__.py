"""Modules in protocol-buffer form (binary and text), read without any protocol-buffer library.

In: bytes of HloModuleProto, HloProto, HloSnapshot, HloUnoptimizedSnapshot.  Out: modules, and the literals of
snapshots.  May import ir and the readers of HLO text.
"""

from __future__ import annotations

from hlotool.ir import Module
from hlotool.text.proto.load import Snapshot, read_binary, read_text

__all__ = ["Snapshot", "read_binary", "read_proto", "read_text"]


def read_proto(data: bytes, file: str = "<proto>") -> Module:
    """The module of a serialized HloModuleProto, HloProto or HloSnapshot; ParseError where `data` is none."""
    return read_binary(data, file).module
