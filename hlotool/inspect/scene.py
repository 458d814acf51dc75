"""Scenes: a module as nested boxes with edges between them, the model that every drawing is made from.

An instruction is a box.  A fusion is a box around its body; so are the computations of loops, branches and calls, in
the box of the instruction that calls them first.  Small constants are written into their users, a get-tuple-element is
the number on an edge, and the parameters of a fusion are the edges that enter it.  Paths are made of computation and
instruction names: the same module gives the same scene, and a box keeps its path from step to step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import field
from typing import NamedTuple

from hlotool.inspect.labels import inline_value, is_element, is_word
from hlotool.inspect.select import Selection
from hlotool.ir import Computation, Instruction, Module
from hlotool.lazy_dataclass import dataclass

__all__ = ["Box", "Edge", "Scene", "build_scene"]

_DEEPEST = 12
_COPIES = 4  # boxes of a scene per instruction of the module: bodies that several fusions share are drawn for each


@dataclass(slots=True, eq=False, repr=False)
class Box:
    """`kind` is ``instruction``, ``computation``, ``scope`` (instructions that belong together), ``strip`` (parameters)
    or ``value`` (the constant that a fusion's parameter stands for).

    `title` names what is no instruction.  `cut` tells that operands or users were left out of the scene, `shown` is
    the path of the box that has the called computation, when that is drawn elsewhere.
    """

    path: str
    kind: str
    title: str = ""
    instruction: Instruction | None = None
    computation: Computation | None = None
    children: list[Box] = field(default_factory=list)
    parent: Box | None = None
    cut: bool = False
    shown: str = ""

    def add(self, child: Box) -> Box:
        child.parent = self
        self.children.append(child)
        return child

    def walk(self) -> Iterator[Box]:
        """This box and all in it, outer ones first."""
        stack = [self]
        while stack:
            box = stack.pop()
            yield box
            stack.extend(reversed(box.children))


class Edge(NamedTuple):
    """`element` is the part of the source's tuple that flows; `operand` the number where the order matters, else -1.

    `kind` is ``data``, ``control`` (order only) or ``next`` (from an iteration of a loop to the next).
    """

    source: Box
    target: Box
    value: Instruction
    element: str = ""
    operand: int = -1
    kind: str = "data"


@dataclass(slots=True)
class Scene:
    """`root` holds everything; edges stand in the order of their targets."""

    module: Module
    root: Box
    edges: list[Edge]


class _End(NamedTuple):
    """Where an edge starts: a box, and the element of its tuple that the edge carries."""

    box: Box
    element: str = ""


def build_scene(module: Module, selection: Selection | None = None) -> Scene:
    """The scene of the entry computation, or of what was selected, and all that it calls."""
    selection = Selection(module.entry) if selection is None else selection
    builder = _SceneBuilder(module, selection)
    top = selection.computation
    root = Box(top.name, "computation", top.name, computation=top)
    builder.computation(root, top, top.name, 0)
    return Scene(module, root, builder.edges)


class _SceneBuilder:
    """`ends` says where edges from an instruction start if not at a box of its own; `drawn` has the box of every
    computation that was drawn already."""

    def __init__(self, module: Module, selection: Selection) -> None:
        self.selection = selection
        self.edges: list[Edge] = []
        self.ends: dict[tuple[str, Instruction], _End] = {}
        self.drawn: dict[Computation, Box] = {}
        self.budget = 1000 + _COPIES * module.instruction_count()

    def computation(self, box: Box, computation: Computation, path: str, depth: int) -> None:
        """Put the instructions of a computation into `box`; `path` makes their paths unique."""
        self.drawn.setdefault(computation, box)
        for instruction in computation:
            if self.selection.has(instruction) and inline_value(instruction) is None and not is_element(instruction):
                self.draw(box, instruction, path, depth)

    def draw(self, parent: Box, instruction: Instruction, path: str, depth: int) -> None:
        body = instruction.attributes.get("calls")
        if instruction.opcode == "fusion" and isinstance(body, Computation) and self.may_draw(body, depth):
            self.fusion(parent, instruction, body, path, depth)
        else:
            self.instruction(parent, instruction, path, depth)

    def may_draw(self, computation: Computation, depth: int) -> bool:
        """Whether to draw a computation here: those that call nothing anywhere, others once; not too deep or much."""
        if depth >= _DEEPEST or len(computation) > self.budget:
            return False
        if computation in self.drawn and any(not is_word(one, c) for one in computation for c in one.called):
            return False
        self.budget -= len(computation)
        return True

    # ---- instructions

    def box_of(self, parent: Box, instruction: Instruction, path: str) -> Box:
        box = parent.add(Box(f"{path}/{instruction.name}", "instruction", instruction=instruction))
        self.ends[path, instruction] = _End(box)
        box.cut = instruction in self.selection.cut
        return box

    def instruction(self, parent: Box, instruction: Instruction, path: str, depth: int) -> None:
        box = self.box_of(parent, instruction, path)
        called = [(key, c) for key, c in called_by_key(instruction) if not is_word(instruction, c)]
        entered: set[int] = set()
        result: _End | None = None
        for key, callee in called:
            if callee in self.drawn or depth >= _DEEPEST:
                box.shown = box.shown or (self.drawn[callee].path if callee in self.drawn else "")
                continue
            inside = f"{box.path}/{key}"
            if instruction.opcode == "call":  # one box is enough
                box.computation = callee
                self.computation(box, callee, inside, depth + 1)
            else:
                inner = box.add(Box(inside, "computation", key, computation=callee))
                self.computation(inner, callee, inside, depth + 1)
            for parameter, number in _entering(instruction, key, callee):
                entered.add(number)
                self.operand(instruction, number, path, self.end(parameter, inside).box)
            if instruction.opcode == "call" or (instruction.opcode == "while" and key == "body"):
                result = self.end(callee.root, inside)
            if instruction.opcode == "while" and key == "body" and result is not None:
                first = self.end(callee.parameters[0], inside).box
                self.edges.append(Edge(result.box, first, callee.root, result.element, kind="next"))
        self.operands(instruction, entered, path, box)
        if result is not None:
            self.ends[path, instruction] = result

    def operands(self, instruction: Instruction, entered: Collection[int], path: str, box: Box) -> None:
        """Edges from the operands but for those in `entered`, which enter the box; numbered where order matters."""
        left = [number for number in range(len(instruction.operands)) if number not in entered]
        drawn = [number for number in left if inline_value(instruction.operands[number]) is None]
        ordered = len(drawn) > 1 and not instruction.has("commutative") and instruction.opcode != "tuple"
        for number in drawn:
            self.operand(instruction, number, path, box, ordered)
        for before in instruction.control_predecessors:
            if self.selection.has(before):
                end = self.end(before, path)
                self.edges.append(Edge(end.box, box, before, end.element, kind="control"))

    def operand(self, instruction: Instruction, number: int, path: str, target: Box, ordered: bool = False) -> None:
        operand = instruction.operands[number]
        if inline_value(operand) is None and self.has_end(operand):
            end = self.end(operand, path)
            self.edges.append(Edge(end.box, target, operand, end.element, number if ordered else -1))

    def has_end(self, instruction: Instruction) -> bool:
        """Whether the instruction, or the tuple that it takes an element of, is in the scene."""
        while is_element(instruction):
            instruction = instruction.operands[0]
        return self.selection.has(instruction)

    def end(self, operand: Instruction, path: str) -> _End:
        """Where an edge from `operand` starts."""
        numbers: list[str] = []
        while (path, operand) not in self.ends and is_element(operand):
            numbers.append(f".{operand.attributes['index']}")
            operand = operand.operands[0]
        box, element = self.ends[path, operand]
        return _End(box, element + "".join(reversed(numbers)))

    # ---- fusions

    def fusion(self, parent: Box, fusion: Instruction, body: Computation, path: str, depth: int) -> None:
        """A box with the body of a fusion.  Its parameters have no boxes: their users hang on the operands."""
        box = self.box_of(parent, fusion, path)
        box.computation = body
        self.drawn.setdefault(body, box)
        root = body.root
        parts = root.operands if root.opcode == "tuple" and _read_by_elements(fusion) else []
        for parameter, operand in zip(body.parameters, fusion.operands, strict=True):
            value = inline_value(operand)
            if value is None and self.has_end(operand) and not parameter.is_root and parameter not in parts:
                self.ends[box.path, parameter] = self.end(operand, path)
                if not parameter.users:
                    self.operand(fusion, parameter.parameter_number, path, box)
                continue
            stand_in = box.add(Box(f"{box.path}/{parameter.name}", "value", value or "", parameter))
            self.ends[box.path, parameter] = _End(stand_in)
            if value is None and self.has_end(operand):
                self.operand(fusion, parameter.parameter_number, path, stand_in)
        for instruction in body:
            hidden = instruction.opcode == "parameter" or inline_value(instruction) is not None
            if hidden or is_element(instruction) or (parts and instruction is root):
                continue
            self.draw(box, instruction, box.path, depth + 1)
        self.operands(fusion, range(len(fusion.operands)), path, box)
        self.ends[path, fusion] = _End(box) if parts else self.end(root, box.path)
        for user in fusion.users if parts else ():
            if inline_value(parts[user.attributes["index"]]) is None:
                self.ends[path, user] = self.end(parts[user.attributes["index"]], box.path)


def _read_by_elements(fusion: Instruction) -> bool:
    """Whether every reader takes one element of the fusion's tuple."""
    return not fusion.is_root and all(u.opcode == "get-tuple-element" and not u.is_root for u in fusion.users)


def called_by_key(instruction: Instruction) -> list[tuple[str, Computation]]:
    """Called computations under the words that tell them apart."""
    if not instruction.called:
        return []
    found = []
    for key, value in instruction.attributes.items():
        if isinstance(value, Computation):
            found.append((key.removesuffix("_computation").replace("to_apply", "computation"), value))
        elif isinstance(value, tuple) and value and isinstance(value[0], Computation):
            found += [(f"branch {number}", c) for number, c in enumerate(value)]
    return found


def _entering(caller: Instruction, key: str, callee: Computation) -> list[tuple[Instruction, int]]:
    """(parameter, operand number) pairs of a computation that is entered with its caller's operands."""
    if caller.opcode in ("while", "call"):
        return [(parameter, number) for number, parameter in enumerate(callee.parameters)]
    if caller.opcode == "conditional":
        branch = {"true": 0, "false": 1}.get(key)
        return [(callee.parameters[0], 1 + (int(key.split()[1]) if branch is None else branch))]
    return []
