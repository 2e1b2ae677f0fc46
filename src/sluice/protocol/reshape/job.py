"""One job as one broker of the chain sees it: its neighbours, how far it is, and which old channels are not clear yet."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.protocol.batch import Peer
from sluice.protocol.reshape.channel import channel_of
from sluice.protocol.reshape.messages import JobId, Plan


@dataclass(slots=True)
class Old:
    """The old channel of a link of the chain."""

    channel: Peer
    #: Whether the other end has said that nothing follows, and whether this one has.
    has_heard: bool = False
    has_said: bool = False


@dataclass(slots=True)
class Job:
    """A job that this broker takes part in."""

    plan: Plan
    #: The brokers up to this one, later all.
    path: tuple[Peer, ...]
    #: The neighbours on the chain in the new tree.
    prev: Peer | None
    next: Peer | None
    #: Whether A has no working link to B any more, or had none at some time since.
    is_broken: bool
    is_steered: bool
    #: The generations that the old link and the new one will have.
    generations: tuple[int, int]
    deadline: float
    #: The old channels of the chain by their links.
    old: dict[Peer, Old] = field(default_factory=dict)
    #: The new channels that are open, by their links.
    new: dict[Peer, Peer] = field(default_factory=dict)
    is_flipped: bool = False
    #: Whether the other end of the old link needs it no longer.
    is_parted: bool = False

    @property
    def id(self) -> JobId:
        """The name of the job."""
        return self.plan.job

    @property
    def neighbours(self) -> list[Peer]:
        """The neighbours on the chain in the new tree."""
        return [peer for peer in (self.prev, self.next) if peer is not None]

    def channel(self, link: Peer) -> Peer:
        """The new channel of a link."""
        return channel_of(link, self.id)

    def base(self, link: Peer) -> Peer | None:
        """The old channel of a link; None: the link is new."""
        old = self.old.get(link)
        return None if old is None else old.channel

    def may_say_last(self, link: Peer) -> bool:
        """Whether nothing can come any more that would have to go on in an old channel."""
        return (
            self.is_flipped
            and not self.old[link].has_said
            and all(old.has_heard for other, old in self.old.items() if other != link)
        )

    @property
    def is_clear(self) -> bool:
        """Whether all old channels are done with."""
        return self.is_flipped and all(old.has_heard and old.has_said for old in self.old.values())
