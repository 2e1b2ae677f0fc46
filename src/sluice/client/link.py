"""The link of a client to its broker: connects, says hello, and connects again when it breaks, for as long as it is asked to.

Again is to the same broker, or after a while to another one that it knows of (`sluice.client.places`). What happens on the link
is told by calls, in order: `up`, then `messages`, then `down`, and at the very end `over`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from sluice.client.options import Options
from sluice.client.places import Places
from sluice.errors import LinkError, SentAwayError, SluiceError, TrustError
from sluice.limits import MAX_MESSAGE_BYTES
from sluice.net.address import PLAIN_SCHEME, TLS_SCHEME
from sluice.net.connection import Connection
from sluice.protocol.wire.link import PROTOCOL, Anything, Bye, Elsewhere, Hello, Welcome

logger = logging.getLogger("sluice.client")

#: The pause before the second attempt, and the longest one; each is twice the one before, give or take a half.
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0

#: Opens a connection to an address: gets a function that makes one end of it.
Dial = Callable[[Callable[[], Connection], str], Awaitable[object]]


class User(Protocol):
    """Who uses a link."""

    def hello(self) -> Hello:
        """What to say first."""

    def up(self, welcome: Welcome) -> None:
        """The link works; nothing of an earlier one will arrive any more."""

    def messages(self, messages: list[Anything]) -> None:
        """These came together."""

    def down(self, reason: str) -> None:
        """The link is gone, with all that was on it."""

    def over(self, error: SluiceError) -> None:
        """There will be no link any more."""


class Link:
    """Keeps one connection up."""

    def __init__(self, addresses: Sequence[str], dial: Dial, user: User, options: Options) -> None:
        self._places = Places(addresses, options.move_seconds)
        self._dial = dial
        self._user = user
        self._options = options
        self._task: asyncio.Task[None] | None = None
        self._talk: Talk | None = None
        #: The connection while it is up.
        self.connection: Connection | None = None
        self._opened: asyncio.Future[None] | None = None
        self._problem = "it does not answer"

    async def open(self) -> None:
        """Connects for the first time; raises `LinkError` if that takes too long."""
        self._opened = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep())
        try:
            async with asyncio.timeout(self._options.connect_seconds):
                await self._opened
        except TimeoutError:
            await self._stop()
            raise LinkError(
                f"no broker at {self._places}: {self._problem}. Is it running there? `sluice broker` starts one"
            ) from None
        except BaseException:
            await self._stop()
            raise

    async def close(self) -> None:
        """Says goodbye; what was sent before arrives first."""
        connection, self.connection, talk = self.connection, None, self._talk
        if connection is not None:
            connection.close("the client is done")
        await self._stop()
        if connection is not None and talk is not None:
            await talk.ended

    async def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        pause, since = FIRST_PAUSE_SECONDS, loop.time()
        while True:
            for address in self._places.candidates(loop.time()):
                self._talk = talk = Talk(self, self._user, address)
                started = loop.time()
                try:
                    self._problem = await self._attend(talk)
                finally:
                    talk.forget()
                if talk.was_up:
                    since = loop.time()
                    self._places.lost(since, talk.elsewhere)
                    if since - started > LONGEST_PAUSE_SECONDS or talk.elsewhere:
                        pause = FIRST_PAUSE_SECONDS
                if self._ends(talk, loop.time() - since):
                    return
                logger.debug("no link to %s: %s", address, self._problem)
                if talk.was_up:
                    break
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _attend(self, talk: Talk) -> str:
        """One connection from its beginning to its end; returns why it ended."""
        try:
            async with asyncio.timeout(self._options.connect_seconds):
                await self._dial(talk.make, talk.address)
                talk.begin()
                await talk.answered
        except TimeoutError:
            return f"no answer within {self._options.connect_seconds:g} s"
        except TrustError as error:
            talk.is_untrusted = True
            return str(error)
        except (OSError, SluiceError) as error:
            return str(error)
        reason = await asyncio.shield(talk.ended)
        if talk.was_answered or not talk.address.startswith(f"{PLAIN_SCHEME}://"):
            return reason
        return f"{reason} before it answered, as a broker with TLS does: is it {TLS_SCHEME}://?"

    def _ends(self, talk: Talk, down_seconds: float) -> bool:
        """Whether that was the last attempt."""
        options, problem = self._options, self._problem
        assert self._opened is not None
        is_first = not self._opened.done()
        # What a broker that was asked in place of another one says is not the end: the other one may come back.
        is_only = self._places.given == (talk.address,) if is_first else self._places.home == talk.address
        error: LinkError
        if talk.is_final and is_only:
            error = SentAwayError(f"the broker at {talk.address} has sent this client away: {problem}")
        elif talk.is_untrusted and is_first and is_only:
            error = TrustError(problem)
        elif not options.reconnect and not is_first:
            error = LinkError(f"the link to {talk.address} is gone: {problem}")
        elif options.give_up_seconds is not None and not is_first and down_seconds > options.give_up_seconds:
            error = LinkError(f"no link to {self._places} for {options.give_up_seconds:g} s: {problem}")
        else:
            return False
        if is_first:
            self._opened.set_exception(error)
        else:
            self._user.over(error)
        return True

    def opened(self, connection: Connection, address: str) -> None:
        """The handshake is over."""
        self.connection = connection
        self._places.arrived(address)
        if self._opened is not None and not self._opened.done():
            self._opened.set_result(None)

    def told(self, elsewhere: Elsewhere) -> None:
        """The broker at the other end says who else is there."""
        addresses = [*elsewhere.addresses]
        random.shuffle(addresses)  # so that not all clients go to the same one
        self._places.told(addresses)

    def broke(self, connection: Connection) -> None:
        """A connection is gone."""
        if self.connection is connection:
            self.connection = None


class Talk:
    """One connection: hello, welcome, messages, the end."""

    def __init__(self, link: Link, user: User, address: str) -> None:
        self.address = address
        self._link = link
        self._user = user
        self._connection: Connection | None = None
        loop = asyncio.get_running_loop()
        #: Done when the broker has answered the hello or will not, and when the connection is over.
        self.answered: asyncio.Future[str] = loop.create_future()
        self.ended: asyncio.Future[str] = loop.create_future()
        self.was_up = False
        self.is_final = False
        #: Whether the other end could not prove who it is.
        self.is_untrusted = False
        self._farewell = ""
        #: Where a broker that leaves for good says to go on.
        self.elsewhere: tuple[str, ...] = ()

    @property
    def was_answered(self) -> bool:
        """Whether the broker has said anything, be it goodbye."""
        return self.was_up or bool(self._farewell)

    def make(self) -> Connection:
        """This end of the connection."""
        self._connection = Connection(
            on_messages=self._messages, on_lost=self._lost, max_message_bytes=MAX_MESSAGE_BYTES
        )
        return self._connection

    def begin(self) -> None:
        """Says hello."""
        assert self._connection is not None
        self._connection.send(self._user.hello())

    def forget(self) -> None:
        """Nobody cares any more."""
        self._user = _Nobody()
        if self._connection is not None:
            self._connection.close("the client is done")

    def _messages(self, messages: list[Anything]) -> None:
        assert self._connection is not None
        if isinstance(messages[-1], Bye):
            bye = messages[-1]
            self._farewell, self.is_final, self.elsewhere = bye.reason, bye.is_final, bye.elsewhere
        if not self.was_up:
            first, messages = messages[0], messages[1:]
            if isinstance(first, Bye):
                return
            if not isinstance(first, Welcome) or first.protocol != PROTOCOL:
                self._connection.close(
                    f"a welcome of protocol {PROTOCOL} was expected, and {first} came", is_final=True
                )
                return
            self.was_up = True
            self._connection.beat(first.heartbeat_seconds)
            self._link.opened(self._connection, self.address)
            self._user.up(first)
            if not self.answered.done():
                self.answered.set_result("welcome")
        for message in messages:
            if isinstance(message, Elsewhere):
                self._link.told(message)
        if messages:
            self._user.messages(messages)

    def _lost(self, reason: str) -> None:
        reason = self._farewell or reason
        assert self._connection is not None
        self._link.broke(self._connection)
        for future in (self.answered, self.ended):
            if not future.done():
                future.set_result(reason)
        if self.was_up:
            self._user.down(reason)


class _Nobody:
    """Hears what nobody wants to hear any more."""

    def hello(self) -> Hello:
        raise AssertionError("the conversation is over")

    def up(self, welcome: Welcome) -> None:
        pass

    def messages(self, messages: list[Anything]) -> None:
        pass

    def down(self, reason: str) -> None:
        pass

    def over(self, error: SluiceError) -> None:
        pass
