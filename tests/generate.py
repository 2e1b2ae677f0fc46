"""Filters and records of every construct of the language, from one random number generator.

One generator serves all: with a seed for long runs, and driven by hypothesis for tests that shrink (`filters`, `records`).
Attributes have a kind by name, so that typed records fit one Arrow schema or one Spark table; untyped ones put any value
under any name. With `spark=True` nothing is made on which Sluice and Spark differ by design; each such place says why.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from sluice.errors import LimitError
from sluice.model import parse, types
from sluice.model.constraint import AllOf, Constraint, Negation
from sluice.model.elements import Elements
from sluice.model.filter import Filter
from sluice.model.ordered import Ordered
from sluice.model.subscription import Subscription
from sluice.model.values import Kind

Record = dict[str, Any]

#: Attribute names by the kind of their values. `i` and `f` are numbers small enough for arithmetic.
INTEGERS, SMALL_INTEGERS, DOUBLES, SMALL_DOUBLES = ("n", "m"), ("i", "j"), ("d",), ("f", "g")
STRINGS, BOOLEANS, BYTES, MOMENTS = ("s", "u"), ("b", "c"), ("y",), ("t",)
TEXT_LISTS, NUMBER_LISTS, RECORD_LISTS = ("tags",), ("nums",), ("items",)
NAMES = (
    *INTEGERS, *SMALL_INTEGERS, *DOUBLES, *SMALL_DOUBLES, *STRINGS, *BOOLEANS, *BYTES, *MOMENTS,
    *TEXT_LISTS, *NUMBER_LISTS, *RECORD_LISTS, "o", "doc", "place", "class",
)  # fmt: skip

ITEM = pa.struct([("p", pa.int64()), ("q", pa.string()), ("r", pa.list_(pa.int64()))])
SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in (*INTEGERS, *SMALL_INTEGERS)),
        *((name, pa.float64()) for name in (*DOUBLES, *SMALL_DOUBLES)),
        *((name, pa.string()) for name in (*STRINGS, "doc", "class")),
        *((name, pa.bool_()) for name in BOOLEANS),
        ("y", pa.binary()),
        ("t", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
        ("nums", pa.list_(pa.int64())),
        ("items", pa.list_(ITEM)),
        ("o", pa.struct([("p", pa.int64()), ("q", pa.string()), ("r", pa.struct([("z", pa.float64())]))])),
        ("place", pa.struct([("lat", pa.float64()), ("lon", pa.float64())])),
    ]
)
#: What Spark has no function for: `place` and `class` are left out of its table.
SPARK_NAMES = tuple(name for name in NAMES if name not in ("place", "class"))

SMALL = (0, 1, 2, 3, 5, 7, 10, -1, -2, -7)
LARGE = (2**31, 2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, -(2**53) - 1, 2**62 + 1, 2**63 - 1, -(2**63))
HUGE = (2**63, 2**64 + 1, -(2**63) - 1, 10**30, 10**400)
FRACTIONS = (0.5, 2.5, 0.1, -0.0, 0.0, -2.5, 1.0, 3.0, 10.0)
EXTREMES = (1e300, 5e-324, -5e-324, 1.7976931348623157e308, float("inf"), float("-inf"))
#: Doubles at and around 2**53, where integers begin to fall between doubles.
EDGES = (2.0**53, 2.0**53 + 2, -(2.0**53), 2.0**63, 2.0**64)
TEXTS = (
    "", "a", "ab", "abc", "abd", "b", "ba", "zz", " ", "A", "abcdef", "abcdefg", "abcdefgh", "abcdefghi", "abcdefgz",
    "x\0", "x", "a\0b", "é", "eé", "\uffff", "\U0001f600", "\U0001f600a", "it's", "a\\b", "a%b", "a_b", "a\nb", '"', "`",
)  # fmt: skip
BLOBS = (b"", b"\0", b"\x01", b"\x7f", b"\x80", b"\xff", b"\xff\xff", b"abcdefg", b"abcdefgh", b"abcdefgi")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMES = tuple(
    EPOCH + delta
    for delta in (
        timedelta(0), timedelta(microseconds=1), timedelta(microseconds=-1), timedelta(days=18262),
        timedelta(days=18262, microseconds=500_000), timedelta(days=18262, microseconds=123_456),
        timedelta(days=18263), timedelta(days=-30000, seconds=5), timedelta(days=40000, seconds=1),
    )
)  # fmt: skip
DOCUMENTS = (
    "<r/>",
    '<r><cpu maker="AMD" clock="800"/></r>',
    '<r><cpu maker="AMD" clock="600"/><cpu maker="Intel" clock="900"/></r>',
    '<r><box><cpu maker="Intel" clock="700"/></box></r>',
    '<r><cpu clock="700.5"/><disk size="x"/></r>',
    '<cpu maker="AMD"/>',
)
PATHS = (
    "//cpu", "/r", "/r/cpu", "/cpu", "//box/cpu", '//cpu[@maker="AMD"]', "//cpu[@clock>=700]", "//cpu[@clock<700]",
    '//cpu[@maker="AMD" and @clock>700]', '/r/cpu[@maker!="AMD"]', "//disk[@size]", '//cpu[@maker="AMD" and @clock=800]',
)  # fmt: skip
CLASSES = {"GenThing": (), "GenBird": ("GenThing",), "GenPet": ("GenThing",), "GenParrot": ("GenBird", "GenPet")}
for _name, _above in CLASSES.items():
    types.declare(_name, *_above)

COMPARISONS = ("=", "==", "!=", "<>", "<", "<=", ">", ">=", "<=>")


def literal(value: Any) -> str:
    """A value as a literal of Spark SQL, written on our own so that it is no echo of the code under test."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case float() if math.isinf(value):
            return f"CAST('{'-' if value < 0 else ''}Infinity' AS DOUBLE)"
        case float():
            return f"{value!r}D"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}'"
        case str():
            plain = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\0", "\\u0000")
            return f"'{plain}'"
    return str(value)


