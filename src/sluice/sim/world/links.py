"""Links: first in, first out, each message after a delay of its own; what a link that breaks has not brought is lost.

A link is two directions. Each end notices on its own time that the link came up or went down, as with a real connection: what
arrives before an end notices the loss still counts, what is sent after the loss does not. Nothing of an earlier link arrives
after the next one came up.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from sluice.protocol.events import LinkDown, LinkUp

if TYPE_CHECKING:
    from sluice.sim.world.nodes import Node


class Direction:
    """One way along a link."""

    __slots__ = ("back", "down", "epoch", "is_open", "last", "link", "random", "receiver", "sender", "told", "up")

    def __init__(self, link: Link, sender: Node, receiver: Node, random: Random) -> None:
        self.link = link
        self.sender = sender
        self.receiver = receiver
        self.random = random
        self.back: Direction = self
        #: Whether what is sent now will arrive.
        self.is_open = False
        #: Whether the receiver holds the link to be up.
        self.told = False
        #: When the last message that is under way arrives: none may overtake it.
        self.last = 0.0
        #: Grows when the receiver has seen the link go down: what is under way from before is lost.
        self.epoch = 0
        self.up = LinkUp(sender.name, sender.role, node=sender.node)
        self.down = LinkDown(sender.name)


class Link:
    """A connection between two nodes, up whenever both are up and it is not broken itself."""

    __slots__ = ("a", "b", "back", "closing", "forth", "is_lost", "is_open", "is_taken", "jobs", "members")

    def __init__(self, a: Node, b: Node, seed: str) -> None:
        self.a = a
        self.b = b
        #: Broken by a fault, until it heals.
        self.is_lost = False
        self.is_open = False
        #: Taken away by hand, which both ends know when it goes down.
        self.is_taken = False
        #: The ends that hold it to be part of the tree.
        self.members: dict[str, None] = {a.name: None, b.name: None}
        #: The jobs for which it was dialled, and by whom.
        self.jobs: dict[str, str] = {}
        #: How many ends have not yet noticed that it went down.
        self.closing = 0
        # A source of chance for each direction: what happens elsewhere does not change the delays here.
        self.forth = Direction(self, a, b, Random(f"{seed}/{a.name}>{b.name}"))
        self.back = Direction(self, b, a, Random(f"{seed}/{b.name}>{a.name}"))
        self.forth.back, self.back.back = self.back, self.forth

    @property
    def is_possible(self) -> bool:
        """Whether it can be up."""
        return not self.is_lost and self.a.is_up and self.b.is_up

    @property
    def is_wanted(self) -> bool:
        """Whether it should be up."""
        return self.is_possible and bool(self.members or self.jobs)

    def jobs_of(self, node: Node) -> list[str]:
        """What it is for, as one of its ends is told: its own jobs if it has dialled, or else one of the other end."""
        return [job for job, dialler in self.jobs.items() if dialler == node.name] or list(self.jobs)[:1]

    def back_to(self, node: Node) -> Direction:
        """The way to one of its ends."""
        return self.forth if node is self.b else self.back

    def up_for(self, node: Node, job: str | None) -> LinkUp:
        """What one of its ends is told when it comes up."""
        return replace(self.back_to(node).up, job=job)
