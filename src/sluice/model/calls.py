"""What a call in the language means: string tests, tests of the elements of an array, and tests registered by name.

Arguments arrive as nodes that are read already, each with its place in the text, so that an error points at the argument
that is wrong (sections 4.3.3 and 4.4: constraints on strings, on multi-values, and on parts of documents).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from sluice.model import registry
from sluice.model.operators import Operators
from sluice.model.predicate import (
    Among,
    AtomTest,
    Attribute,
    Comparison,
    Constant,
    ElementTest,
    Parameter,
    Predicate,
    StringTest,
)
from sluice.model.vocabulary import FUNCTIONS, USAGE

#: The node of an argument, the place where it begins, and the variable if it is a lambda (else "").
Argument = tuple[Any, int, str]


class Calls(Operators):
    """The meaning of calls, on top of that of operators."""

    def _function(self, name: str, arguments: list[Argument], position: int) -> Predicate:
        """The predicate that a call is; `position` is where it begins."""
        if name in FUNCTIONS and len(arguments) != 2:
            raise self._error(f"{name} takes two arguments: {USAGE[name]}", position)
        nodes = [node for node, _, _ in arguments]
        places = [position for _, position, _ in arguments]
        match name:
            case "startswith" | "endswith" | "contains":
                return self._string_test(name, nodes, places)
            case "exists" | "forall":
                if not arguments[1][2]:
                    raise self._error(f"write {USAGE[name]}", places[1])
                body = self._condition(nodes[1], places[1])
                return ElementTest(
                    "any" if name == "exists" else "all", self._attribute(nodes[0], places[0], name), body
                )
            case "array_contains":
                item = nodes[1]
                if not isinstance(item, Constant | Parameter):
                    raise self._error(f"array_contains needs a literal: {USAGE[name]}", places[1])
                if self._value(item) is None:
                    raise self._error("no array contains NULL; write exists(array, x -> x IS NULL)", places[1])
                array = self._attribute(nodes[0], places[0], name)
                return ElementTest("any", array, Comparison("=", Attribute(""), item))
            case "arrays_overlap":
                if isinstance(nodes[0], tuple):
                    nodes.reverse()
                    places.reverse()
                if not isinstance(nodes[1], tuple):
                    raise self._error(f"arrays_overlap needs a list of literals: {USAGE[name]}", places[1])
                return ElementTest("any", self._attribute(nodes[0], places[0], name), Among(Attribute(""), nodes[1]))
        return self._atom_test(name, nodes, places, position)

    def _string_test(self, how: Any, nodes: list[Any], places: list[int]) -> Predicate:
        text = nodes[1]
        if not isinstance(text, Constant | Parameter) or not isinstance(self._value(text), str | None):
            raise self._error(f"{how} needs a string literal: {USAGE[how]}", places[1])
        return StringTest(how, self._expression(nodes[0], places[0]), text)

    def _attribute(self, node: Any, position: int, name: str) -> Attribute:
        if not isinstance(node, Attribute):
            raise self._error(f"the first argument of {name} is the name of an attribute", position)
        return node

    def _atom_test(self, name: str, nodes: list[Any], places: list[int], position: int) -> Predicate:
        """A registered test: its first argument is the attribute, the others are literals."""
        if name == "instanceof" and len(nodes) == 1 and not isinstance(nodes[0], Attribute):
            nodes, places = [Attribute("class"), *nodes], [position, *places]
        if not nodes:
            raise self._error(f"the first argument of {name} is the name of an attribute", position)
        operand = self._attribute(nodes[0], places[0], name)
        for node, place in zip(nodes[1:], places[1:], strict=True):
            if not isinstance(node, Constant | Parameter):
                raise self._error(f"after the attribute, {name} takes literals only", place)
        arguments = tuple(nodes[1:])
        check = partial(registry.make, name)
        try:
            check(*(self._value(node) for node in arguments))
        except ValueError as error:
            raise self._error(str(error), places[1] if len(places) > 1 else position) from None
        self.checks.append((check, arguments))
        return AtomTest(name, operand, arguments)
