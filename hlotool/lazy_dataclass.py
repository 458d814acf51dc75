"""``dataclass`` of the standard library, whose classes get each method when it is first looked up.

The standard one writes the text of every method and has Python compile it where a class is defined: half a millisecond
a class, which was half of what importing hlotool took.  Most programs use few of its classes, and few of their methods.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass
    from typing import Any
else:

    def dataclass(
        *, frozen: bool = False, slots: bool = False, kw_only: bool = False, eq: bool = True, repr: bool = True
    ) -> Callable[[type[Any]], type[Any]]:
        """As `dataclasses.dataclass`, which says what the options mean."""

        def decorate(cls: type[Any]) -> type[Any]:
            given = {"slots": slots, "kw_only": kw_only}
            if any(map(dataclasses.is_dataclass, cls.__bases__)):  # a frozen class does not inherit from others
                given["frozen"] = frozen
            made = dataclasses.dataclass(init=False, eq=False, repr=False, **given)(cls)
            has_hash = vars(made).get("__hash__") is not None
            wanted = ["__init__"] + ["__repr__"] * repr + ["__eq__"] * eq + ["__hash__"] * (eq and frozen)
            for name in wanted:
                if name not in vars(made) or (name == "__hash__" and not has_hash):
                    setattr(made, name, _Late(made, name))
            if eq and not frozen and not has_hash:
                made.__hash__ = None
            made.__dataclass_params__.frozen = frozen
            if frozen:
                made.__setattr__, made.__delattr__ = _refuse_assignment, _refuse_deletion
                if slots:
                    made.__getstate__, made.__setstate__ = _state, _set_state
            return made

        return decorate


class _Late:
    """The method `name` of the dataclass `cls`, until somebody looks it up."""

    __slots__ = ("_class", "_name")

    def __init__(self, cls: type[Any], name: str) -> None:
        self._class, self._name = cls, name

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        cls, name = self._class, self._name
        method = _init(cls) if name == "__init__" else _other(cls, name)
        method.__qualname__, method.__module__ = f"{cls.__qualname__}.{name}", cls.__module__
        setattr(cls, name, method)
        return method.__get__(instance, owner)


def _init(cls: type[Any]) -> Any:
    """The method that sets all fields.  (`make_dataclass` would write those that refuse assignments as well.)"""
    known: dict[str, Any] = {"_set": object.__setattr__, "_factory": _FACTORY}
    parameters: dict[bool, list[str]] = {False: ["self"], True: []}
    assign = "_set(self, {!r}, {})" if cls.__dataclass_params__.frozen else "self.{} = {}"
    lines, types = [], {}
    for row in dataclasses.fields(cls):
        name, value, default = row.name, row.name, ""
        if row.default_factory is not dataclasses.MISSING:
            known[f"_make_{name}"], default = row.default_factory, "_factory"
            value = f"_make_{name}() if {name} is _factory else {name}" if row.init else f"_make_{name}()"
        elif row.default is not dataclasses.MISSING:
            known[f"_default_{name}"], default = row.default, f"_default_{name}"
            value = name if row.init else default
        if row.init:
            parameters[bool(row.kw_only)].append(f"{name}={default}" if default else name)
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
_WRITTEN_WITH = {"__repr__": {"repr": True}, "__eq__": {"eq": True}, "__hash__": {"unsafe_hash": True}}


def _other(cls: type[Any], name: str) -> Any:
    """One of the other methods, as the standard library writes it for the fields of `cls`."""
    rows = [(row.name, row.type, row) for row in dataclasses.fields(cls)]
    options: dict[str, Any] = {"init": False, "repr": False, "eq": False, "match_args": False, **_WRITTEN_WITH[name]}
    return vars(dataclasses.make_dataclass("Written", rows, namespace={"__doc__": "-"}, **options))[name]


def _refuse_assignment(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, row.name) for row in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for row, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, row.name, value)
