"""The hierarchy of types, and class filters as in section 4.5.2."""

from __future__ import annotations

import abc
from itertools import combinations
from typing import Generic, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.errors import SluiceError
from sluice.limits import MAX_INTERVALS
from sluice.model import types
from sluice.model.notification import attributes
from sluice.model.parse import parse
from sluice.model.subscription import Subscription
from sluice.model.types import Hierarchy, InstanceOf, class_filter, declare, declare_class, instanceof, is_subtype

T = TypeVar("T")


class Message(abc.ABC):
    @abc.abstractmethod
    def text(self) -> str: ...


class Mail(Message):
    def text(self) -> str:
        return "mail"


class Chat(Message):
    def text(self) -> str:
        return "chat"


class Stored:
    pass


class Draft(Mail, Stored, Generic[T]):
    pass


# A small lattice by name: an abstract Shape with Round and Square below, Disc below Round and Flat.
declare("Shape", abstract=True)
declare("Round", "Shape")
declare("Square", "Shape")
declare("Flat")
declare("Disc", "Round", "Flat")
NAMES = ["Shape", "Round", "Square", "Flat", "Disc", "Unknown"]


def test_table_4_1_with_multiple_inheritance() -> None:
    below = {
        "Shape": {"Shape", "Round", "Square", "Disc"},
        "Round": {"Round", "Disc"},
        "Square": {"Square"},
        "Flat": {"Flat", "Disc"},
        "Disc": {"Disc"},
        "Unknown": {"Unknown"},
    }
    for upper in NAMES:
        for lower in NAMES:
            assert is_subtype(lower, upper) == (lower in below[upper])
            assert instanceof(upper).matches(lower) == (lower in below[upper])
            assert instanceof(upper).covers(instanceof(lower)) == (lower in below[upper])


TESTS = st.frozensets(st.sampled_from(NAMES), max_size=4).map(InstanceOf)


@settings(deadline=None)
@given(TESTS, TESTS)
def test_the_algebra_agrees_with_matching(a: InstanceOf, b: InstanceOf) -> None:
    in_a = {name for name in NAMES if a.matches(name)}
    in_b = {name for name in NAMES if b.matches(name)}
    assert a.covers(b) == (in_a >= in_b), "in this lattice the test is exact"
    assert a.overlaps(b) == bool(in_a and in_b), "a common subtype may come at any time"
    union = a.union(b)
    assert union is not None
    assert {name for name in NAMES if union.matches(name)} == in_a | in_b
    wider = a.widen_same(b)
    if wider is not None:
        assert {name for name in NAMES if wider[0].matches(name)} >= in_a | in_b
        assert 0.0 <= wider[1] <= 1.0


def test_types_are_kept_as_an_antichain() -> None:
    assert InstanceOf(frozenset({"Shape", "Disc", "Round"})) == InstanceOf(frozenset({"Shape"}))
    assert instanceof("Round").union(instanceof("Shape")) == instanceof("Shape")
    assert instanceof("Round").union(instanceof("Square")) == InstanceOf(frozenset({"Round", "Square"}))


def test_all_direct_subclasses_of_an_abstract_class_merge_without_waste() -> None:
    assert instanceof("Round").widen_same(instanceof("Square")) == (instanceof("Shape"), 0.0)


def test_a_concrete_superclass_has_instances_of_its_own() -> None:
    declare("Vehicle")
    for name in ("Car", "Bike", "Boat"):
        declare(name, "Vehicle")
    assert instanceof("Car").widen_same(instanceof("Bike")) == (instanceof("Vehicle"), 0.5)


def test_classes_without_a_common_superclass_have_no_wider_type() -> None:
    assert instanceof("Square").widen_same(instanceof("Flat")) is None
    wider, waste = instanceof("Square").widen(instanceof("Flat"))
    assert wider.covers(instanceof("Square")) and waste == 0.0


def test_many_types_widen_to_their_common_superclass() -> None:
    declare("Sensor", abstract=True)
    names = [f"Sensor{i}" for i in range(MAX_INTERVALS + 2)]
    for name in names:
        declare(name, "Sensor")
    most = InstanceOf(frozenset(names[:-2]))
    assert most.union(instanceof(names[-2])) is None
    wider, waste = most.widen(instanceof(names[-2]))
    assert wider == instanceof("Sensor")
    assert waste == pytest.approx(1 / len(names))


def test_classes_declare_themselves() -> None:
    assert declare_class(Draft) == "Draft"
    assert is_subtype("Draft", "Message") and is_subtype("Draft", "Stored")
    assert not is_subtype("Draft", "Generic") and not is_subtype("Draft", "object")
    declare_class(Chat)
    assert types.HIERARCHY.is_abstract("Message")
    assert instanceof("Mail").widen_same(instanceof("Chat")) == (instanceof("Message"), 0.0)


