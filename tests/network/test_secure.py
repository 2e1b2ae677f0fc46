"""Links with TLS and tokens, over real sockets: who may come in does, nobody else, and everybody is told why."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import sluice
from sluice.broker.config import ServerConfig
from sluice.broker.server import Server
from sluice.broker.supervise import running as running_processes
from sluice.broker.topology import topology
from sluice.cli import main
from sluice.errors import ConfigurationError, LinkError, SluiceError, TrustError
from sluice.net.address import Address
from sluice.protocol.messages import Role
from sluice.protocol.wire.link import PROTOCOL, Hello
from tests.broker.raw import Raw, played, running, until
from tests.certificates import Authority, Certificate, secret

ANN, B2 = "ann-" * 8, "second-broker-" * 3


class Pki:
    """The files of a small network: two authorities, certificates of this machine and of another, tokens."""

    def __init__(self, folder: Path) -> None:
        self.authority, self.stranger = Authority(folder / "ours"), Authority(folder / "theirs")
        self.here = self.authority.issue("here", "DNS:localhost", "IP:127.0.0.1")
        self.elsewhere = self.authority.issue("elsewhere", "DNS:broker.example")
        self.tokens = secret(folder / "tokens.toml", f'ann = "{ANN}"\nb2 = "{B2}"\n')
        self.ann, self.b2 = secret(folder / "ann", f"{ANN}\n"), secret(folder / "b2", f"{B2}\n")
        self.wrong = secret(folder / "wrong", "nobody-has-this-token\n")

    @property
    def settings(self) -> dict[str, Any]:
        """Those of a broker with both."""
        return {**self.here.settings, "tls_authority": self.authority.certificate, "tokens_file": self.tokens}

    def connect(self, server: Server, name: str | None = None, **options: Any) -> Any:
        """A client with both."""
        said = {"token": ANN, "tls_authority": self.authority.certificate, **options}
        return sluice.connect(str(server.address), name, **said)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture(autouse=True)
def no_secret_is_told(caplog: pytest.LogCaptureFixture) -> Any:
    """Whatever happens: what is logged on the way has no token in it."""
    with caplog.at_level(logging.DEBUG, "sluice"):
        yield
    for record in caplog.records:
        said = f"{record.getMessage()} {getattr(record, 'fields', '')}"
        assert ANN not in said and B2 not in said and "nobody-has-this-token" not in said


def events(caplog: pytest.LogCaptureFixture, name: str) -> list[dict[str, Any]]:
    """What brokers have logged under a name."""
    return [record.fields for record in caplog.records if record.getMessage() == name]  # type: ignore[attr-defined]


# --- clients ----------------------------------------------------------------------------------------------------------


@played
async def test_a_client_with_both_is_served(pki: Pki, caplog: pytest.LogCaptureFixture) -> None:
    async with running("b1", **pki.settings) as server:
        assert str(server.address).startswith("sluices://127.0.0.1:")
        async with pki.connect(server, "ann") as bus, bus.subscribe("n > 0") as feed:
            await feed.complete()
            await bus.publish_many([{"n": n, "filling": "x" * 10_000} for n in range(1, 1_001)])
            assert [(await anext(feed))["n"] for _ in range(1_000)] == [*range(1, 1_001)]
            report = await bus.describe()
            assert ANN not in str(report) and report["address"] == str(server.address)
        assert {"peer": "ann", "holder": "ann"} in events(caplog, "let-in")
        assert ANN not in repr(server.config) and ANN not in repr(server._security)


def test_so_is_a_blocking_one(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_TOKEN", ANN)
    monkeypatch.setenv("SLUICE_TLS_AUTHORITY", str(pki.authority.certificate))

    async def main() -> None:
        async with running("b1", **pki.settings) as server:

            def use() -> str:
                with sluice.connect(f"sluices://localhost:{server.address.port}") as bus:
                    bus.publish({"n": 1})
                    return str(bus.describe()["name"])

            assert await asyncio.to_thread(use) == "b1"

    asyncio.run(main())


REFUSED: dict[str, tuple[Callable[[Pki], dict[str, Any]], type[SluiceError], str]] = {
    "no token": (lambda pki: {"token": None}, LinkError, "this broker asks for a token: set SLUICE_TOKEN"),
    "a wrong token": (lambda pki: {"token": "nobody-has-this-token"}, LinkError, "does not know that token"),
    "half a token": (lambda pki: {"token": ANN[:-1]}, LinkError, "does not know that token"),
    "no letters": (lambda pki: {"token": "\U0001f600" * 20}, LinkError, "does not know that token"),
    "another authority": (
        lambda pki: {"tls_authority": pki.stranger.certificate},
        TrustError,
        "is not trusted .*say with tls_authority or SLUICE_TLS_AUTHORITY",
    ),
    "those of the system": (lambda pki: {"tls_authority": None}, TrustError, "is not trusted"),
}


@pytest.mark.parametrize("case", REFUSED)
@played
async def test_anybody_else_is_told_why_not_at_once(pki: Pki, case: str) -> None:
    options, kind, reason = REFUSED[case]
    async with running("b1", **pki.settings) as server:
        # The patience is far beyond that of the test: nobody waits for what trying again would not mend.
        with pytest.raises(kind, match=reason) as caught:
            async with pki.connect(server, connect_seconds=3_600, **options(pki)):
                pass
        assert ANN not in str(caught.value) and "nobody-has-this-token" not in str(caught.value)
        assert not server.peers
        await until(lambda: not server._strangers)


@played
async def test_a_certificate_is_good_for_its_hosts_alone(pki: Pki) -> None:
    async with running("b1", **{**pki.settings, **pki.elsewhere.settings}) as server:
        with pytest.raises(TrustError, match=r"is for another host: dial a name that is in it"):
            async with pki.connect(server):
                pass


@played
async def test_a_plain_client_at_a_broker_with_tls(pki: Pki) -> None:
    async with running("b1", **pki.settings) as server:
        plain = str(server.address._replace(is_tls=False))
        with pytest.raises(LinkError, match=r"before it answered, as a broker with TLS does: is it sluices://\?"):
            async with sluice.connect(plain, connect_seconds=3.0, token=ANN):
                pass
        assert not server.peers and not server._strangers


@played
async def test_a_client_with_tls_at_a_plain_broker(pki: Pki) -> None:
    async with running("b1") as server:
        with pytest.raises(TrustError, match="does not speak TLS: for a broker without it write sluice://"):
            async with sluice.connect(str(server.address._replace(is_tls=True))):
                pass
        with pytest.raises(ConfigurationError, match=r"tls_authority is given, but sluice://.* is dialled without TLS"):
            pki.connect(server)
        async with sluice.connect(str(server.address), token=ANN) as bus:
            assert (await bus.describe())["name"] == "b1"  # where no token is asked for, one does no harm


@played
async def test_a_client_comes_back_with_both(pki: Pki, tmp_path: Path) -> None:
    settings = {**pki.settings, "data": tmp_path / "b1", "fsync": False}
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running("b1", **settings))
        port = server.address.port
        async with pki.connect(server, "ann") as bus, bus.subscribe("n > 0") as feed:
            await feed.complete()
            await bus.publish({"n": 1})
            assert (await anext(feed))["n"] == 1
            await stack.aclose()
            waiting = asyncio.ensure_future(bus.publish({"n": 2}))
            async with running("b1", **settings, listen=f"127.0.0.1:{port}"):
                await waiting
                await feed.complete()
                await bus.publish({"n": 3})
                while (await anext(feed))["n"] != 3:
                    pass


@played
async def test_silence_and_noise_at_the_door_leave_nothing_behind(pki: Pki) -> None:
    async with running("b1", **pki.settings) as server:
        silent = await Raw.to(server)
        noisy = await Raw.to(server)
        noisy.say(Hello(PROTOCOL, Role.CLIENT, "eve", 1), b"\x00" * 100_000)
        assert await noisy.end() is None
        assert not server._strangers and not server.peers
        async with pki.connect(server) as bus:
            await bus.publish({"n": 1})
        await silent.close()


# --- brokers ----------------------------------------------------------------------------------------------------------


@played
async def test_brokers_link_with_both(pki: Pki, caplog: pytest.LogCaptureFixture) -> None:
    async with running("b1", **pki.settings) as b1:
        second = {**pki.settings, "links": (str(b1.address),), "token_file": pki.b2}
        async with running("b2", **second) as b2, pki.connect(b1) as near, pki.connect(b2) as far:
            async with near.subscribe("n > 0") as feed:
                await until(lambda: "b2" in b1.peers and "b1" in b2.peers)
                await feed.complete()
                await far.publish({"n": 1})
                assert (await anext(feed))["n"] == 1
            assert {"peer": "b2", "holder": "b2"} in events(caplog, "let-in")


NOT_LINKED: dict[str, tuple[Callable[[Pki], dict[str, Any]], str]] = {
    "no token": (lambda pki: {"token_file": None}, "this broker asks for a token"),
    "a wrong token": (lambda pki: {"token_file": pki.wrong}, "does not know that token"),
    "another authority": (lambda pki: {"tls_authority": pki.stranger.certificate}, "is not trusted"),
}


@pytest.mark.parametrize("case", NOT_LINKED)
@played
async def test_a_broker_that_is_not_let_in_is_told_why(
    pki: Pki, case: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluice.broker.dialler.LAST_RETRY_SECONDS", 0.05)
    settings, reason = NOT_LINKED[case]
    async with running("b1", **pki.settings) as b1:
        second = {**pki.settings, "token_file": pki.b2, "links": (str(b1.address),), **settings(pki)}
        async with running("b2", **second) as b2:
            told = await until(lambda: events(caplog, "unreachable") or events(caplog, "refused"))
            assert reason in told[0]["reason"]
            assert not b1.peers and not b2.peers


def test_processes_and_verbs_with_both(
    pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {**pki.settings, "token_file": pki.b2, "log_level": "error"}
    records = tmp_path / "records.jsonl"
    records.write_text('{"n": 1}\n{"n": 2}\n')
    flags = ["--token-file", str(pki.ann), "--tls-authority", str(pki.authority.certificate)]
    with running_processes(topology("line", 2, data=tmp_path / "data", settings=settings)) as network:
        first, second = map(str, network.addresses.values())
        assert first.startswith("sluices://") and second.startswith("sluices://")
        command = " ".join(map(str, network.brokers["b2"].process.args))  # type: ignore[arg-type]
        assert ANN not in command and B2 not in command
        assert main(["publish", str(records), "--at", second, *flags]) == 0
        assert main(["subscribe", "n > 0", "--at", second, "--from", "1", "--limit", "2", *flags]) == 0
        assert main(["status", first, "--json", *flags]) == 0
        assert main(["publish", str(records), "--at", first, *flags[2:]]) == 2
    said = capsys.readouterr()
    assert said.out.splitlines()[:3] == ["2", '{"n": 1}', '{"n": 2}'] and '"name": "b2"' in said.out
    assert "asks for a token" in said.err and ANN not in said.out + said.err


# --- warnings ---------------------------------------------------------------------------------------------------------


@played
async def test_tokens_in_the_clear_are_warned_of(pki: Pki, caplog: pytest.LogCaptureFixture) -> None:
    async with running(
        "b1", listen="0.0.0.0:0", tokens_file=pki.tokens, token_file=pki.b2, links=("192.0.2.1:9",)
    ) as b1:
        told = [fields["address"] for fields in events(caplog, "tokens-without-tls")]
        assert told == [str(b1.address), "sluice://192.0.2.1:9"]
    with pytest.raises(LinkError):
        async with sluice.connect("sluice://192.0.2.1:9", token=ANN, connect_seconds=0.05):
            pass
    assert "the token goes to sluice://192.0.2.1:9 without TLS" in caplog.text


@played
async def test_tokens_that_stay_on_the_machine_are_not(pki: Pki, caplog: pytest.LogCaptureFixture) -> None:
    async with running("b1", tokens_file=pki.tokens) as b1, sluice.connect(str(b1.address), token=ANN) as bus:
        await bus.publish({"n": 1})
    assert "without" not in caplog.text


def test_a_certificate_and_its_key_go_together(pki: Pki) -> None:
    wrong: Any = Certificate(pki.here.certificate, pki.elsewhere.key).settings
    right: Any = pki.here.settings
    with pytest.raises(ConfigurationError, match="are no certificate with its key: key values mismatch"):
        asyncio.run(Server(ServerConfig(name="b", **wrong)).start())
    assert ServerConfig(name="b", **right).address == Address("127.0.0.1", 7470, is_tls=True)
