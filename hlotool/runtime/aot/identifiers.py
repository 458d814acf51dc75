"""Names of HLO as names of C, C++, Python and Rust, all different."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence

__all__ = ["Names", "identifier", "is_identifier"]

_C = """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class
compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default
delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
requires restrict return short signed sizeof static static_assert static_cast struct switch template this thread_local
throw true try typedef typeid typename typeof typeof_unqual union unsigned using virtual void volatile wchar_t while
xor xor_eq linux unix errno stdin stdout stderr assert NULL EOF"""
_RUST = """abstract as async await become box crate dyn final fn gen impl in let loop macro match mod move mut
override priv pub ref self Self super trait type unsafe unsized use where yield"""
_OWN = "arguments results workspace context weights main np numpy ctypes std hlo"
"""What the texts of wrappers use."""

_KEYWORDS = frozenset([*_C.split(), *_RUST.split(), *_OWN.split(), *keyword.kwlist, *keyword.softkwlist])


def is_identifier(name: str) -> bool:
    """Whether a name can stand as it is in all languages."""
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is not None and name not in _KEYWORDS and "__" not in name


def identifier(name: str) -> str:
    """A name that can stand in all languages, as much like `name` as can be."""
    plain = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9]", "_", name)).strip("_")[:60].rstrip("_")
    if not plain or plain[0].isdigit():
        plain = f"x{plain}"
    return f"{plain}_" if plain in _KEYWORDS else plain


class Names:
    """Gives identifiers, each once, with those that are made of it by `endings`.

    Those that differ in case alone are the same, as constants are in capitals.
    """

    __slots__ = ("_endings", "_taken")

    def __init__(self, endings: Sequence[str] = ("",)) -> None:
        self._endings = endings
        self._taken: set[str] = set()

    def __call__(self, name: str) -> str:
        plain = found = identifier(name)
        number = 2
        while not self._taken.isdisjoint(self._made_of(found)):
            found = f"{plain.rstrip('_')}_{number}"
            number += 1
        self._taken.update(self._made_of(found))
        return found

    def _made_of(self, name: str) -> list[str]:
        return [f"{name}{ending}".upper() for ending in self._endings]
