"""The database of tuned kernels of an application: what there is for its processors, and the kernels of one of its
configurations, for which `hlotool.harness.tune` searches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from hlotool.driver.tuned import Entry, read_database
from hlotool.harness.application.predict import kernels_to_tune
from hlotool.harness.application.replica import machine_for
from hlotool.harness.application.space import Configuration, Space
from hlotool.harness.children import ChildDied, Children, TimeLimit
from hlotool.harness.journal import Journal
from hlotool.harness.tune import Budget, Local, Plan, entry_for, search
from hlotool.harness.tune.trial import Setting
from hlotool.ir import HloError
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.tuning import shipped, target_key

__all__ = ["Tuner", "known_entries"]


def known_entries(space: Space, databases: Iterable[Path]) -> list[Entry]:
    """The entries for the processors of a space: those of `databases`, the first of which counts, and those that
    hlotool brings along.  InputError where a file is no database."""
    pairs = {(str(target), int(threads)) for target in space.values("target") for threads in space.values("threads")}
    targets = {target_key(machine_for(*pair)) for pair in pairs}
    brought = [path for target in sorted(targets) if (path := shipped(target)) is not None]
    found: dict[tuple[str, str, str], Entry] = {}
    for path in (*databases, *brought):
        for entry in read_database(path).entries.values():
            if entry.target in targets:
                found.setdefault(entry.place, entry)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Tuner:
    """Tunes the kernels of configurations of the application in `folder`; `keep` gets what is found, `tell` hears what
    is being done.  A candidate may take `limit` seconds."""

    folder: str
    limit: float
    keep: Callable[[list[Entry]], None]
    tell: Callable[[str], None]

    def __call__(self, configuration: Configuration, seconds: float) -> None:
        """Search for so many seconds.  What dies or hangs meanwhile is a child."""
        self.tell(f"tuning the kernels of {configuration}")
        try:
            with Children(1, self.limit) as children:
                subjects = children.submit(kernels_to_tune, self.folder, configuration).result()
        except (ChildDied, TimeLimit, HloError):
            return  # what cannot be predicted has no order of kernels
        machine = machine_for(configuration.target, configuration.threads)
        lab = Local(Setting(machine, configuration.threads, False), self.limit)
        try:
            result = search(subjects, lab, Budget(seconds), Plan(), Journal.open(None, {}), self.tell)
        finally:
            lab.close()
        self.keep([entry_for(one, target_key(machine)) for one in result.found])
