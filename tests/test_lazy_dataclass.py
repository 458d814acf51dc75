"""Our ``dataclass`` makes what that of the standard library makes, and later."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import pytest
from conftest import ROOT

from hlotool.lazy_dataclass import dataclass

Decorator = Callable[..., Any]
OPTIONS: list[dict[str, bool]] = [
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True, "slots": True, "repr": False},
    {"frozen": True},
    {"slots": True},
    {"slots": True, "eq": False, "repr": False},
]


@dataclass(frozen=True, slots=True)
class Kept:
    """In a module, so that it can be pickled."""

    number: int
    words: tuple[str, ...] = ()


def classes(decorator: Decorator, **options: bool) -> tuple[type[Any], ...]:
    """A class, one that inherits from it, one with fields of other kinds, and one without any."""

    @decorator(**options)
    class Base:
        kind: ClassVar[str] = "base"
        number: int
        words: list[str] = field(default_factory=list, compare=False)

        def __post_init__(self) -> None:
            if self.number < 0:
                raise ValueError("negative")

    @decorator(**{**options, "kw_only": False})
    class Other:
        first: int
        late: int = field(kw_only=True)
        fixed: int = field(default=4, init=False)
        made: dict[str, int] = field(default_factory=dict, init=False)
        last: str = "z"

    @decorator(**options)
    class Empty:
        pass

    @decorator(**options)
    class Derived(Base):
        text: str = field(default="x", repr=False)

    return Base, Derived, Other, Empty


def outcome(function: Callable[[], Any]) -> Any:
    try:
        found = function()
    except Exception as error:
        return type(error), str(error)
    return repr(found) if not repr(found).startswith("<") else type(found).__name__


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options))
def test_as_the_standard_library_does(options: dict[str, bool]) -> None:
    cases: list[Callable[[type[Any]], Any]] = [
        lambda c: c(number=3),
        lambda c: c(3),
        lambda c: c(),
        lambda c: c(1, late=2),
        lambda c: c(1, late=2, last="y") == c(1, late=2),
        lambda c: dataclasses.replace(c(1, late=2), late=3),
        lambda c: len({*map(hash, [c(1, late=2), c(1, late=2)])}),
        lambda c: c() == c(),
        lambda c: len({*map(hash, [c(), c()])}),
        lambda c: c(number=-1),
        lambda c: c(number=3) == c(number=3, words=["a"]),
        lambda c: c(number=3) != c(number=4),
        lambda c: c(number=3) == 3,
        lambda c: len({*map(hash, [c(number=3), c(number=3)])}),
        lambda c: setattr(c(number=3), "number", 4),
        lambda c: delattr(c(number=3), "number"),
        lambda c: dataclasses.replace(c(number=3), number=5),
        lambda c: dataclasses.asdict(c(number=3, words=["a"])),
        lambda c: [(row.name, row.type, row.default, row.kw_only) for row in dataclasses.fields(c)],
        lambda c: copy.deepcopy(c(number=3)),
        lambda c: c.__match_args__,
        lambda c: getattr(c, "__slots__", None),
        lambda c: str(inspect.signature(c)),
        lambda c: c.__init__.__qualname__,
        lambda c: c.__dataclass_params__.frozen,
    ]
    standard = classes(dataclasses.dataclass, **options)
    for number, case in enumerate(cases):
        for ours, theirs in zip(classes(dataclass, **options), standard, strict=True):
            expected = outcome(lambda theirs=theirs, case=case: case(theirs))
            # The first instances are made in another way than later ones.
            for time in range(20):
                assert outcome(lambda ours=ours, case=case: case(ours)) == expected, (ours.__name__, number, time)


def test_what_a_class_defines_stays() -> None:
    @dataclass(frozen=True, slots=True)
    class Named:
        name: str

        def __repr__(self) -> str:
            return "mine"

        def __hash__(self) -> int:
            return 7

    assert (repr(Named("a")), hash(Named("a")), Named("a") == Named("a")) == ("mine", 7, True)


def test_a_frozen_class_and_one_that_is_not() -> None:
    with pytest.raises(TypeError, match="frozen"):

        @dataclass(slots=True)
        class Open(Kept):
            more: int = 0


def test_pickled_and_copied() -> None:
    value = Kept(1, ("a",))
    assert pickle.loads(pickle.dumps(value)) == copy.copy(value) == value


def test_methods_are_written_when_they_are_looked_up() -> None:
    @dataclass(frozen=True, slots=True)
    class Late:
        number: int

    assert Late(1) == Late(1)
    assert not any(inspect.isfunction(vars(Late)[name]) for name in ("__init__", "__eq__"))
    assert all(Late(number) == Late(number) != Late(number + 1) for number in range(20))
    written = {name for name in ("__init__", "__repr__", "__eq__", "__hash__") if inspect.isfunction(vars(Late)[name])}
    assert written == {"__init__", "__eq__"}


def test_every_class_of_the_package_is_made_so() -> None:
    others = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "hlotool").rglob("*.py")
        if path.name != "lazy_dataclass.py" and "from dataclasses import dataclass" in path.read_text(encoding="utf-8")
    ]
    assert not others
