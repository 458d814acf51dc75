"""What can be chosen for an application, as data: knobs with their values, and configurations, one value of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from itertools import product
from typing import Any

from hlotool.ir import InputError
from hlotool.lazy_dataclass import dataclass

__all__ = ["INT8", "PRECISIONS", "UNAVAILABLE", "Configuration", "Knob", "Space", "configuration_of"]

INT8 = "int8"
"""The precision whose modules are made of inputs to calibrate with (`quantised`)."""

PRECISIONS: Mapping[str, str] = {
    "f32": "",
    "bf16-products": "change-precision{to=bf16}",
    "f16-products": "change-precision{to=f16}",
    "bf16": "change-precision{to=bf16,scope=values}",
    "f16": "change-precision{to=f16,scope=values}",
    INT8: "",
}
"""Precisions and the passes that make them: products of narrow operands, or all values narrow.  Interface and sums
stay f32.  No pass makes integers: their modules are others."""

UNAVAILABLE: Mapping[str, str] = {
    INT8: "it takes inputs to calibrate with: --calibrate FILE",
}
"""Precisions that cannot be chosen as things are, and what they take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One value of each knob.  `batch` is 0 where the modules keep the sizes that they have."""

    level: str = "O2"
    precision: str = "f32"
    target: str = "host"
    batch: int = 0
    threads: int = 1
    replicas: int = 1
    tuning: str = "off"

    @property
    def pipeline(self) -> str:
        """The passes that make it; those ahead of a change of precision bring what XLA fused back into view."""
        narrow = PRECISIONS[self.precision]
        return f"unfuse,inline,{narrow},{self.level}" if narrow else self.level

    def json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        batch = f" batch {self.batch}" if self.batch else ""
        tuned = "" if self.tuning == "off" else " tuned"
        return f"{self.level} {self.precision} {self.target}{batch}{tuned}, {self.replicas} x {self.threads} threads"


def configuration_of(values: Mapping[str, Any]) -> Configuration:
    """What `json` gave; InputError where that is none."""
    names = {row.name: type(row.default) for row in fields(Configuration)}
    if set(values) != set(names) or any(type(values[name]) is not kind for name, kind in names.items()):
        raise InputError(f"this is no configuration: {dict(values)}")
    return Configuration(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """Something to choose: its values, the first one of which is what hlotool does by itself; `meaning` for people."""

    name: str
    values: tuple[str | int, ...]
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The knobs, and how many `cores` the threads of all replicas share."""

    knobs: tuple[Knob, ...]
    cores: int

    def values(self, name: str) -> tuple[str | int, ...]:
        return next(knob.values for knob in self.knobs if knob.name == name)

    @property
    def usual(self) -> Configuration:
        """What hlotool does where nobody chooses: one process with all threads."""
        return Configuration(**{knob.name: knob.values[0] for knob in self.knobs})  # type: ignore[arg-type]

    def configurations(self) -> Iterator[Configuration]:
        """All of them, the usual one first, but those with more threads than there are cores."""
        names = [knob.name for knob in self.knobs]
        for values in product(*(knob.values for knob in self.knobs)):
            found = Configuration(**dict(zip(names, values, strict=True)))  # type: ignore[arg-type]
            if found.threads * found.replicas <= self.cores:
                yield found

    @property
    def unavailable(self) -> dict[str, str]:
        """What is no value of a knob, and why not."""
        missing = UNAVAILABLE.keys() - set(self.values("precision"))
        return {f"precision {name}": why for name, why in UNAVAILABLE.items() if name in missing}

    def json(self) -> dict[str, Any]:
        return {
            "cores": self.cores,
            "knobs": [{"name": k.name, "values": list(k.values), "meaning": k.meaning} for k in self.knobs],
            "unavailable": self.unavailable,
            "configurations": sum(1 for _ in self.configurations()),
        }
