"""Which filters differ from a given one in a single attribute? Those are the candidates for perfect merging (figure 4.9).

Each box is filed once per attribute under everything but that attribute, so that finding candidates costs one look-up per
attribute: whatever is filed there differs in that attribute alone, unless it is the very same box.
"""

from __future__ import annotations

from typing import Any

from sluice.model.subscription import Subscription

#: The attribute that is left out (None for the whole box), the residuals, and then the names and sides that are left. It is
#: flat, and a single slot is no set: with a million filters, each object more is one that the garbage collector visits.
_Key = tuple[Any, ...]


class MergeIndex:
    """Subscriptions of one box, by what is left of the box when one side is taken away."""

    def __init__(self) -> None:
        self._slots: dict[_Key, int | set[int]] = {}

    def add(self, slot: int, subscription: Subscription) -> None:
        """Files a subscription."""
        for key in _keys(subscription):
            found = self._slots.setdefault(key, slot)
            if isinstance(found, set):
                found.add(slot)
            elif found != slot:
                self._slots[key] = {found, slot}

    def remove(self, slot: int, subscription: Subscription) -> None:
        """Takes a subscription out."""
        for key in _keys(subscription):
            found = self._slots[key]
            if isinstance(found, set) and len(found) > 1:
                found.remove(slot)
            else:
                del self._slots[key]

    def candidates(self, subscription: Subscription) -> set[int]:
        """The slots of the boxes that differ from this one in exactly one side."""
        keys = _keys(subscription)
        found = set[int]().union(*(self._under(key) for key in keys[1:]))
        return found.difference(*(self._under(key) for key in keys[:1]))

    def _under(self, key: _Key) -> set[int] | tuple[int, ...]:
        found = self._slots.get(key, ())
        return (found,) if isinstance(found, int) else found


def _keys(subscription: Subscription) -> list[_Key]:
    """The whole box, then the box without each of its sides; nothing for a union of boxes."""
    if len(subscription.filters) != 1:
        return []
    box = subscription.filters[0]
    flat: list[Any] = []
    for name in sorted(box.constraints):
        flat += (name, box.constraints[name])
    keys: list[_Key] = [(None, box.residuals, *flat)]
    for at in range(0, len(flat), 2):
        keys.append((flat[at], box.residuals, *flat[:at], *flat[at + 2 :]))
    return keys
