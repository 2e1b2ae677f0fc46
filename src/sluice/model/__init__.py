"""What is said and what is asked: values, constraints, filters, subscriptions, and the language people write them in."""

from sluice.model.constraint import Atom, Constraint
from sluice.model.filter import Filter
from sluice.model.parse import parse
from sluice.model.registry import register, register_builtin
from sluice.model.subscription import Subscription, instance_of

register_builtin()

__all__ = ["Atom", "Constraint", "Filter", "Subscription", "instance_of", "parse", "register"]
