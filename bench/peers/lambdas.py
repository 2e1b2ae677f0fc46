"""Plain Python: each WHERE as a lambda, found through a dictionary by one of its equalities.

What a careful programmer writes without a library. The equality that the dictionary has decided is left out of the
lambda; a missing attribute never matches. One record at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from bench.timing import Runner
from bench.workloads import Record, Subscriptions, W1Subscriptions, W2Subscriptions

Rule = tuple[int, Callable[[Record], bool]]

#: Lambdas compiled at a time: fewer calls of the compiler, and still no huge source text.
_CHUNK = 1_000


def build(workload: str, formulation: str, subscriptions: Subscriptions) -> Runner:
    """Compiles the lambdas and puts them into the dictionary."""
    match subscriptions:
        case W1Subscriptions():
            match_record = _w1(subscriptions)
        case W2Subscriptions():
            match_record = _w2(subscriptions)
    return Runner(match_record, len, lambda ids, events: [ids])


def _rules(sources: Iterator[str]) -> Iterator[Rule]:
    """Each source of a condition on `r` as a lambda, numbered."""
    texts = [f"lambda r: {source or 'True'}" for source in sources]
    for start in range(0, len(texts), _CHUNK):
        yield from enumerate(eval(f"[{', '.join(texts[start : start + _CHUNK])}]"), start)


def _between(name: str, low: float, high: float) -> str:
    return f"(x := r.get('{name}')) is not None and {low} <= x <= {high}"


def _w1(subscriptions: W1Subscriptions) -> Callable[[Record], list[int]]:
    def source(row: int) -> str:
        terms = [_between("price", subscriptions.low[row], subscriptions.high[row])]
        if exchanges := subscriptions.exchanges(row):
            # A set of constants in the source is a frozenset made once, by the compiler.
            terms.append(f"r.get('exchange') in {{{', '.join(map(repr, exchanges))}}}")
        if subscriptions.has_volume[row]:
            terms.append(f"(x := r.get('volume')) is not None and x > {subscriptions.volume[row]}")
        return " and ".join(terms)

    by_symbol: dict[object, list[Rule]] = {}
    for id, rule in _rules(source(row) for row in range(len(subscriptions))):
        by_symbol.setdefault(f"S{subscriptions.symbol[id]}", []).append((id, rule))

    def match(record: Record) -> list[int]:
        return [id for id, rule in by_symbol.get(record.get("symbol"), ()) if rule(record)]

    return match


def _w2(subscriptions: W2Subscriptions) -> Callable[[Record], list[int]]:
    used = np.arange(subscriptions.attribute.shape[1]) < subscriptions.count[:, None]
    equality = used & (subscriptions.attribute < 10)
    key = subscriptions.attribute * 100 + subscriptions.value
    often = np.bincount(key[equality], minlength=key.max() + 1)
    rarest = np.where(equality.any(axis=1), np.where(equality, often[key], often.sum() + 1).argmin(axis=1), -1)

    def source(row: int) -> str:
        terms = [
            f"r.get('{name}') == '{wanted}'" if isinstance(wanted, str) else _between(name, *wanted)
            for term, (name, wanted) in enumerate(subscriptions.terms(row))
            if term != rarest[row]
        ]
        return " and ".join(terms)

    by_value: dict[tuple[str, object], list[Rule]] = {}
    others: list[Rule] = []
    for id, rule in _rules(source(row) for row in range(len(subscriptions))):
        if rarest[id] < 0:
            others.append((id, rule))
        else:
            name = f"c{subscriptions.attribute[id, rarest[id]]}"
            by_value.setdefault((name, f"v{subscriptions.value[id, rarest[id]]}"), []).append((id, rule))

    def match(record: Record) -> list[int]:
        ids = [id for id, rule in others if rule(record)]
        for item in record.items():
            ids += [id for id, rule in by_value.get(item, ()) if rule(record)]
        return ids

    return match
