"""Channels: what the cores call a peer is one of the channels of the link to a broker.

A link begins with one channel, which has the name of the broker. A job that reshapes the tree opens a second one beside it with
tables, acknowledgements and promises of its own; when the job is over the older one is dropped and the other one simply stays.
Whatever still comes for a channel that is not open is dropped. All channels of a link together are first in, first out.
"""

from __future__ import annotations

from sluice.protocol.batch import Peer

#: Stands between the name of a broker and the job that opened the channel; no name of a broker contains it.
SEPARATOR = "~"


def channel_of(link: Peer, job: str) -> Peer:
    """The channel of a link that a job opens.

    >>> channel_of("b2", "b1/3")
    'b2~b1/3'
    """
    return f"{link}{SEPARATOR}{job}"


def split(channel: Peer) -> tuple[Peer, str]:
    """The link that a channel belongs to, and the job that opened it, "" for the one that every link begins with.

    >>> split("b2~b1/3"), split("b2")
    (('b2', 'b1/3'), ('b2', ''))
    """
    link, _, job = channel.partition(SEPARATOR)
    return link, job


def link_of(channel: Peer) -> Peer:
    """The link that a channel belongs to: the name of the broker at its other end."""
    return channel.partition(SEPARATOR)[0]
