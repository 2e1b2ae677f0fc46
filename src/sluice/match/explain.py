"""Why a record matches a subscription, or which constraint failed: the answer a person can read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sluice.model.subscription import Subscription
from sluice.model.values import Value

_WIDTH = 20


@dataclass(frozen=True, slots=True)
class Check:
    """One constraint or residual of a box, whether it holds, and the values it looked at."""

    text: str
    holds: bool
    seen: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The checks of every box; a box matches if all its checks hold, the subscription if one of its boxes does."""

    matched: bool
    boxes: tuple[tuple[Check, ...], ...]

    def __str__(self) -> str:
        lines = ["match" if self.matched else "no match"]
        for number, box in enumerate(self.boxes, 1):
            if len(self.boxes) > 1:
                lines.append(f" box {number} of {len(self.boxes)}")
            for check in box:
                mark = "yes" if check.holds else "NO "
                lines.append(f"  {mark}  {check.text:{_WIDTH}} {check.seen}".rstrip())
            if not box:
                lines.append("  yes  it asks for everything")
        if not self.boxes:
            lines.append("  NO   nothing can match: its conditions contradict each other")
        return "\n".join(lines)


def explain(record: Mapping[str, Value], subscription: Subscription) -> Explanation:
    """Evaluates every check of a subscription for a flat record."""
    boxes = []
    for box in subscription.filters:
        checks = [
            Check(side.to_sql(name), side.matches(record.get(name)), _seen(name, record))
            for name, side in box.constraints.items()
        ]
        checks += [Check(residual.to_sql(), residual.matches(record), "evaluated") for residual in box.residuals]
        boxes.append(tuple(checks))
    return Explanation(any(all(check.holds for check in box) for box in boxes), tuple(boxes))


def _seen(name: str, record: Mapping[str, Value]) -> str:
    if name not in record:
        return f"{name} is missing"
    text = repr(record[name])
    return f"{name} is {text if len(text) <= 60 else text[:57] + '...'}"
