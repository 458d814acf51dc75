"""What an entry of the cache depends on: parts with names, from which its key is made, and which it keeps beside its
content, so that people can be told what is there and why something is not."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping

from hlotool.lazy_dataclass import dataclass

__all__ = ["About", "Key", "about_from_bytes"]

_LONGEST = 4000  # characters of a part that are kept as they are


@dataclass(frozen=True, slots=True)
class About:
    """What an entry says of itself: its `kind` (``program``: of a file that was run; ``code``: of a text of LLVM IR),
    a `label` for people, and the parts of its key, the long ones as their digests."""

    kind: str
    label: str
    parts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Key:
    """The parts, by name, that an entry depends on."""

    kind: str
    label: str
    parts: Mapping[str, str]

    @property
    def digest(self) -> str:
        """What the entry is called: a SHA-256 of the kind and all parts."""
        found = hashlib.sha256()
        for part in (self.kind, *self.parts.values()):
            data = part.encode("utf-8", "surrogateescape")
            found.update(struct.pack("<Q", len(data)))
            found.update(data)
        return found.hexdigest()

    @property
    def about(self) -> About:
        """What the entry says of itself."""
        return About(self.kind, self.label, {name: _shown(text) for name, text in self.parts.items()})

    def about_bytes(self) -> bytes:
        """The same as bytes, which `about_from_bytes` reads."""
        about = self.about
        return json.dumps([about.kind, about.label, dict(about.parts)]).encode()


def about_from_bytes(data: bytes) -> About | None:
    """What `Key.about_bytes` wrote; None for anything else."""
    try:
        kind, label, parts = json.loads(data)
        return About(str(kind), str(label), {str(name): str(text) for name, text in parts.items()})
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _shown(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()}"
