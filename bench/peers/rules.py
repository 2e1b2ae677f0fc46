"""The `rule-engine` package: each WHERE in its own language, every rule tried on every record."""

from __future__ import annotations

import rule_engine

from bench.timing import Runner
from bench.workloads import Record, Subscriptions, W1Subscriptions, W2Subscriptions


def build(workload: str, formulation: str, subscriptions: Subscriptions) -> Runner:
    """Parses the rules."""
    # A missing attribute is null; comparing null with < is an error there, so ranges ask for it first.
    context = rule_engine.Context(default_value=None)
    match subscriptions:
        case W1Subscriptions():
            texts = [_w1(subscriptions, row) for row in range(len(subscriptions))]
        case W2Subscriptions():
            texts = [_w2(subscriptions, row) for row in range(len(subscriptions))]
    rules = [rule_engine.Rule(text, context=context) for text in texts]

    def match_record(record: Record) -> list[int]:
        return [id for id, rule in enumerate(rules) if rule.matches(record)]

    return Runner(match_record, len, lambda ids, events: [ids])


def _between(name: str, low: float, high: float) -> str:
    return f"{name} != null and {name} >= {low} and {name} <= {high}"


def _w1(subscriptions: W1Subscriptions, row: int) -> str:
    terms = [f"symbol == 'S{subscriptions.symbol[row]}'"]
    terms.append(_between("price", subscriptions.low[row], subscriptions.high[row]))
    if exchanges := subscriptions.exchanges(row):
        terms.append(f"exchange in [{', '.join(map(repr, exchanges))}]")
    if subscriptions.has_volume[row]:
        terms.append(f"volume != null and volume > {subscriptions.volume[row]}")
    return " and ".join(terms)


def _w2(subscriptions: W2Subscriptions, row: int) -> str:
    return " and ".join(
        f"{name} == '{wanted}'" if isinstance(wanted, str) else _between(name, *wanted)
        for name, wanted in subscriptions.terms(row)
    )