class Generator:
    """Makes filter texts and records; equal generators make equal ones."""

    def __init__(self, source: random.Random, spark: bool = False) -> None:
        self.random = source
        self.spark = spark

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def some(self, pool: Sequence[Any], least: int = 1, most: int = 4) -> list[Any]:
        return [self.random.choice(pool) for _ in range(self.random.randint(least, most))]

    # --- filters ----------------------------------------------------------------------------------------------------

    def filter(self, depth: int = 0) -> str:
        """The text of a filter."""
        if depth > 2 or self.chance(0.4):
            return self.term()
        kind = self.random.random()
        if kind < 0.15:
            return f"NOT ({self.filter(depth + 1)})"
        parts = [self.filter(depth + 1) for _ in range(self.random.randint(2, 3))]
        return f"({(' AND ' if kind < 0.6 else ' OR ').join(parts)})"

    def term(self) -> str:
        makers = [
            self.numbers, self.numbers, self.strings, self.strings, self.booleans, self.others, self.others,
            self.arithmetic, self.columns, self.text_elements, self.number_elements, self.record_elements, self.nested,
            self.documents, self.nulls,
        ]  # fmt: skip
        if not self.spark:
            makers += [self.places, self.classes, self.mixed, self.mixed]
        return self.random.choice(makers)()

    def tests(self, name: str, pool: Sequence[Any], nulls: bool = True) -> str:
        """A comparison, a BETWEEN or a list for a name, with values of the pool."""
        pick = self.random.choice
        no = pick(("", "", "NOT "))
        match self.random.randrange(8):
            case 0:
                ends = [literal(pick(pool)), literal(pick(pool))]
                return f"{name} {no}BETWEEN {ends[0]} AND {ends[1]}"
            case 1 | 2:
                values = [literal(value) for value in self.some(pool)]
                if nulls and self.chance(0.1):
                    values.append("NULL")
                return f"{name} {no}IN ({', '.join(values)})"
            case 3:
                return f"{literal(pick(pool))} {pick(COMPARISONS)} {name}"
            case 4 if nulls and self.chance(0.2):
                return f"{name} {pick(COMPARISONS)} NULL"
        return f"{name} {pick(COMPARISONS)} {literal(pick(pool))}"

    def numbers(self) -> str:
        pick = self.random.choice
        if self.chance(0.5):
            # With integers beyond 2**53, Spark compares a bigint and a double as doubles, and Sluice exactly.
            return self.tests(
                pick((*INTEGERS, *SMALL_INTEGERS)), (*SMALL, *SMALL, *LARGE, *(() if self.spark else HUGE))
            )
        if self.chance(0.2):
            decimal = pick(("0.5", "2.5", "0.1", "-2.50", "3.0"))
            return f"{pick((*SMALL_INTEGERS, *SMALL_DOUBLES))} {pick(COMPARISONS)} {decimal}"
        pool = (*FRACTIONS, *EXTREMES, *SMALL)
        return self.tests(pick((*DOUBLES, *SMALL_DOUBLES)), pool if self.spark else (*pool, *LARGE, *HUGE, *EDGES))

    def strings(self, name: str | None = None) -> str:
        pick = self.random.choice
        name = name or pick(STRINGS)
        match self.random.randrange(6):
            case 0:
                return f"{name} {pick(('', 'NOT '))}LIKE {self.pattern()}"
            case 1:
                return f"{pick(('', 'NOT '))}{pick(('startswith', 'endswith', 'contains'))}({name}, {literal(pick(TEXTS))})"
        return self.tests(name, TEXTS)

    def pattern(self) -> str:
        escape = self.random.choice(("\\", "\\", "!", "a"))
        parts = [part for part in ("%", "%", "_", "b", "c", "é", "\n", "\U0001f600", "a") if part != escape]
        parts += [escape + "%", escape + "_", escape + escape]
        text = "".join(self.some(parts, 0, 5))
        return literal(text) + ("" if escape == "\\" else f" ESCAPE {literal(escape)}")

    def booleans(self) -> str:
        name = self.random.choice(BOOLEANS)
        match self.random.randrange(4):
            case 0:
                return self.random.choice((name, f"NOT {name}", "true", "false", "NULL"))
            case 1:
                return f"{name} IS {self.random.choice(('', 'NOT '))}{self.random.choice(('TRUE', 'FALSE', 'NULL'))}"
        return self.tests(name, (True, False))

    def others(self) -> str:
        if self.chance(0.5):
            return self.tests("y", BLOBS)
        if self.chance(0.2):
            return f"t {self.random.choice(COMPARISONS)} DATE '2020-01-01'"
        return self.tests("t", TIMES)

    def operand(self, depth: int = 0) -> str:
        if depth > 1 or self.chance(0.5):
            # Small numbers only: beyond 64 bits Spark wraps around, and what is infinite soon becomes NaN.
            return self.random.choice((*SMALL_INTEGERS, *SMALL_DOUBLES, *map(literal, SMALL), "0.5D", "2.5D"))
        left, right = self.operand(depth + 1), self.operand(depth + 1)
        if self.chance(0.1):
            return f"(- ({left}))"
        return f"({left} {self.random.choice('+-*/%')} {right})"

    def arithmetic(self) -> str:
        operands = self.operand(), self.operand()
        if not self.spark and self.chance(0.3):
            operands = self.random.choice((*INTEGERS, *DOUBLES, *STRINGS)) + " * 2", self.operand()
        if self.chance(0.1):
            # Decimals in + - * only: Spark rounds the quotient of decimals to a scale of its own.
            operands = (
                f"{self.random.choice(SMALL_INTEGERS)} {self.random.choice('+-*')} 0.5",
                self.random.choice(SMALL_INTEGERS),
            )
        if self.chance(0.1):
            return f"{operands[0]} IS {self.random.choice(('', 'NOT '))}NULL"
        if self.chance(0.1):
            return f"{operands[0]} IN ({', '.join(map(literal, self.some(SMALL)))})"
        return f"{operands[0]} {self.random.choice(COMPARISONS)} {operands[1]}"

    def columns(self) -> str:
        """A column against another of its kind."""
        kinds = [INTEGERS, SMALL_INTEGERS + SMALL_DOUBLES, STRINGS, BOOLEANS]
        if not self.spark:
            kinds.append(NAMES)
        pool = self.random.choice(kinds)
        return f"{self.random.choice(pool)} {self.random.choice(COMPARISONS)} {self.random.choice(pool)}"

    def quantified(self, name: str, body: str, variable: str = "x") -> str:
        return f"{self.random.choice(('', 'NOT '))}{self.random.choice(('exists', 'forall'))}({name}, {variable} -> {body})"

    def text_elements(self) -> str:
        return self.elements("tags", TEXTS[:8], self.strings("x"))

    def number_elements(self) -> str:
        return self.elements("nums", SMALL, self.tests("x", SMALL))

    def elements(self, name: str, pool: Sequence[Any], body: str) -> str:
        match self.random.randrange(3):
            case 0:
                return f"array_contains({name}, {literal(self.random.choice(pool))})"
            case 1:
                values = [*self.some(pool), *([None] if self.chance(0.1) else [])]
                return f"{self.random.choice(('', 'NOT '))}arrays_overlap({name}, array({', '.join(map(literal, values))}))"
        if self.chance(0.3):
            body = f"{body} {self.random.choice(('AND', 'OR'))} x IS {self.random.choice(('', 'NOT '))}NULL"
        return self.quantified(name, body)

    def record_elements(self) -> str:
        bodies = [self.tests("x.p", SMALL), self.strings("x.q")]
        bodies.append(self.quantified("x.r", self.tests("z", SMALL), "z"))
        bodies.append(
            f"x.p {self.random.choice('+-*%')} 2 {self.random.choice(COMPARISONS)} {self.random.choice(SMALL)}"
        )
        self.random.shuffle(bodies)
        return self.quantified(
            "items", f" {self.random.choice(('AND', 'OR'))} ".join(bodies[: self.random.randint(1, 2)])
        )

    def nested(self) -> str:
        match self.random.randrange(4):
            case 0:
                return self.tests("o.p", SMALL)
            case 1:
                return self.strings("o.q")
            case 2:
                return self.tests("o.r.z", FRACTIONS)
        return f"{self.random.choice(('o', 'o.p', 'o.r', 'o.r.z'))} IS {self.random.choice(('', 'NOT '))}NULL"

    def documents(self) -> str:
        no = self.random.choice(("", "", "NOT "))
        return f"{no}xpath_boolean(doc, {literal(self.random.choice(PATHS))})"

    def nulls(self) -> str:
        names = SPARK_NAMES if self.spark else NAMES
        return f"{self.random.choice(names)} IS {self.random.choice(('', 'NOT '))}NULL"

    def places(self) -> str:
        south, north = sorted(self.random.sample((-90, -10, 0, 10.5, 46, 47, 90), 2))
        west, east = self.random.choice((-180, -10, 0, 8, 170)), self.random.choice((-170, 0, 8.5, 10, 180))
        sides = ", ".join(map(literal, (south, west, north, east)))
        return f"{self.random.choice(('', '', 'NOT '))}geo_within(place, {sides})"

    def classes(self) -> str:
        name = self.random.choice(("", "", "s, "))
        return f"{self.random.choice(('', '', 'NOT '))}instanceof({name}{literal(self.random.choice((*CLASSES, 'GenOther')))})"

    def mixed(self) -> str:
        """Values of any kind under any name."""
        pool = (*SMALL, *TEXTS[:10], *FRACTIONS, *BLOBS, *TIMES, True, False, *LARGE, *HUGE, *EDGES)
        name = self.random.choice((*NAMES, "never.seen"))
        if self.chance(0.2):
            return self.strings(name)
        if self.chance(0.1):
            return self.elements(name, pool, self.tests("x", pool))
        return self.tests(name, pool)

    # --- records ----------------------------------------------------------------------------------------------------

    def record(self, typed: bool = True) -> Record:
        """A record; typed ones fit the schema, the others have any value under any name."""
        names = SPARK_NAMES if self.spark else NAMES
        found = {}
        for name in names:
            if self.chance(0.85):
                found[name] = self.anything() if not typed and self.chance(0.3) else self.value(name)
        if not typed and self.chance(0.1):
            found["new"] = self.anything()
        return found

    def value(self, name: str) -> Any:
        pick = self.random.choice
        if self.chance(0.08):
            return None
        if name in INTEGERS:
            return pick((*SMALL, *SMALL, *LARGE))
        if name in SMALL_INTEGERS:
            return pick(SMALL)
        if name in SMALL_DOUBLES:
            return pick(FRACTIONS)
        if name in DOUBLES:
            # Spark says that NaN equals itself and is the largest number; here it equals nothing.
            return pick((*FRACTIONS, *EXTREMES, *(() if self.spark else (*EDGES, math.nan))))
        if name in STRINGS:
            return pick((*TEXTS, *(() if self.spark else CLASSES)))
        if name in BOOLEANS:
            return pick((True, False))
        if name == "tags":
            return self.some((*TEXTS[:8], None), 0, 3)
        if name == "nums":
            return self.some((*SMALL, None), 0, 3)
        if name == "items":
            return [None if self.chance(0.1) else self.item() for _ in range(self.random.randint(0, 3))]
        pools = {"y": BLOBS, "t": TIMES, "doc": DOCUMENTS, "class": (*CLASSES, "GenOther")}
        if name in pools:
            return pick(pools[name])
        if name == "place":
            return {"lat": pick((46.5, 10.5, 0.0, 90.0, None)), "lon": pick((8.0, 8.5, -180.0, 175.0, 10.0))}
        inner = None if self.chance(0.2) else {"z": self.maybe(FRACTIONS)}
        return {"p": self.maybe(SMALL), "q": self.maybe(TEXTS), "r": inner}

    def item(self) -> Record:
        return {
            "p": self.maybe(SMALL),
            "q": self.maybe(TEXTS[:8]),
            "r": None if self.chance(0.2) else self.some((*SMALL, None), 0, 2),
        }

    def maybe(self, pool: Sequence[Any]) -> Any:
        return None if self.chance(0.15) else self.random.choice(pool)

    def anything(self, depth: int = 0) -> Any:
        """A value of any kind."""
        pick = self.random.choice
        match self.random.randrange(11 if depth < 2 else 8):
            case 0:
                return pick((*SMALL, *LARGE, *HUGE))
            case 1:
                return pick((*FRACTIONS, *EXTREMES, *EDGES, math.nan))
            case 2 | 3:
                return pick(TEXTS)
            case 4:
                return pick((True, False))
            case 5:
                return pick(BLOBS)
            case 6:
                return pick(TIMES)
            case 7:
                return pick((None, "<broken", *DOCUMENTS))
            case 8:
                return [self.anything(depth + 1) for _ in range(self.random.randint(0, 3))]
            case 9:
                return self.item()
        return {name: self.anything(depth + 1) for name in self.random.sample(("p", "q", "r", "lat"), 2)}


