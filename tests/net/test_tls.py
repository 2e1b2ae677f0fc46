"""A connection with TLS carries messages like any other, ends with a reason that is heard, and errors say what is wrong."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sluice.errors import ConfigurationError, LinkError, TrustError
from sluice.net.address import Address
from sluice.net.connection import HIGH_WATER_BYTES
from sluice.net.tls import dial, identity, problem_of, trust
from sluice.protocol.batch import Records
from sluice.protocol.messages import Notify
from sluice.protocol.wire.link import Bye, Credit
from tests.broker.raw import played, until
from tests.certificates import Authority
from tests.net.test_connection import End


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@asynccontextmanager
async def connected(authority: Authority, heartbeat_seconds: float = 60.0) -> AsyncIterator[tuple[End, End]]:
    """Whoever has dialled, and whoever was dialled."""
    own = authority.issue("here", "DNS:localhost")
    made = asyncio.Event()
    theirs, ours = End(heartbeat_seconds, on_made=made.set), End(heartbeat_seconds)
    loop = asyncio.get_running_loop()
    context = identity(own.certificate, own.key)
    server = await loop.create_server(lambda: theirs.connection, "127.0.0.1", 0, ssl=context)
    async with server:
        address = Address("localhost", server.sockets[0].getsockname()[1], is_tls=True)
        await dial(lambda: ours.connection, address, trust(authority.certificate))
        await until(lambda: made.is_set())
        yield ours, theirs
        for end in (ours, theirs):
            end.connection.close("the test is over")
        await until(lambda: ours.lost is not None and theirs.lost is not None)


def batch(number: int) -> Notify:
    return Notify(Records.of("ann", number, [{"filling": "x" * 100_000}]))


@played
async def test_messages_come_in_order(authority: Authority) -> None:
    async with connected(authority) as (ours, theirs):
        count = 5 * HIGH_WATER_BYTES // 100_000
        for number in range(1, count + 1):
            ours.connection.send(batch(number))
            theirs.connection.send(Credit(number))
        await until(lambda: len(theirs.came) == len(ours.came) == count)
        assert [message.batch.numbers[0] for message in theirs.came if isinstance(message, Notify)] == [
            *range(1, count + 1)
        ]
        assert ours.came == [Credit(number) for number in range(1, count + 1)]


@played
async def test_a_reason_is_heard_while_the_other_side_is_still_talking(authority: Authority) -> None:
    """Whoever says goodbye has more to say than the other takes at once, and the other goes on talking meanwhile."""
    async with connected(authority) as (ours, theirs):
        ours.connection.pause_reading()
        for number in range(1, 201):
            theirs.connection.send(batch(number))
        theirs.connection.flush()
        theirs.connection.close("you talk too much", is_final=True)
        heard = theirs.connection.bytes_in
        for number in range(1, 101):
            ours.connection.send(batch(number))
        await until(lambda: theirs.connection.bytes_in > heard)
        ours.connection.resume_reading()
        await until(lambda: ours.lost is not None and theirs.lost is not None)
        assert len(ours.came) == 201 and ours.came[-1] == Bye("you talk too much", is_final=True)
        assert theirs.lost == "you talk too much" and not theirs.came


@played
async def test_what_was_said_before_goodbye_arrives(authority: Authority) -> None:
    async with connected(authority) as (ours, theirs):
        theirs.connection.pause_reading()
        for number in range(1, 101):
            ours.connection.send(batch(number))
        ours.connection.close("done")
        theirs.connection.resume_reading()
        await until(lambda: ours.lost is not None and theirs.lost is not None)
        assert len(theirs.came) == 101 and theirs.came[-1] == Bye("done")


@played
async def test_both_may_say_goodbye_at_once(authority: Authority) -> None:
    async with connected(authority) as (ours, theirs):
        ours.connection.close("I go")
        theirs.connection.close("so do I")
        await until(lambda: (ours.lost, theirs.lost) == ("I go", "so do I"))


@played
async def test_whoever_hears_nothing_of_tls_is_told(authority: Authority) -> None:
    trusted = trust(authority.certificate)
    answers = {b"HTTP/1.1 400 Bad Request\r\n\r\n": TrustError, b"": LinkError}
    for answer, error in answers.items():

        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: bytes = answer) -> None:
            await reader.read(1)
            writer.write(answer)
            writer.close()

        async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
            address = Address("127.0.0.1", server.sockets[0].getsockname()[1], is_tls=True)
            with pytest.raises(error, match=r"does not speak TLS|before TLS began") as caught:
                await dial(lambda: End().connection, address, trusted)
            assert type(caught.value) is error and str(address) in str(caught.value)


def test_what_is_wrong_with_a_certificate_is_said() -> None:
    address = Address("broker.example", 7470, is_tls=True)
    for code, words in (
        (10, "not valid at this time"),
        (62, "for another host"),
        (64, "for another host"),
        (19, "trusted"),
    ):
        error = ssl.SSLCertVerificationError()
        error.verify_code, error.verify_message = code, "as OpenSSL says"
        assert words in problem_of(error, address) and str(address) in problem_of(error, address)


def test_files_that_are_no_certificates(authority: Authority, tmp_path: Path) -> None:
    own, text, missing = authority.issue("own", "DNS:x"), tmp_path / "text", tmp_path / "missing"
    text.write_text("not a certificate")
    for certificate, key in ((text, own.key), (own.certificate, text), (missing, own.key), (own.certificate, missing)):
        with pytest.raises(ConfigurationError, match=r"are no certificate with its key: .* Both are files in PEM form"):
            identity(certificate, key)
    for file in (text, missing):
        with pytest.raises(ConfigurationError, match=r"is no certificate of an authority: .* It is a file in PEM form"):
            trust(file)


def test_a_key_with_a_password_asks_nobody(tmp_path: Path) -> None:
    own = Authority(tmp_path).issue("own", "DNS:x")
    locked = tmp_path / "locked.key"
    command = ["openssl", "ec", "-aes256", "-passout", "pass:secret", "-in", str(own.key), "-out", str(locked)]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(ConfigurationError, match="the key has a password, and nobody is there to type it"):
        identity(own.certificate, locked)
