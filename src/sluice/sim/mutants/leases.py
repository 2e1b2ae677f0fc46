"""Bugs in how tables are renewed, compared and given up."""

from __future__ import annotations

from typing import Any

from sluice.broker.core.broker import Broker
from sluice.client.session.session import Session
from sluice.protocol.events import Send
from sluice.protocol.export import Replica
from sluice.protocol.messages import Lost
from sluice.sim.mutants.mutant import Patch, mutant


@mutant("leases", "never-renewed", "a broker does not renew what it told its neighbours", canary=True)
def _() -> Patch:
    return Broker, "_renew", lambda original: lambda self: self._rebuild()


@mutant("leases", "client-never-renews", "a client does not renew what it asked for", first=1)
def _() -> Patch:
    def make(original: Any) -> Any:
        def tick(self: Session) -> None:
            start = len(self._out)
            original(self)
            self._out[start:] = [one for one in self._out[start:] if not isinstance(one, Send)]

        return tick

    return Session, "_tick", make


@mutant("leases", "digest-believed", "a digest is never compared with what is held", first=3)
def _() -> Patch:
    return Replica, "agrees", lambda original: lambda self, message: True


@mutant("leases", "checksum-ignored", "of a digest only the version is compared")
def _() -> Patch:
    return Replica, "agrees", lambda original: lambda self, message: self.version == message.version


@mutant("leases", "nothing-worked-out-anew", "what is derived from the tables is never worked out anew", first=8)
def _() -> Patch:
    return Broker, "_rebuild", lambda original: lambda self: None


@mutant("leases", "lost-unanswered", "a broker does not answer when somebody has lost what it told", first=3)
def _() -> Patch:
    def make(original: Any) -> Any:
        def receive(self: Broker, peer: str, message: Any) -> None:
            if not isinstance(message, Lost):
                original(self, peer, message)

        return receive

    return Broker, "_receive", make


@mutant("leases", "never-expires", "what is not renewed is kept for ever", first=9)
def _() -> Patch:
    def make(original: Any) -> Any:
        def tick(self: Broker) -> None:
            for _, _, replica in self._replicas():
                replica.renewed = self._now
            original(self)

        return tick

    return Broker, "_tick", make