def generated(seed: int, count: int) -> list[str]:
    """Filters that Spark can evaluate, none of them beyond a limit."""
    generator = Generator(random.Random(seed), spark=True)
    found: list[str] = []
    while len(found) < count:
        text = generator.filter()
        try:
            parse(text)
        except LimitError:
            continue
        found.append(text)
    return found


def batch_of(records: Sequence[Record]) -> pa.RecordBatch:
    """Typed records as one Arrow batch."""
    return pa.RecordBatch.from_pylist(list(records), schema=SCHEMA)


# --- for hypothesis -------------------------------------------------------------------------------------------------

_sources = st.randoms(use_true_random=False)
filters: st.SearchStrategy[str] = _sources.map(lambda source: Generator(source).filter())
records: st.SearchStrategy[Record] = _sources.map(lambda source: Generator(source).record(typed=False))
typed_records: st.SearchStrategy[Record] = _sources.map(lambda source: Generator(source).record())


# --- the ends of intervals ------------------------------------------------------------------------------------------


def around(value: Any) -> list[Any]:
    """A value and its nearest neighbours on both sides."""
    match value:
        case bool():
            return [False, True]
        case int():
            near: list[Any] = [value - 1, value, value + 1]
            if abs(value) < 2**1000:
                close = float(value)
                near += [close, math.nextafter(close, math.inf), math.nextafter(close, -math.inf)]
            return near
        case float():
            near = [value, math.nextafter(value, math.inf), math.nextafter(value, -math.inf)]
            if math.isfinite(value):
                near += [int(value) - 1, int(value), int(value) + 1]
            return near
        case str():
            shorter = [value[:-1], value[:-1] + chr(max(0, _below(ord(value[-1]))))] if value else []
            return [value, value + "\0", value + "a", value + "\U0010ffff", *shorter]
        case bytes():
            return [
                value,
                value + b"\0",
                value + b"\xff",
                value[:-1],
                value[:-1] + bytes([max(0, (value or b"\1")[-1] - 1)]),
            ]
        case datetime():
            return [value, value + timedelta(microseconds=1), value - timedelta(microseconds=1)]
    return [value]


