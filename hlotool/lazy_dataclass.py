"""``dataclass`` of the standard library, whose classes get each method, and their `fields`, when these are looked up.

The standard one writes the text of every method and has Python compile it where a class is defined, and looks at every
annotation several times: half a millisecond a class, which was half of what importing hlotool took.  Most programs use
few of its classes, and few of their methods.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Generic

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from dataclasses import dataclass
    from typing import Any
else:

    def dataclass(
        *, frozen: bool = False, slots: bool = False, kw_only: bool = False, eq: bool = True, repr: bool = True
    ) -> Callable[[type[Any]], type[Any]]:
        """As `dataclasses.dataclass`, which says what the options mean."""

        def decorate(cls: type[Any]) -> type[Any]:
            rows = _rows(cls, kw_only) if slots else None
            own = vars(cls)
            has_hash = own.get("__hash__") is not None
            added: dict[str, Any] = {}
            for name in ["__init__"] + ["__repr__"] * repr + ["__eq__"] * eq + ["__hash__"] * (eq and frozen):
                if name not in own or (name == "__hash__" and not has_hash):
                    added[name] = _Late(name, rows)
            if eq and not frozen and not has_hash:
                added["__hash__"] = None
            if frozen:
                added["__setattr__"], added["__delattr__"] = _refuse_assignment, _refuse_deletion
                if slots:
                    added["__getstate__"], added["__setstate__"] = _state, _set_state
            if rows is not None:
                for name in _OF_FIELDS:
                    added[name] = _LateFields(name, rows, frozen)
                return _slotted(cls, rows, added)
            made = _processed(cls, frozen, slots, kw_only)
            for name, method in added.items():
                if isinstance(method, _Late):
                    method.__set_name__(made, name)
                setattr(made, name, method)
            made.__dataclass_params__.frozen = frozen
            return made

        return decorate


_OF_FIELDS = ("__dataclass_fields__", "__dataclass_params__")
_NONE = dataclasses.MISSING


class _Row:
    """A field, as far as classes and their methods are about it: `given` is what the class has under its name."""

    __slots__ = ("compare", "default", "factory", "given", "hash", "init", "kw_only", "name", "type")

    def __init__(self, name: str, kind: Any, given: Any, kw_only: bool) -> None:
        self.name, self.type, self.given = name, kind, given
        self.default: Any = given
        self.factory: Any = _NONE
        self.init, self.compare, self.hash, self.kw_only = True, True, True, kw_only
        if isinstance(given, dataclasses.Field):
            self.default, self.factory, self.init, self.compare = (
                given.default, given.default_factory, given.init, given.compare
            )  # fmt: skip
            self.hash = given.compare if given.hash is None else given.hash
            self.kw_only = kw_only if given.kw_only is _NONE else bool(given.kw_only)

    @property
    def is_optional(self) -> bool:
        """Whether it has a default."""
        return self.default is not _NONE or self.factory is not _NONE


def _rows(cls: type[Any], kw_only: bool) -> list[_Row] | None:
    """The fields of a class; None where the standard library has to say which these are, or what is wrong with them."""
    if type(cls) is not type or any(base is not object and base is not Generic for base in cls.__bases__):
        return None
    own, rows, is_optional = vars(cls), [], False
    for name, kind in cls.__annotations__.items():
        if not isinstance(kind, str) or "InitVar" in kind or "KW_ONLY" in kind:
            return None
        if kind.startswith("ClassVar"):
            continue
        row = _Row(name, kind, own.get(name, _NONE), kw_only)
        is_later = is_optional and row.init and not row.kw_only and not row.is_optional
        if "ClassVar" in kind or row.default.__class__.__hash__ is None or is_later:
            return None
        is_optional |= row.init and not row.kw_only and row.is_optional
        rows.append(row)
    return rows


def _processed(cls: type[Any], frozen: bool, slots: bool, kw_only: bool) -> type[Any]:
    """The class with its fields, by the standard library."""
    given = {"slots": slots, "kw_only": kw_only}
    if any(map(dataclasses.is_dataclass, cls.__bases__)):  # a frozen class does not inherit from others
        given["frozen"] = frozen
    return dataclasses.dataclass(init=False, eq=False, repr=False, **given)(cls)


def _slotted(cls: type[Any], rows: Sequence[_Row], added: Mapping[str, Any]) -> type[Any]:
    """A new class with slots for the fields, which cannot be changed later, and with what is `added`: Python takes as
    long to put that there one by one as to make the class."""
    content = dict(vars(cls))
    if "__slots__" in content:
        raise TypeError(f"{cls.__name__} already specifies __slots__")
    content["__slots__"] = tuple([row.name for row in rows])
    for name in (*content["__slots__"], "__dict__", "__weakref__"):
        content.pop(name, None)
    content.setdefault("__match_args__", tuple([row.name for row in rows if row.init and not row.kw_only]))
    content.setdefault("__replace__", _replaced)
    content.update(added)
    made = type(cls.__name__, cls.__bases__, content)
    made.__qualname__ = cls.__qualname__
    return made


_FEW = 16
"""Calls of a method that do without its text: most classes have no more in a small program."""


class _Late:
    """The method `name` of the dataclass that has it, until somebody looks it up; the standard library knows its fields
    if `rows` are None."""

    __slots__ = ("_class", "_left", "_name", "_rows")

    def __init__(self, name: str, rows: Sequence[_Row] | None) -> None:
        self._name, self._rows = name, rows
        self._left = _FEW if name in _WITHOUT_TEXT and rows is not None else 0

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._class = owner

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        if self._left and type(instance) is self._class:
            self._left -= 1
            return partial(getattr(self, _WITHOUT_TEXT[self._name]), instance)
        return self._method().__get__(instance, owner)

    def _method(self) -> Any:
        cls, name = self._class, self._name
        if name == "__repr__":
            method = _repr(cls)
        else:
            rows = self._rows
            if rows is None:
                rows = [_Row(row.name, row.type, row, False) for row in dataclasses.fields(cls)]
            method = _init(cls, rows) if name == "__init__" else _eq(rows) if name == "__eq__" else _hash(rows)
        method.__qualname__, method.__module__ = f"{cls.__qualname__}.{name}", cls.__module__
        setattr(cls, name, method)
        return method

    def _set_fields(self, instance: Any, *given: Any, **named: Any) -> None:
        """What ``__init__`` does, which takes as long to write as this takes a dozen times."""
        rows = self._rows
        assert rows is not None
        left, count = iter(given), 0
        for row in rows:
            value = _NONE
            if row.init:
                value = _NONE if row.kw_only else next(left, _NONE)
                if value is not _NONE:
                    count += 1
                elif row.name in named:
                    value = named[row.name]
                    count += 1
            if value is _NONE:
                value = row.default if row.factory is _NONE else row.factory()
            if value is not _NONE:
                object.__setattr__(instance, row.name, value)
            elif row.init:
                count = -1
                break
        if count != len(given) + len(named):
            self._method()(instance, *given, **named)  # which says what is wrong
        elif hasattr(self._class, "__post_init__"):
            instance.__post_init__()

    def _is_equal(self, instance: Any, other: object) -> Any:
        """What ``__eq__`` says."""
        if other.__class__ is not instance.__class__:
            return NotImplemented
        names = [row.name for row in self._rows or () if row.compare]
        return [getattr(instance, name) for name in names] == [getattr(other, name) for name in names]

    def _hash_of(self, instance: Any) -> int:
        """What ``__hash__`` says."""
        return hash(tuple([getattr(instance, row.name) for row in self._rows or () if row.hash]))


_WITHOUT_TEXT = {"__init__": "_set_fields", "__eq__": "_is_equal", "__hash__": "_hash_of"}
"""How a method is called before its text is written."""


class _LateFields:
    """What the standard library keeps of the fields of a dataclass, under this `name`, until somebody asks."""

    __slots__ = ("_class", "_frozen", "_name", "_rows")

    def __init__(self, name: str, rows: Sequence[_Row], frozen: bool) -> None:
        self._name, self._rows, self._frozen = name, rows, frozen

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._class = owner

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        rows = [(row.name, row.type, _field(row)) for row in self._rows]
        made = _made(rows, self._class.__module__, init=False, repr=False, eq=False)
        made.__dataclass_params__.frozen = self._frozen
        for name in _OF_FIELDS:
            setattr(self._class, name, getattr(made, name))
        return getattr(made, self._name)


def _field(row: _Row) -> Any:
    found = row.given
    if not isinstance(found, dataclasses.Field):
        found = dataclasses.field() if found is _NONE else dataclasses.field(default=found)
    found.kw_only = row.kw_only
    return found


def _made(rows: Iterable[tuple[str, Any, Any]], module: str, **options: Any) -> Any:
    """A class that the standard library makes."""
    named = {"__doc__": "-", "__module__": module}  # else it would write down what the class is called with
    return dataclasses.make_dataclass("Written", rows, namespace=named, match_args=False, **options)


def _init(cls: type[Any], rows: Sequence[_Row]) -> Any:
    """The method that sets all fields.  (`make_dataclass` would write those that refuse assignments as well.)"""
    known: dict[str, Any] = {"_set": object.__setattr__, "_factory": _FACTORY}
    parameters: dict[bool, list[str]] = {False: ["self"], True: []}
    frozen = vars(cls).get("__setattr__") is _refuse_assignment
    assign = "_set(self, {!r}, {})" if frozen else "self.{} = {}"
    lines, types = [], {}
    for row in rows:
        name, value, default = row.name, row.name, ""
        if row.factory is not _NONE:
            known[f"_make_{name}"], default = row.factory, "_factory"
            value = f"_make_{name}() if {name} is _factory else {name}" if row.init else f"_make_{name}()"
        elif row.default is not _NONE:
            known[f"_default_{name}"], default = row.default, f"_default_{name}"
            value = name if row.init else default
        if row.init:
            parameters[row.kw_only].append(f"{name}={default}" if default else name)
            types[name] = row.type
        if row.init or default:
            lines.append(assign.format(name, value))
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    head = ", ".join([*parameters[False], *(["*", *parameters[True]] if parameters[True] else [])])
    exec(f"def __init__({head}):\n " + "\n ".join(lines or ["pass"]), known)
    known["__init__"].__annotations__ = {**types, "return": None}
    return known["__init__"]


class _Factory:
    """What a parameter is by default whose field has a factory of defaults."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _eq(rows: Sequence[_Row]) -> Any:
    """The method that says whether two instances have equal fields."""
    names = [row.name for row in rows if row.compare]
    return _written(
        "def __eq__(self, other):\n"
        " if other.__class__ is not self.__class__: return NotImplemented\n"
        f" return {_values('self', names)} == {_values('other', names)}",
        "__eq__",
    )


def _hash(rows: Sequence[_Row]) -> Any:
    """The method that hashes the fields."""
    names = [row.name for row in rows if row.hash]
    return _written(f"def __hash__(self): return hash({_values('self', names)})", "__hash__")


def _values(owner: str, names: Sequence[str]) -> str:
    """The text of a tuple of attributes."""
    return f"({''.join(f'{owner}.{name}, ' for name in names)})"


def _written(text: str, name: str) -> Any:
    known: dict[str, Any] = {}
    exec(text, known)
    return known[name]


def _repr(cls: type[Any]) -> Any:
    """The method that shows the fields, as the standard library writes it."""
    rows = [(row.name, row.type, row) for row in dataclasses.fields(cls)]
    return vars(_made(rows, cls.__module__, init=False, eq=False))["__repr__"]


def _replaced(self: Any, /, **changes: Any) -> Any:
    """A copy with other values in some fields: what `copy.replace` calls."""
    return dataclasses.replace(self, **changes)


def _refuse_assignment(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, row.name) for row in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for row, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, row.name, value)
