"""What a broker does about links that broke: holds what came over them, tries what `Repair` finds, and joins others.

What came over a broken link is held as that of a *ghost*, a channel that nobody speaks to. It goes when the link works again
and there was time to hear what is so now, when another link has taken its place, or when the hold is over.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sluice.protocol.batch import Peer
from sluice.protocol.reshape.channel import channel_of
from sluice.protocol.reshape.config import ReshapeConfig
from sluice.protocol.reshape.host import Host
from sluice.protocol.reshape.messages import AGAIN, Abort, Adopt, Dial, HangUp, JobId, Neighbours
from sluice.protocol.reshape.repair import Broken, Repair

if TYPE_CHECKING:
    from sluice.protocol.reshape.reshape import Reshape

#: The channel that holds what came over a link that broke.
HELD = "held"


class Mending:
    """The broken links of one broker, and what is held of them."""

    def __init__(self, reshape: Reshape, host: Host, config: ReshapeConfig) -> None:
        self._reshape = reshape
        self._host = host
        self._config = config
        self.repair = Repair(host.name, config)
        #: What is still believed of links that broke, though they work again or were replaced, and until when.
        self._ghosts: dict[Peer, float] = {}

    @property
    def deadline(self) -> float:
        """When a tick is due."""
        return min(self.repair.deadline, *self._ghosts.values()) if self._ghosts else self.repair.deadline

    def ended(self, id: JobId) -> None:
        """A job is over: if it was to replace a broken link that is still there, something else is tried."""
        for broken in self.repair.broken.values():
            if broken.job == id:
                self.repair.postpone(broken, self._reshape.now)

    def replaced(self, peer: Peer) -> None:
        """A link is not part of the tree any more: there is nothing to mend."""
        self.repair.end(peer, "repaired")

    def holds(self, peer: Peer) -> bool:
        """Whether what came over a link is held, since it broke."""
        return self._reshape.channels.get(peer) == channel_of(peer, HELD)

    def back(self, peer: Peer, channel: Peer) -> None:
        """A link works again; what was believed meanwhile goes when there was time to hear what is so."""
        broken = self.repair.end(peer, "returned")
        if broken is not None and channel == channel_of(peer, HELD):
            self._ghosts[channel] = broken.until
        else:
            self._host.link_down(channel)

    def tell_neighbours(self) -> None:
        """Tells all around who is around."""
        if self._config.repairs:
            known = {
                peer: self._reshape.links[peer].address
                for peer in self._reshape.channels
                if peer in self._reshape.links
            }
            self.repair.addresses.update(known)
            for peer in known:
                self._host.send(peer, Neighbours({name: at for name, at in known.items() if name != peer}))

    def lose(self, peer: Peer, channel: Peer, *, is_final: bool = False) -> None:
        """A link of the tree broke: what came over it is believed for a while if it may come back or be replaced."""
        ghost = channel_of(peer, HELD)
        if not is_final and self._reshape.mark(peer).is_member and self.repair.lost(peer, self._reshape.now):
            self._drop_ghost(ghost)
            self._host.remember(channel, ghost)
            self._reshape.channels[peer] = ghost
        else:
            self._host.link_down(channel)
        self.tell_neighbours()

    def _drop_ghost(self, ghost: Peer) -> None:
        if self._ghosts.pop(ghost, None) is not None:
            self._host.link_down(ghost)

    def tick(self, now: float) -> None:
        """Tries what is due for links that broke, and gives up those whose hold is over."""
        for ghost in [ghost for ghost, until in self._ghosts.items() if until <= now]:
            self._drop_ghost(ghost)
        for peer in self.repair.over(now):
            self.repair.end(peer, "given_up")
            if self._reshape.job is None or peer not in self._reshape.job.old:
                self._host.link_down(self._reshape.channels.pop(peer))
        for broken in self.repair.due(now):
            self._try(broken, now)

    def _try(self, broken: Broken, now: float) -> None:
        """Has a link replaced by the next that may take its place; if none may, it is taken for dead."""
        if self._reshape.job is not None:
            self.repair.postpone(broken, now)
            return
        if broken.plans is None:
            own = [peer for peer in self._reshape.channels if peer in self._reshape.links]
            around = self.repair.around.get(broken.peer, {})
            is_here = {name: self._host.way(name, self._host.name) is not None for name in around}
            broken.plans = [] if broken.is_dead else list(self.repair.candidates(broken.peer, own, is_here))
            broken.parents = [name for name in sorted(around) if self.repair.may_join(name, self._host.name)]
        job = broken.job = self.repair.new_job(self._host.incarnation)
        if broken.plans:
            self._reshape.substitute(replace(broken.plans.pop(0), job=job), now)
        elif broken.parents:
            parent = broken.parents.pop(0)
            self._host.do(Dial(parent, self.repair.around[broken.peer][parent], job))
        else:
            broken.plans, broken.is_dead = None, False  # perhaps somebody is free by then, or knows of it
            self.repair.postpone(broken, now)

    def call(self, peer: Peer, job: JobId) -> None:
        """A link is there that was dialled to join another neighbour of a dead broker."""
        for broken in self.repair.broken.values():
            if broken.job == job:
                self._host.send(peer, Adopt(broken.peer, job, self._reshape.mark(peer).generation + 1))

    def adopt(self, peer: Peer, message: Adopt) -> None:
        """Another neighbour of a dead broker wants to join this one, or was joined."""
        broken = self.repair.broken.get(message.dead)
        generation = max(message.generation, self._reshape.mark(peer).generation + 1)
        if broken is None or peer in self._reshape.channels or self._reshape.job is not None:
            self._host.send(peer, Abort(message.job, f"{message.dead} is not dead for {self._host.name}: {AGAIN}"))
        elif broken.job == message.job:
            ghost = self._reshape.channels.pop(message.dead)
            self._ghosts[ghost] = broken.until
            self._reshape.set_mark(message.dead, self._reshape.mark(message.dead).generation + 1, False)
            self._take_in(peer, message.generation)
        elif self.repair.may_join(self._host.name, peer):
            self._host.send(peer, Adopt(message.dead, message.job, generation))
            self._take_in(peer, generation)
        else:
            self._host.send(peer, Abort(message.job, f"{peer} comes before {self._host.name}"))

    def _take_in(self, peer: Peer, generation: int) -> None:
        self._reshape.links[peer] = replace(self._reshape.links[peer], job=None)
        self._reshape.set_mark(peer, generation, True, self._reshape.links[peer].address)
        self._reshape.join_tree(peer)

    def give_up(self, peer: Peer, job: JobId) -> None:
        """Nothing comes of joining another neighbour of a dead broker."""
        for broken in self.repair.broken.values():
            if broken.job == job and (self._reshape.job is None or self._reshape.job.id != job):
                self._host.do(HangUp(peer, job))
                self.repair.postpone(broken, self._reshape.now)
