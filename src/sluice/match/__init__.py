"""Who asked for this? The index of subscriptions and its compiled kernels."""

from sluice.match.matcher import Matcher

__all__ = ["Matcher"]
