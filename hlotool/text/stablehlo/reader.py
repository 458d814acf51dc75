"""Text of MLIR to operations: generic and pretty forms, regions, functions, aliases, resources.

Reading goes on after an error at the next operation; what could not be read leaves values without a type, which
nobody complains about again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from functools import partial
from typing import Any

from hlotool.ir import Shape
from hlotool.text.lexer import Cursor, SyntaxFailure
from hlotool.text.stablehlo.attributes import (
    Aliases,
    Reader,
    Resources,
    read_attribute,
    read_dictionary,
    read_symbol,
    skip_angles,
)
from hlotool.text.stablehlo.locations import Locations
from hlotool.text.stablehlo.pretty import brackets, clause, words_into
from hlotool.text.stablehlo.tree import (
    Attributes,
    Block,
    FunctionType,
    Mark,
    Number,
    Operation,
    Region,
    Value,
)
from hlotool.text.stablehlo.types import read_function_type, read_type, read_types

__all__ = ["OperationReader", "aliases_of", "read_top"]

_RESULTS = re.compile(r"%([\w$.\-]+)(?::(\d{1,6}))?", re.ASCII)
_USE = re.compile(r"%([\w$.\-]+)(?:#(\d{1,6}))?", re.ASCII)
_RESULTS_BEGIN = re.compile(r"(?:%[\w$.\-]+(?::\d+)?\s*,\s*)*%[\w$.\-]+(?::\d+)?\s*=(?!=)", re.ASCII)
_GENERIC = re.compile(r'"([\w$.\-]+)"', re.ASCII)
_NAME = re.compile(r"[A-Za-z_][\w$]*(?:\.[\w$.]+)?", re.ASCII)
_WORD = re.compile(r"[A-Za-z_][\w]*", re.ASCII)
_KEY = re.compile(r"([A-Za-z_]\w*)\s*=(?!=)", re.ASCII)
_LABEL = re.compile(r"\^[\w$.\-]+", re.ASCII)
_LOC = re.compile(r"loc\(")
_DEFINITION = re.compile(r"^[ \t]*([#!])([A-Za-z_][\w$.\-]*)[ \t]*=[ \t]*", re.MULTILINE | re.ASCII)
_RESOURCES = re.compile(r"^[ \t]*\{-#", re.MULTILINE)
_RESOURCE = re.compile(r'([\w$.\-]+|"[^"\n]*")\s*:\s*"0x([0-9A-Fa-f]*)"', re.ASCII)
_STEP = re.compile(r'"(?:[^"\\\n]|\\.)*"?|//[^\n]*|[{}]|\n', re.DOTALL)
_STATEMENT = re.compile(r'[ \t]*(?:%[\w$.\-]|"[\w$.\-]+"|[A-Za-z_]\w*\.[a-z]|return\b|call\b|\^)', re.ASCII)
_SHORT = {"return": "func.return", "call": "func.call", "module": "builtin.module", "func": "func.func"}
_DIALECTS = ("stablehlo", "chlo", "func", "sdy", "check", "builtin", "mhlo", "interpreter")


def read_top(cursor: Cursor) -> Block:
    """The operations of a text; errors are among the diagnostics of the cursor."""
    aliases, types = aliases_of(cursor)
    reader = Reader(cursor, aliases, _resources(cursor))
    for name, (start, _end) in types.items():
        cursor.position = start
        with suppress(SyntaxFailure):  # said where it is used
            cursor.shapes[f"!{name}"] = read_type(cursor)
    cursor.position = 0
    found = OperationReader(reader, aliases)
    return found.top()


def aliases_of(cursor: Cursor) -> tuple[Aliases, Aliases]:
    """Where ``#name = ...`` and ``!name = ...`` stand."""
    attributes: Aliases = {}
    types: Aliases = {}
    for match in _DEFINITION.finditer(cursor.text):
        table = attributes if match.group(1) == "#" else types
        table.setdefault(match.group(2), (match.end(), match.start()))
    return attributes, types


def _resources(cursor: Cursor) -> Resources:
    """The blobs at the end of the file, without the alignment that their first four bytes say."""
    start = None
    for match in _RESOURCES.finditer(cursor.text):
        start = match.start()
    found: Resources = {}
    if start is None:
        return found
    for match in _RESOURCE.finditer(cursor.text, start):
        if len(match.group(2)) % 2 == 0:
            found[match.group(1).strip('"')] = bytes.fromhex(match.group(2))[4:]
    return found


