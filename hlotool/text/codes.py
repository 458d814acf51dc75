"""The catalogue of codes: what each error means, with a wrong and a right example.

01xx what the text looks like and what stands where, 02xx shapes and operands, 07xx inputs, 08xx what is not supported,
09xx running and the other languages (pipelines, queries).  Codes never change their meaning.
"""

from __future__ import annotations

from hlotool.text.codes_library import LIBRARY
from hlotool.text.codes_rules import RULES
from hlotool.text.codes_syntax import SYNTAX
from hlotool.text.page import Page

__all__ = ["CATALOGUE", "find_page", "near_codes"]

_NEAR = 20

CATALOGUE: dict[str, Page] = {page.code: page for page in (*SYNTAX, *RULES, *LIBRARY)}


def find_page(code: str) -> Page | None:
    """The page of a code; ``HLO0102``, ``hlo102`` and ``102`` are the same."""
    digits = code.strip().upper().removeprefix("HLO").lstrip("-_ ")
    return CATALOGUE.get(f"HLO{digits.zfill(4)}")


def near_codes(text: str) -> list[str]:
    """Codes that `text` may have meant: similar ones, then those whose title has its words."""
    digits = text.strip().upper().removeprefix("HLO")
    number = int(digits[:9]) if digits.isdecimal() else 0
    near = sorted(CATALOGUE, key=lambda code: (abs(int(code[3:]) - number), code)) if number else []
    found = [code for code in near[:3] if abs(int(code[3:]) - number) < _NEAR]
    words = [word for word in text.lower().split() if not word.isdecimal()]
    found += [page.code for page in CATALOGUE.values() if words and all(word in page.title.lower() for word in words)]
    return list(dict.fromkeys(found))[:5]
