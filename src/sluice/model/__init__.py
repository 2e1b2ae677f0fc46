"""What is said and what is asked: values, constraints, filters, subscriptions, and the language people write them in."""

from sluice.model.constraint import Atom, Constraint
from sluice.model.filter import Filter
from sluice.model.geo import geo_within
from sluice.model.nan import isnan
from sluice.model.parse import parse
from sluice.model.registry import register
from sluice.model.subscription import Subscription, instance_of
from sluice.model.types import instanceof
from sluice.model.xml import xpath_boolean

# The tests that come with Sluice are registered in the way that those of its users are.
for _test in (geo_within, instanceof, isnan, xpath_boolean):
    register(_test.__name__, _test)

__all__ = ["Atom", "Constraint", "Filter", "Subscription", "instance_of", "parse", "register"]