def _public(name: str) -> str:
    if not name.startswith("mhlo."):
        return name
    from hlotool.text.stablehlo.operations import public_name

    return public_name(name)


class OperationReader:
    """Reads operations; `scopes` are the names of values, the innermost last."""

    def __init__(self, reader: Reader, aliases: Aliases) -> None:
        self.reader = reader
        self.cursor = reader.cursor
        own = Cursor(self.cursor.text, self.cursor.lines.file, self.cursor.lines.above + 1)
        self.locations = Locations(own, aliases)
        self.scopes: list[dict[str, list[Value]]] = [{}]

    # ---- blocks

    def top(self) -> Block:
        """All operations of the text, aliases and resources left out."""
        cursor, block = self.cursor, Block()
        while True:
            start = cursor.skip()
            if start >= len(cursor.text):
                return block
            if cursor.text[start] in "#!":
                if self._definition():
                    continue
                self._recover(start, cursor.fail(
                    "expected an operation, or the definition of a name", start
                ), block)
                continue
            if cursor.text.startswith("{-#", start):
                end = cursor.text.find("#-}", start)
                if end < 0:
                    cursor.report(cursor.diagnostic("'{-#' is not closed", start, start + 3, code="HLO0106"))
                    return block
                cursor.position = end + 3
                continue
            if cursor.text[start] == "}":
                cursor.report(cursor.diagnostic("'}' closes nothing", start, start + 1, code="HLO0106"))
                cursor.position = start + 1
                continue
            self._statement(block)

    def _definition(self) -> bool:
        """Go past ``#name = value``."""
        cursor = self.cursor
        found = _DEFINITION.match(cursor.text, cursor.text.rfind("\n", 0, cursor.position) + 1)
        if found is None or found.end() <= cursor.position:
            return False
        start = cursor.position
        cursor.position = found.end()
        try:
            if cursor.accept("loc"):
                skip_angles(cursor, found.end())
            elif found.group(1) == "!":
                read_type(cursor)
            else:
                read_attribute(self.reader)
        except SyntaxFailure as failure:
            self._recover(start, failure, None)
        return True

    def _statement(self, block: Block) -> None:
        """One operation into `block`; an error is reported, and left behind."""
        cursor = self.cursor
        start, depth, scopes = cursor.position, cursor.depth, len(self.scopes)
        try:
            block.operations.append(self.operation())
        except SyntaxFailure as failure:
            if failure.ends_statement and failure.diagnostic is None:
                raise
            cursor.depth = depth
            del self.scopes[scopes:]
            self._recover(start, failure, block)

    def _recover(self, start: int, failure: SyntaxFailure, block: Block | None) -> None:
        """Report, and go to the next line that begins an operation, or to the end of the region."""
        cursor = self.cursor
        cursor.report(failure.diagnostic)
        if block is not None:
            block.broken = True
        if failure.ends_statement:
            raise failure
        self._name_results(start)
        text = cursor.text
        depth = 0
        for step in _STEP.finditer(text, max(cursor.position, start)):
            found = step.group()
            if found == "{":
                depth += 1
            elif found == "}":
                if depth == 0:
                    cursor.position = step.start()
                    return
                depth -= 1
            elif found == "\n" and depth == 0 and step.end() > start and _STATEMENT.match(text, step.end()):
                cursor.position = step.end()
                return
        cursor.position = len(text)

    def _name_results(self, start: int) -> None:
        """The results of an operation that could not be read are values of which nothing is known."""
        cursor, position = self.cursor, start
        names: list[tuple[str, int]] = []
        while True:
            found = _RESULTS.match(cursor.text, position)
            if found is None:
                return
            names.append((found.group(1), min(int(found.group(2) or 1), 1000)))
            rest = re.compile(r"\s*([,=])\s*").match(cursor.text, found.end())
            if rest is None:
                return
            position = rest.end()
            if rest.group(1) == "=":
                break
        for name, count in names:
            self.scopes[-1][name] = [Value(None, name, None, n) for n in range(count)]

    def region(self, arguments: list[Value] | None = None) -> Region:
        """``{ operations }`` with or without labels; `arguments` are named before the brace."""
        cursor, region = self.cursor, Region()
        depth = cursor.depth
        cursor.deeper()
        opening = cursor.skip()
        cursor.expect("{")
        self.scopes.append({})
        block = Block()
        region.blocks.append(block)
        for argument in arguments or ():
            argument.owner = block
            block.arguments.append(argument)
            self.scopes[-1][argument.name] = [argument]
        first = True
        while True:
            start = cursor.skip()
            if start >= len(cursor.text):
                related = (("the region begins here", cursor.location(opening, opening + 1)),)
                raise SyntaxFailure(cursor.diagnostic(
                    "the text ends where '}' is expected", start, start, related=related, code="HLO0101"
                ))
            if cursor.accept("}"):
                break
            label = cursor.match(_LABEL)
            if label is not None:
                if not first:
                    block = Block()
                    region.blocks.append(block)
                if cursor.peek("("):
                    self.arguments(block)
                cursor.expect(":")
            else:
                self._statement(block)
            first = False
        self.scopes.pop()
        cursor.depth = depth
        return region

    def arguments(self, block: Block | None) -> list[tuple[Value, Attributes]]:
        """``(%a: type {attributes} loc(...), ...)``; they belong to `block`."""
        cursor = self.cursor
        cursor.expect("(")
        found: list[tuple[Value, Attributes]] = []
        while not cursor.accept(")"):
            if found:
                cursor.expect(",", "or ')'")
            name = cursor.match(_USE)
            if name is None:
                raise cursor.unexpected("an argument such as %arg0: tensor<f32>")
            cursor.expect(":")
            value = Value(read_type(cursor), name.group(1), block, len(found))
            attributes = read_dictionary(self.reader) if cursor.peek("{") else {}
            location = self._location()
            if location is not None:
                attributes["loc"] = location
            if block is not None:
                block.arguments.append(value)
                self.scopes[-1][value.name] = [value]
            found.append((value, attributes))
        return found

    # ---- operations

    def operation(self) -> Operation:
        """One operation with its results named."""
        cursor = self.cursor
        start = cursor.skip()
        names: list[tuple[str, int, int]] = []
        if cursor.text.startswith("%", start):
            while True:
                found = cursor.match(_RESULTS)
                if found is None:
                    raise cursor.unexpected("the name of a result")
                names.append((found.group(1), int(found.group(2) or 1), found.start()))
                if not cursor.accept(","):
                    break
            cursor.expect("=")
        count = sum(number for _, number, _ in names)
        at = cursor.skip()
        generic = cursor.match(_GENERIC)
        if generic is not None:
            operation, results = self._generic(_public(generic.group(1)), at, generic.end())
        else:
            operation, results = self._pretty(at, count)
        location = self._location()
        operation.end = operation.end or cursor.position
        if location is not None:
            operation.metadata = partial(self.locations.metadata, location)
        if names and count != len(results):
            message = f"{operation.name} gives {len(results)} result{'s' * (len(results) != 1)}, not {count}"
            raise cursor.fail(message, start, at)
        base = names[0][0] if names else ""
        operation.results = [Value(type_, base, operation, n) for n, type_ in enumerate(results)]
        position = 0
        for name, number, place in names:
            own = operation.results[position : position + number]
            for value in own:
                value.name = name
            self._define(name, own, place)
            position += number
        return operation

    def _define(self, name: str, values: list[Value], place: int) -> None:
        if name in self.scopes[-1]:
            cursor = self.cursor
            raise cursor.fail(f"%{name} is defined twice", place, place + len(name) + 1)
        self.scopes[-1][name] = values

    def use(self) -> Value:
        """``%name`` or ``%name#1``."""
        cursor = self.cursor
        found = cursor.match(_USE)
        if found is None:
            raise cursor.unexpected("a value such as %0")
        name = found.group(1)
        for scope in reversed(self.scopes):
            values = scope.get(name)
            if values is not None:
                index = int(found.group(2) or 0)
                if index >= len(values):
                    message = f"%{name} has {len(values)} result{'s' * (len(values) != 1)}"
                    raise cursor.fail(message, found.start(), found.end())
                return values[index]
        known = [one for scope in reversed(self.scopes) for one in list(scope)[-500:]]
        close = get_close_matches(name, known, 1)
        hint = f"did you mean '%{close[0]}'?" if close else "values are defined before they are used"
        raise cursor.fail(f"%{name} is not defined", found.start(), found.end(), hint, code="HLO0203")

    def uses(self) -> list[Value]:
        """``(%a, %b)``."""
        cursor, found = self.cursor, list[Value]()
        cursor.expect("(")
        while not cursor.accept(")"):
            if found:
                cursor.expect(",", "or ')'")
            found.append(self.use())
        return found

    def _location(self) -> int | None:
        """Go past ``loc(...)``; where its inside begins."""
        cursor = self.cursor
        cursor.skip()
        found = _LOC.match(cursor.text, cursor.position)
        if found is None:
            return None
        cursor.position = found.end() - 1
        skip_angles(cursor, found.start())
        return found.end()

    def _generic(self, name: str, start: int, end: int) -> tuple[Operation, list[Shape]]:
        """``"name"(operands) <{properties}> ({regions}) {attributes} : type``."""
        cursor, operands = self.cursor, self.uses()
        if cursor.peek("["):
            raise cursor.fail("operations with successors have no counterpart in HLO", cursor.position)
        attributes: Attributes = {}
        if cursor.accept("<"):
            attributes.update(read_dictionary(self.reader))
            cursor.expect(">")
        regions: list[Region] = []
        isolated = name in ("func.func", "builtin.module")
        scopes = self.scopes
        if isolated:
            self.scopes = [{}]
        if cursor.peek("("):
            cursor.expect("(")
            while not cursor.accept(")"):
                if regions:
                    cursor.expect(",", "or ')'")
                regions.append(self.region())
        self.scopes = scopes
        if cursor.peek("{"):
            attributes.update(read_dictionary(self.reader))
        cursor.expect(":")
        at = cursor.skip()
        type_ = read_function_type(cursor)
        self._check_operands(name, operands, type_.operands, at)
        return Operation(name, operands, attributes, regions, start, end), list(type_.results)

    def _check_operands(self, name: str, operands: list[Value], types: tuple[Shape, ...], start: int) -> None:
        """The operands have the types that are written."""
        cursor = self.cursor
        if len(operands) != len(types):
            message = f"{name} has {len(operands)} operands, but types of {len(types)}"
            raise cursor.fail(message, start, cursor.position)
        for operand, type_ in zip(operands, types, strict=True):
            if operand.type is not None and operand.type != type_:
                message = f"%{operand.name} is {_brief(operand.type)}, not {_brief(type_)}"
                raise cursor.fail(message, start, cursor.position, code="HLO0200")

    def _pretty(self, start: int, count: int) -> tuple[Operation, list[Shape]]:
        cursor = self.cursor
        found = cursor.match(_NAME)
        if found is None:
            raise cursor.unexpected("an operation")
        name = _public(_SHORT.get(found.group(), found.group()))
        end = cursor.position
        if "." not in name:
            close = get_close_matches(name, (*_SHORT, *_DIALECTS), 1)
            hint = f"did you mean '{close[0]}'?" if close else "operations are written dialect.name"
            raise cursor.fail(f"unknown operation '{name[:60]}'", start, end, hint, code="HLO0108")
        special = _SPECIAL.get(name)
        if special is not None:
            return special(self, start, count)
        from hlotool.text.stablehlo.operations import check_name

        check_name(cursor, name, start, end)
        operands, attributes = self._parts(name)
        results = self._types(name, operands, count)
        return Operation(name, operands, attributes, [], start, end), results

    def _parts(self, name: str) -> tuple[list[Value], Attributes]:
        """Operands and attributes, up to the colon ahead of the types or to the next operation."""
        cursor = self.cursor
        operands: list[Value] = []
        attributes: Attributes = {}
        words: list[tuple[Any, int, int]] = []
        while True:
            before = cursor.position
            at = cursor.skip()
            character = cursor.text[at : at + 1]
            if character == "%" and _RESULTS_BEGIN.match(cursor.text, at):
                break  # the next operation
            if character == "%":
                operands.append(self.use())
            elif character in (",", "(", ")") and character:
                cursor.position += 1
            elif character == "@":
                symbol = read_symbol(cursor)
                words.append((symbol if name == "func.call" else symbol.name, at, cursor.position))
            elif character == '"':
                words.append((cursor.string(), at, cursor.position))
            elif character == "[":
                brackets(self.reader, name, attributes)
            elif character == "<" and cursor.text.startswith("<{", at):
                cursor.position += 1
                attributes.update(read_dictionary(self.reader))
                cursor.expect(">")
            elif character == "<":
                inside = skip_angles(cursor, at)
                text = cursor.text[at : cursor.position]
                words.append((Mark("sdy", "sharding", inside, f"#sdy.sharding{text}"), at, cursor.position))
            elif character == "{":
                attributes.update(read_dictionary(self.reader))
            elif character == ":":
                break
            else:
                key = _KEY.match(cursor.text, at)
                if key is not None:
                    cursor.position = key.end()
                    clause(self.reader, name, key.group(1), at, attributes)
                    continue
                if cursor.text.startswith("dense", at) and name.startswith("check."):
                    attributes["value"] = read_attribute(self.reader)
                    continue
                word = _WORD.match(cursor.text, at)
                if word is None or word.group() == "loc" or "\n" in cursor.text[before:at]:
                    break  # the next operation begins a line
                cursor.position = word.end()
                words.append((word.group(), at, word.end()))
        words_into(name, words, cursor, attributes)
        return operands, attributes

    def _types(self, name: str, operands: list[Value], count: int) -> list[Shape]:
        """What stands after the colon: a function type, types of operands and results, or those of results."""
        cursor = self.cursor
        if not cursor.accept(":"):
            if count:
                raise cursor.unexpected("':' and a type")
            return []
        at = cursor.skip()
        found = read_types(cursor)
        while cursor.accept(","):
            found.append(read_type(cursor))
        if cursor.accept("->"):
            results = read_types(cursor)
            while cursor.accept(","):
                results.append(read_type(cursor))
            self._check_operands(name, operands, tuple(found), at)
            return results
        if not count:
            return []
        if len(found) == count:
            return found
        if count == 1:
            return found[-1:]
        if len(found) == 1:
            return found * count
        raise cursor.fail(f"{len(found)} types for {count} results", at, cursor.position)

    # ---- operations with regions and a form of their own

    def module(self, start: int, count: int) -> tuple[Operation, list[Shape]]:
        """``module @name attributes {...} { ... }``."""
        cursor, attributes = self.cursor, Attributes()
        end = cursor.position
        if cursor.peek("@"):
            attributes["sym_name"] = read_symbol(cursor).name
        if cursor.accept("attributes"):
            attributes.update(read_dictionary(self.reader))
        scopes, self.scopes = self.scopes, [{}]
        region = self.region()
        self.scopes = scopes
        return Operation("builtin.module", [], attributes, [region], start, end), []

    def function(self, start: int, count: int) -> tuple[Operation, list[Shape]]:
        """``func.func public @name(arguments) -> (results) attributes {...} { ... }``."""
        cursor, attributes = self.cursor, Attributes()
        for word in ("public", "private", "nested"):
            if cursor.accept(word + " "):
                attributes["sym_visibility"] = word
        at = cursor.skip()
        attributes["sym_name"] = read_symbol(cursor).name
        end = cursor.position
        scopes, self.scopes = self.scopes, [{}]
        body = Block()
        found = self._signature(body)
        results, result_attributes = self._results()
        types = tuple(value.type for value, _ in found if value.type is not None)
        attributes["function_type"] = FunctionType(types, tuple(results))
        attributes["arg_attrs"] = [attributes_ for _, attributes_ in found]
        attributes["res_attrs"] = result_attributes
        if cursor.accept("attributes"):
            attributes.update(read_dictionary(self.reader))
        regions = [self.region([value for value, _ in found])] if cursor.peek("{") else []
        self.scopes = scopes
        return Operation("func.func", [], attributes, regions, at, end), []

    def _signature(self, body: Block) -> list[tuple[Value, Attributes]]:
        """Arguments with names, or types alone, as declarations may have them."""
        cursor = self.cursor
        before = cursor.position
        cursor.expect("(")
        if cursor.peek("%") or cursor.peek(")"):
            cursor.position = before
            return self.arguments(body)
        found: list[tuple[Value, Attributes]] = []
        while not cursor.accept(")"):
            if found:
                cursor.expect(",", "or ')'")
            value = Value(read_type(cursor), "", body, len(found))
            found.append((value, read_dictionary(self.reader) if cursor.peek("{") else {}))
        return found

    def _results(self) -> tuple[list[Shape], list[Attributes]]:
        cursor = self.cursor
        types: list[Shape] = []
        attributes: list[Attributes] = []
        if not cursor.accept("->"):
            return types, attributes
        if not cursor.accept("("):
            return [read_type(cursor)], [{}]
        while not cursor.accept(")"):
            if types:
                cursor.expect(",", "or ')'")
            types.append(read_type(cursor))
            attributes.append(read_dictionary(self.reader) if cursor.peek("{") else {})
        return types, attributes

    def loop(self, start: int, count: int) -> tuple[Operation, list[Shape]]:
        """``stablehlo.while(%a = %0, ...) : types attributes {...} cond {...} do {...}``."""
        cursor, end = self.cursor, self.cursor.position
        names: list[str] = []
        operands: list[Value] = []
        cursor.expect("(")
        while not cursor.accept(")"):
            if names:
                cursor.expect(",", "or ')'")
            name = cursor.match(_USE)
            if name is None:
                raise cursor.unexpected("an argument such as %iterArg = %0")
            names.append(name.group(1))
            cursor.expect("=")
            operands.append(self.use())
        types: list[Shape] = []
        if cursor.accept(":"):
            types.append(read_type(cursor))
            while cursor.accept(","):
                types.append(read_type(cursor))
        if len(types) != len(names):
            raise cursor.fail(f"{len(types)} types for {len(names)} values", start, cursor.position)
        attributes: Attributes = {}
        if cursor.accept("attributes"):
            attributes = read_dictionary(self.reader)
        regions: list[Region] = []
        for word in ("cond", "do"):
            cursor.expect(word)
            own = [Value(type_, name, None, n) for n, (name, type_) in enumerate(zip(names, types, strict=True))]
            regions.append(self.region(own))
        return Operation("stablehlo.while", operands, attributes, regions, start, end), types

    def reduce(self, start: int, count: int) -> tuple[Operation, list[Shape]]:
        """``stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [0] : type``, or with a region."""
        cursor, end = self.cursor, self.cursor.position
        arrays: list[Value] = []
        initial: list[Value] = []
        cursor.expect("(")
        while True:
            arrays.append(self.use())
            cursor.expect("init")
            cursor.expect(":")
            initial.append(self.use())
            cursor.expect(")")
            if not (cursor.accept(",") and cursor.accept("(")):
                break
        applied = None
        if cursor.accept("applies"):
            applied = cursor.match(_NAME)
            if applied is None:
                raise cursor.unexpected("an operation")
        cursor.expect("across")
        cursor.expect("dimensions")
        cursor.expect("=")
        attributes: Attributes = {"dimensions": read_attribute(self.reader)}
        if cursor.peek("{"):
            attributes.update(read_dictionary(self.reader))
        cursor.expect(":")
        at = cursor.skip()
        type_ = read_function_type(cursor)
        operands = [*arrays, *initial]
        self._check_operands("stablehlo.reduce", operands, type_.operands, at)
        location = self._location()
        if applied is not None:
            region = _applied(applied.group(), type_.operands[-1], start, end)
        else:
            cursor.expect("reducer")
            left: list[Value] = []
            right: list[Value] = []
            while cursor.peek("("):
                pair = [value for value, _ in self.arguments(None)]
                if len(pair) != 2:
                    raise cursor.fail("a reducer has pairs of arguments", at, cursor.position)
                left.append(pair[0])
                right.append(pair[1])
            region = self.region([*left, *right])
        operation = Operation("stablehlo.reduce", operands, attributes, [region], start, end)
        if location is not None:
            operation.metadata = partial(self.locations.metadata, location)
        return operation, list(type_.results)

    def scan(self, start: int, count: int) -> tuple[Operation, list[Shape]]:
        """``chlo.scan(%0) inits(%1) dimension=0 attributes {is_reverse = true} {...} : type``."""
        cursor, end = self.cursor, self.cursor.position
        arrays = self.uses()
        cursor.expect("inits")
        carries = self.uses()
        cursor.expect("dimension")
        cursor.expect("=")
        attributes: Attributes = {"dimension": read_attribute(self.reader)}
        if cursor.accept("attributes"):
            attributes.update(read_dictionary(self.reader))
        attributes["num_carries"] = Number(len(carries), "i64")
        region = self.region()
        cursor.expect(":")
        at = cursor.skip()
        type_ = read_function_type(cursor)
        operands = [*arrays, *carries]
        self._check_operands("chlo.scan", operands, type_.operands, at)
        return Operation("chlo.scan", operands, attributes, [region], start, end), list(type_.results)

    def constant(self, start: int, count: int) -> tuple[Operation, list[Shape]]:
        """``stablehlo.constant {attributes} dense<1> : tensor<f32>``."""
        cursor, end = self.cursor, self.cursor.position
        if cursor.peek("("):
            return self._generic("stablehlo.constant", start, end)
        attributes = read_dictionary(self.reader) if cursor.peek("{") else {}
        at = cursor.skip()
        value = attributes["value"] = read_attribute(self.reader)
        shape = getattr(value, "shape", None)
        if shape is None:
            raise cursor.fail("expected dense<...> and its type", at, cursor.position)
        return Operation("stablehlo.constant", [], attributes, [], start, end), [shape]

    def mesh(self, start: int, count: int) -> tuple[Operation, list[Shape]]:
        """``sdy.mesh @name = <["x"=2]>``."""
        cursor, end = self.cursor, self.cursor.position
        name = read_symbol(cursor).name
        cursor.expect("=")
        at = cursor.skip()
        inside = skip_angles(cursor, at)
        mark = Mark("sdy", "mesh", inside, f"#sdy.mesh{cursor.text[at : cursor.position]}")
        return Operation("sdy.mesh", [], {"sym_name": name, "mesh": mark}, [], start, end), []

    def manual(self, start: int, count: int) -> tuple[Operation, list[Shape]]:
        """``sdy.manual_computation(%0) in_shardings=[] out_shardings=[] manual_axes={} (%a: type) {...} : type``."""
        cursor, end = self.cursor, self.cursor.position
        operands = self.uses()
        attributes: Attributes = {}
        for key in ("in_shardings", "out_shardings", "manual_axes"):
            cursor.expect(key)
            cursor.expect("=")
            at = cursor.skip()
            inside = skip_angles(cursor, at)
            attributes[key] = Mark("sdy", key, inside, cursor.text[at : cursor.position])
        arguments = [value for value, _ in self.arguments(None)]
        region = self.region(arguments)
        if cursor.peek("{"):
            attributes.update(read_dictionary(self.reader))
        cursor.expect(":")
        type_ = read_function_type(cursor)
        return Operation("sdy.manual_computation", operands, attributes, [region], start, end), list(type_.results)


def _applied(name: str, type_: Shape, start: int, end: int) -> Region:
    """The region of a reduction by one operation."""
    region, block = Region(), Block()
    region.blocks.append(block)
    block.arguments = [Value(type_, "", block, number) for number in range(2)]
    operation = Operation(name, list(block.arguments), {}, [], start, end)
    operation.results = [Value(type_, "", operation, 0)]
    done = Operation("stablehlo.return", list(operation.results), {}, [], start, end)
    block.operations = [operation, done]
    return region


def _brief(shape: Shape) -> str:
    from hlotool.text.stablehlo.tree import type_text

    text = type_text(shape)
    return text if len(text) <= 60 else f"{text[:57]}..."


_SPECIAL: dict[str, Callable[[OperationReader, int, int], tuple[Operation, list[Shape]]]] = {
    "builtin.module": OperationReader.module,
    "func.func": OperationReader.function,
    "stablehlo.while": OperationReader.loop,
    "stablehlo.reduce": OperationReader.reduce,
    "chlo.scan": OperationReader.scan,
    "stablehlo.constant": OperationReader.constant,
    "sdy.mesh": OperationReader.mesh,
    "sdy.manual_computation": OperationReader.manual,
}

