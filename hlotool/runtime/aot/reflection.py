"""What a library says of itself: the constants that the structures of its header describe, as LLVM IR."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hlotool.ir import element_type
from hlotool.runtime.aot.errors import messages
from hlotool.runtime.aot.interface import Array, Interface
from hlotool.version import __version__

__all__ = ["ABI", "reflection_text"]

ABI = 1
"""Of the structures: another number where one of them changes."""


class _Constants:
    """Constants of a text, equal ones once."""

    def __init__(self) -> None:
        self.lines: dict[str, str] = {}

    def add(self, text: str) -> str:
        """``ptr @name`` of a private constant with this type and value."""
        return f"ptr @{self.lines.setdefault(text, f'c{len(self.lines)}')}"

    def string(self, text: str) -> str:
        data = text.encode() + b"\0"
        return self.add(f'[{len(data)} x i8] c"' + "".join(f"\\{byte:02x}" for byte in data) + '"')

    def table(self, kind: str, rows: Iterable[str]) -> str:
        """Of values of one type; null where there are none."""
        values = list(rows)
        text = f"[{len(values)} x {kind}] [{', '.join(f'{kind} {value}' for value in values)}]"
        return self.add(text) if values else "ptr null"

    def pointers(self, rows: Iterable[str]) -> str:
        return self.table("ptr", (row.removeprefix("ptr ") for row in rows))

    def arrays(self, arrays: Sequence[Array]) -> str:
        return self.table("%array", (self._array(array) for array in arrays))

    def _array(self, array: Array) -> str:
        shape = array.shape
        fields = (
            self.string(array.name), self.string(shape.element_type), self.table("i64", map(str, shape.dimensions)),
            f"i64 {array.bytes}", f"i32 {shape.rank}", f"i32 {-(-element_type(shape.element_type).bits // 8)}",
            f"i32 {array.alias}", f"i32 {int(array.overwritten)}",
        )  # fmt: skip
        return f"{{ {', '.join(fields)} }}"

    def text(self) -> str:
        return "\n".join(f"@{name} = private unnamed_addr constant {text}" for text, name in self.lines.items())


def reflection_text(interface: Interface, weights_bytes: int, random: Sequence[int], metadata: str) -> str:
    """The constants ``@entries``, ``@library``, ``@messages``, and those of the places that call their context.

    `metadata` is where the block is that `hlotool inspect` reads, as a constant.  The types of the structures are those
    of ``native/library.ll``.
    """
    made = _Constants()
    entries = []
    for entry in interface.entries:
        fields = (
            made.string(entry.name), f"ptr @{interface.name}_{entry.name}", made.arrays(entry.arguments),
            made.arrays(entry.results), f"i32 {len(entry.arguments)}", f"i32 {len(entry.results)}",
            f"i64 {entry.workspace_bytes}",
        )  # fmt: skip
        entries.append(f"%entry {{ {', '.join(fields)} }}")
    lines = [f"@entries = internal constant [{len(entries)} x %entry] [{', '.join(entries)}]"]
    for call in interface.calls:
        described = (
            made.string(call.name), made.string(call.target), made.string(call.text), made.arrays(call.operands),
            made.arrays(call.results), f"i32 {len(call.operands)}", f"i32 {len(call.results)}", f"i32 {call.function}",
        )  # fmt: skip
        lines.append(f"@{call.symbol} = constant %call {{ {', '.join(described)} }}")
    functions = made.pointers(made.string(name) for name in interface.functions)
    library = (
        f"i32 {ABI}", f"i32 {len(entries)}", "ptr @entries", functions, f"i32 {len(interface.functions)}",
        f"i32 {len(random)}", f"i64 {weights_bytes}", "ptr @random" if random else "ptr null",
        made.string(__version__), metadata,
    )  # fmt: skip
    lines.append(f"@library = internal constant %library {{ {', '.join(library)} }}")
    lines.append(f"@random = internal constant [{len(random)} x i64] [{', '.join(f'i64 {word}' for word in random)}]")
    said = messages(interface.functions)
    cases = " ".join(f"i32 {code}, label %c{code}" for code in said)
    blocks = "\n".join(f"c{code}:\n  ret {made.string(text)}" for code, text in said.items())
    lines.append(
        f"define ptr @{interface.name}_message(i32 %code) nounwind {{\n  switch i32 %code, label %other [ {cases} ]\n"
        f"other:\n  ret {made.string('no such code')}\n{blocks}\n}}"
    )
    return "\n".join([made.text(), *lines]) + "\n"
