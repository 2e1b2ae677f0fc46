"""Questions of a client to the brokers, and their answers.

A broker that cannot answer says why (`Failed`). When no answer comes at all, `NoAnswer` is raised; every question may be asked
again without harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sluice.client.session.commands import Inquire, Told
from sluice.errors import RequestError
from sluice.protocol.batch import Peer
from sluice.protocol.messages import EntryId
from sluice.protocol.questions import Answer, Question

#: How long a broker may take for an answer, beside the time that it was allowed to wait.
ANSWER_SECONDS = 10.0


class NoAnswer(RequestError):
    """The link broke or time ran out before an answer came."""


class Questions:
    """What was asked and is not answered yet."""

    def __init__(self, new_id: Callable[[], EntryId], step: Callable[[Inquire], None]) -> None:
        self._new_id = new_id
        self._step = step
        self._open: dict[EntryId, asyncio.Future[Answer | NoAnswer]] = {}

    async def ask(
        self, to: Peer | EntryId, question: Question, timeout_seconds: float | None = ANSWER_SECONDS
    ) -> Answer:
        """The answer of a broker, or of the holder of a subscription."""
        id = self._new_id()
        future: asyncio.Future[Answer | NoAnswer] = asyncio.get_running_loop().create_future()
        self._open[id] = future
        try:
            self._step(Inquire(id, to, question))
            async with asyncio.timeout(timeout_seconds):
                answer = await future
        except TimeoutError:
            raise NoAnswer(f"{to} did not answer within {timeout_seconds:g} s") from None
        finally:
            del self._open[id]
        if isinstance(answer, NoAnswer):
            raise answer
        return answer

    def told(self, news: Told) -> None:
        """An answer came."""
        future = self._open.get(news.id)
        if future is not None and not future.done():
            future.set_result(news.answer)

    def fail(self, reason: str) -> None:
        """There will be no answers to what is open."""
        for future in self._open.values():
            if not future.done():
                future.set_result(NoAnswer(reason))
