"""The neighbours that a broker dials: those of its configuration, and what was changed while it ran, which outlives a restart.

The configuration is never rewritten. What differs from it is kept in a file of its own, in the broker's data directory or where
`links_file` says: whoever wants the links of the configuration back stops the broker and removes that file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from sluice.errors import ConfigurationError
from sluice.net.address import Address
from sluice.protocol.batch import Peer
from sluice.protocol.reshape.messages import Mark


class LinkBook:
    """Which brokers to dial.

    >>> links = LinkBook([Address.of("a:1")], None)
    >>> links.add("b", Address.of("b:1")), links.remove("a", Address.of("a:1"))
    (None, None)
    >>> [str(address) for address in links.dialled]
    ['sluice://b:1']
    """

    def __init__(self, configured: Iterable[Address], file: Path | None) -> None:
        self._configured = [*configured]
        self._file = file
        #: What was changed at run time, by the names of the neighbours.
        self._added: dict[Peer, Address] = {}
        self._removed: dict[Peer, Address] = {}
        #: What jobs have made of links, whoever dialled them.
        self.marks: dict[Peer, Mark] = {}
        #: What links that are or were up were dialled at.
        self._met: dict[Peer, Address] = {}
        #: The neighbours in the tree, whoever has dialled: those that there was a link to which nobody has taken away.
        self._neighbours: dict[Peer, None] = {}
        if file is not None and file.exists():
            self._added, self._removed, self.marks = _read(file)

    @property
    def dialled(self) -> list[Address]:
        """The brokers to dial."""
        gone = {*self._removed.values()}
        kept = [address for address in self._configured if address not in gone]
        return [*dict.fromkeys((*kept, *self._added.values()))]

    def met(self, peer: Peer, address: Address | None, *, is_of_tree: bool) -> None:
        """There is a link to this broker; with an address it was dialled there."""
        if address is not None:
            self._met[peer] = address
        if is_of_tree:
            self._neighbours[peer] = None

    def missing(self, linked: Container[Peer]) -> list[tuple[Peer | None, Address | None]]:
        """The neighbours that there should be a link to and is none: by name if they were ever met, by address if dialled.

        >>> links = LinkBook([Address.of("a:1"), Address.of("b:1")], None)
        >>> links.met("a", Address.of("a:1"), is_of_tree=True), links.met("c", None, is_of_tree=True)
        (None, None)
        >>> [(peer, address and str(address)) for peer, address in links.missing(linked=["c"])]
        [('a', 'sluice://a:1'), (None, 'sluice://b:1')]
        """
        dialled, met = self.dialled, [*self._met.values()]
        gone = [
            peer
            for peer in self._neighbours
            if peer not in linked and (peer not in self.marks or self.marks[peer].is_member)
        ]
        return [
            *((peer, self._met[peer] if self._met.get(peer) in dialled else None) for peer in gone),
            *((None, address) for address in dialled if address not in met),
        ]

    def address_of(self, peer: Peer) -> Address | None:
        """Where a broker is dialled; None: it is not, or was not there yet."""
        return self._met.get(peer) or self._added.get(peer)

    def add(self, peer: Peer, address: Address | None, mark: Mark | None = None) -> None:
        """From now on there is a link to this neighbour; with an address it is dialled. A job gives it a mark."""
        self._set_mark(peer, mark)
        self._neighbours[peer] = None
        if address is not None:
            self._removed = {name: each for name, each in self._removed.items() if each != address}
            if address not in self._configured:
                self._added[peer] = address
        self._write()

    def remove(self, peer: Peer, address: Address | None, mark: Mark | None = None) -> None:
        """From now on there is no link to this neighbour; without an address it was not dialled. A job gives it a mark."""
        self._set_mark(peer, mark)
        self._neighbours.pop(peer, None)
        self._added.pop(peer, None)
        if address in self._configured:
            self._removed[peer] = address
        self._write()

    def _set_mark(self, peer: Peer, mark: Mark | None) -> None:
        if mark is not None:
            self.marks[peer] = mark

    def source(self, address: Address | None) -> str:
        """Where a link comes from, in a word or two; without an address the other end has dialled it."""
        if address is None:
            return "dialled by it"
        return "configuration" if address in self._configured else "added at run time"

    def account(self) -> dict[str, Any]:
        """What was changed at run time."""
        return {
            "added": {name: str(address) for name, address in self._added.items()},
            "removed": {name: str(address) for name, address in self._removed.items()},
            "marks": {name: [*mark] for name, mark in self.marks.items()},
        }

    def _write(self) -> None:
        """Puts the changes on the disk, all or none of them."""
        if self._file is None:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        beside = self._file.with_suffix(".new")
        with beside.open("w", encoding="utf-8") as written:
            json.dump(self.account(), written, indent=2)
            written.flush()
            os.fsync(written.fileno())
        beside.replace(self._file)


def _read(file: Path) -> tuple[dict[Peer, Address], dict[Peer, Address], dict[Peer, Mark]]:
    try:
        changes = json.loads(file.read_text(encoding="utf-8"))
        marks = {
            name: Mark(int(generation), bool(is_member)) for name, (generation, is_member) in changes["marks"].items()
        }
        return _addresses(changes["added"]), _addresses(changes["removed"]), marks
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ConfigurationError) as error:
        raise ConfigurationError(
            f"{file} does not say which links were changed ({error}): remove it to have those of the configuration back"
        ) from None


def _addresses(said: Mapping[str, str]) -> dict[Peer, Address]:
    return {name: Address.of(address) for name, address in said.items()}
