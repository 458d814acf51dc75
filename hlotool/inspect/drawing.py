"""Drawings as values: made by `Module.graph`, shown by notebooks, saved to files."""

from __future__ import annotations

from html import escape
from pathlib import Path

from hlotool.analysis.cost import ModuleCost
from hlotool.inspect.files import write_file
from hlotool.inspect.graph import draw_scene
from hlotool.inspect.page import PageOptions, drawing_page
from hlotool.inspect.records import Records
from hlotool.inspect.scene import build_scene
from hlotool.inspect.scopes import add_scopes
from hlotool.inspect.select import Selection, selected
from hlotool.inspect.sketch import outer_boxes, sketch
from hlotool.ir import InputError, Instruction, Module
from hlotool.ir.verifier import check
from hlotool.lazy_dataclass import dataclass

__all__ = ["Drawing", "amounts", "drawing", "framed"]

_HEATS = ("bytes", "flops")
_MOST_SHOWN = 5_000  # instructions of a module whose page goes into a notebook
_MOST_BYTES = 4 << 20  # of that page


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawing of `module`, or of the part that was chosen."""

    module: Module
    selection: Selection
    heat: str | None = None

    def __repr__(self) -> str:
        return f"Drawing({self.module!r})"

    @property
    def html(self) -> str:
        """The page to look around in; it needs neither network nor other files."""
        scene = build_scene(self.module, self.selection)
        add_scopes(scene)
        records = Records()
        records.add(scene, self.module.name)
        note = f"{self.module.instruction_count():,} instructions"
        return drawing_page(records, PageOptions(self.module.name, note, heat=self.heat or "group"))

    @property
    def svg(self) -> str:
        """A picture of the outermost boxes: fusions and loops are closed.  `dot` has what is in them, too."""
        return sketch(build_scene(self.module, self.selection))

    @property
    def dot(self) -> str:
        """The text for Graphviz."""
        heat = None if self.heat is None else amounts(self.module, self.heat)
        return draw_scene(build_scene(self.module, self.selection), heat=heat)

    @property
    def boxes(self) -> int:
        """How many boxes `svg` has."""
        return len(outer_boxes(build_scene(self.module, self.selection)))

    def save(self, path: str | Path) -> None:
        """Write a file in the form that its name ends in; InputError for others than .html, .svg, .dot and .gv."""
        suffix = Path(path).suffix.lower()
        match suffix:
            case ".html" | ".htm":
                write_file(path, self.html)
            case ".svg":
                write_file(path, self.svg)
            case ".dot" | ".gv":
                write_file(path, self.dot)
            case _:
                raise InputError(f"{path}: a drawing is saved as .html, .svg or .dot, not as {suffix or 'that'}")

    def _repr_html_(self) -> str:
        count = self.module.instruction_count()
        page = self.html if count <= _MOST_SHOWN else ""
        if not 0 < len(page.encode()) <= _MOST_BYTES:
            how = "hlo.graph().save('module.html')"
            return f"<p>{count:,} instructions are too many for a notebook: <code>{how}</code> and open that.</p>"
        return framed(page)


def drawing(
    module: Module,
    *,
    computation: str | None = None,
    around: str | None = None,
    radius: int = 3,
    paths: tuple[str, str] | None = None,
    heat: str | None = None,
) -> Drawing:
    """A drawing of the entry or of what is chosen; see `hlotool.Module.graph`.

    VerificationError where the module is not valid.
    """
    if sum(option is not None for option in (computation, around, paths)) > 1:
        raise InputError("computation, around and paths do not go together")
    if heat is not None and heat not in _HEATS:
        raise InputError(f"heat: expected {' or '.join(_HEATS)}, not {heat!r}")
    check(module)
    return Drawing(module, selected(module, computation, around, radius, paths) or Selection(module.entry), heat)


def amounts(module: Module, heat: str) -> dict[Instruction, float]:
    """What every instruction has of ``bytes`` or ``flops``, to be coloured by."""
    costs = ModuleCost(module)
    return {
        i: float(costs.of(i).bytes if heat == "bytes" else costs.of(i).flops + costs.of(i).transcendentals)
        for i in module.instructions()
    }


def framed(page: str, high: int = 480) -> str:
    """A page as an element of another one: it cannot reach what is around it."""
    style = f"width:100%;height:{high}px;border:1px solid #8888;border-radius:8px"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escape(page)}"></iframe>'
