"""Publish and subscribe from Python."""

from sluice.client.session import Session

__all__ = ["Session"]