def test_a_published_object_is_found_by_its_class_and_superclasses() -> None:
    flat = attributes(Draft[int]())
    assert class_filter(Draft).matches(flat)
    assert class_filter(Message).matches(flat)
    assert class_filter("Stored").matches(flat)
    assert not class_filter(Chat).matches(flat)
    assert class_filter(Message).covers(class_filter(Draft))


def test_a_second_class_of_the_same_name_is_told_apart() -> None:
    own = Hierarchy()
    first, second = (type("Quote", (), {"__module__": module}) for module in ("stocks", "books"))
    assert own.declare_class(first) == "Quote"
    assert own.declare_class(second) == "books.Quote"
    assert own.declare_class(first) == "Quote"
    again = type("Quote", (), {"__module__": "stocks"})
    assert own.declare_class(again) == "Quote", "the same class defined again, as in a notebook"


def test_declaring_twice() -> None:
    own = Hierarchy()
    own.declare("A", "B", "C")
    own.declare("A", "C", "B")
    with pytest.raises(SluiceError, match="declared already, concrete and below 'B', 'C'"):
        own.declare("A", "B")
    with pytest.raises(SluiceError, match="declared already"):
        own.declare("A", "B", "C", abstract=True)


def test_a_supertype_may_be_declared_later() -> None:
    own = Hierarchy()
    own.declare("Leaf", "Branch")
    assert own.is_subtype("Leaf", "Branch") and not own.is_subtype("Leaf", "Tree")
    own.declare("Branch", "Tree")
    assert own.is_subtype("Leaf", "Tree")


def test_cycles_are_refused() -> None:
    own = Hierarchy()
    own.declare("A", "B")
    own.declare("B", "C")
    for name, supertype in (("C", "A"), ("D", "D")):
        with pytest.raises(SluiceError, match="cannot be a subtype"):
            own.declare(name, supertype)
    assert not own.is_subtype("C", "A")


def test_the_nearest_common_supertypes() -> None:
    own = Hierarchy()
    own.declare("Top")
    own.declare("Left", "Top")
    own.declare("Right", "Top")
    own.declare("X", "Left", "Right")
    own.declare("Y", "Left", "Right")
    assert own.common_supertypes(["X", "Y"]) == ("Left", "Right")
    assert own.common_supertypes(["X", "Left"]) == ("Left",)
    assert own.common_supertypes(["X", "Elsewhere"]) == ()


def test_a_long_chain_of_diamonds_is_no_trouble() -> None:
    for i in range(60):
        declare(f"Left{i}", f"Knot{i}")
        declare(f"Right{i}", f"Knot{i}")
        declare(f"Knot{i + 1}", f"Left{i}", f"Right{i}")
    assert is_subtype("Knot60", "Knot0")
    wider = instanceof("Left59").widen_same(instanceof("Right59"))
    assert wider is not None and wider[0] == instanceof("Knot59")
    assert instanceof("Left0").widen_same(instanceof("Knot60")) is not None


def test_the_text() -> None:
    assert parse("instanceof('Quote')") == Subscription([class_filter("Quote")])
    assert parse("instanceof(class, 'A') OR instanceof(class, 'B')").to_sql() == InstanceOf(frozenset("AB")).to_sql(
        "class"
    )
    assert instanceof("Quote").to_sql("class") == "instanceof(class, 'Quote')"
    pair = InstanceOf(frozenset({"B", "A"}))
    assert pair.to_sql("sale.kind") == "(instanceof(sale.kind, 'A') OR instanceof(sale.kind, 'B'))"
    assert InstanceOf(frozenset()).to_sql("class") == "false"
    with pytest.raises(ValueError, match="the type is a string"):
        instanceof(5)


def test_only_strings_are_types() -> None:
    for value in (None, 5, b"Shape", ("Shape",), {"class": "Shape"}):
        assert not instanceof("Shape").matches(value)


def test_reduction_leaves_no_pair_in_order() -> None:
    for pair in combinations(NAMES, 2):
        reduced = types.HIERARCHY.reduced(pair)
        assert all(not is_subtype(a, b) for a in reduced for b in reduced if a != b)


def test_what_is_declared_later_takes_nothing_back() -> None:
    """A name that nobody declared may come to be below any type: covering, unions and empty boxes must hold then too."""
    inside, outside, point = parse("instanceof(k, 'Later')"), parse("NOT instanceof(k, 'Later')"), parse("k = 'Sooner'")
    either = outside | point
    assert inside.overlaps(point)
    assert outside.overlaps(point)
    assert not outside.covers(point)
    assert not inside.covers(point)
    assert not parse("instanceof(k, 'Later') AND k = 'Sooner'").is_empty
    declare("Sooner", "Later")
    assert either.matches({"k": "Sooner"})
    assert inside.covers(point)
    assert not inside.covers(parse("k IN ('Sooner', 'Other')"))