def _below(code: int) -> int:
    """The code point before this one, leaving out the surrogates."""
    return 0xD7FF if code == 0xE000 else code - 1


def ends_of(side: Constraint) -> list[Any]:
    """Every end of every interval of a constraint, with its neighbours."""
    match side:
        case AllOf(parts):
            return [value for part in parts for value in ends_of(part)]
        case Negation(test):
            return ends_of(test)
        case Elements(_, boxes):
            inner = [value for box in boxes for part in box.constraints.values() for value in ends_of(part)]
            singles = [(value,) for value in inner] + [({"p": value, "q": value},) for value in inner]
            return [(), (None,), *singles, *((value, None) for value in inner)]
    found: list[Any] = [None, 0, "", True, ()]
    hull = side if isinstance(side, Ordered) else side.hull()
    for cut in hull.cuts:
        if len(cut) == 3 and Kind.BOOL <= cut[0] <= Kind.TIMESTAMP:
            found += around(cut[1])
    return found


def corner_records(subscription: Subscription, source: random.Random, most: int = 60) -> Iterator[Record]:
    """Flat records at the ends of a subscription: a box at values it accepts but for one, which goes through its ends."""
    for box in subscription.filters:
        base = witness(box, source)
        for name, side in box.constraints.items():
            values = ends_of(side)
            source.shuffle(values)
            for value in values[:most]:
                yield {**base, name: value}


def witness(box: Filter, source: random.Random) -> Mapping[str, Any]:
    """Values that a box accepts, as far as its ends and neighbours have some."""
    found = {}
    for name, side in box.constraints.items():
        fitting = [value for value in ends_of(side) if side.matches(value)]
        if fitting:
            found[name] = source.choice(fitting)
    return found
