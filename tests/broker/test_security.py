"""The files of a broker that asks for tokens: what is wrong with one is said, and what is in one is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluice.broker.config import ServerConfig
from sluice.broker.security import Security, read_token, read_tokens
from sluice.cli import main
from sluice.errors import ConfigurationError
from sluice.limits import MAX_TOKEN, MIN_TOKEN
from tests.certificates import secret

GOOD, OTHER = "g" * MIN_TOKEN, "o" * MAX_TOKEN


def test_tokens_by_their_holders(tmp_path: Path) -> None:
    file = secret(tmp_path / "tokens.toml", f'ann = "{GOOD}"\n"second broker" = "{OTHER}"\n')
    security = Security.of(ServerConfig(name="b", tokens_file=file))
    assert security.tokens == {"ann": GOOD, "second broker": OTHER}
    assert (security.holder(GOOD), security.holder(OTHER)) == ("ann", "second broker")
    assert security.refusal(GOOD) is security.refusal(OTHER) is None
    for wrong in ("", GOOD[:-1], GOOD + "g", GOOD.upper(), "\udc80", "é" * MIN_TOKEN):
        assert security.holder(wrong) is None and "does not know that token" in str(security.refusal(wrong))
    assert "asks for a token" in str(security.refusal(None))
    assert GOOD not in repr(security)


def test_without_a_file_everybody_may_come() -> None:
    security = Security.of(ServerConfig(name="b"))
    assert security.refusal(None) is security.refusal(GOOD) is None
    assert security.holder(GOOD) is None


WRONG_TOKENS = {
    "no TOML": (f"ann {GOOD}", "is no TOML: write a line"),
    "nothing": ("# nobody", "has no token, and nobody could connect"),
    "a number": ("ann = 12345678901234567890", "ann is no token: write ann ="),
    "a table": (f'[ann]\ntoken = "{GOOD}"', "ann is no token"),
    "too short": (f'ann = "{GOOD[1:]}"', "ann: a token has 16 to 1,000 characters and no spaces"),
    "too long": (f'ann = "{OTHER}o"', "ann: a token has 16 to 1,000 characters"),
    "with a space": (f'ann = "{GOOD} {GOOD}"', "no spaces: make one with: openssl rand -hex 32"),
    "twice the same": (f'ann = "{GOOD}"\nbob = "{GOOD}"', "ann and bob have the same token: give each its own"),
}


@pytest.mark.parametrize("case", WRONG_TOKENS)
def test_a_wrong_file_of_tokens(tmp_path: Path, case: str) -> None:
    text, reason = WRONG_TOKENS[case]
    with pytest.raises(ConfigurationError, match=reason) as caught:
        read_tokens(secret(tmp_path / "tokens.toml", text))
    assert GOOD[1:] not in str(caught.value)


def test_a_token_stands_alone_in_its_file(tmp_path: Path) -> None:
    assert read_token(secret(tmp_path / "token", f"  {GOOD}\n\n")) == GOOD
    with pytest.raises(ConfigurationError, match="no spaces") as caught:
        read_token(secret(tmp_path / "tokens", f"{GOOD}\n{GOOD}\n"))
    assert GOOD not in str(caught.value)
    binary = secret(tmp_path / "binary", "")
    binary.write_bytes(b"\xff" * 20)
    with pytest.raises(ConfigurationError, match="is no text in UTF-8"):
        read_token(binary)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
@pytest.mark.parametrize("name", ["tokens_file", "token_file", "tls_key"])
def test_a_secret_that_others_may_read_is_refused(tmp_path: Path, name: str, mode: int) -> None:
    file = secret(tmp_path / "secret", f'ann = "{GOOD}"\n')
    file.chmod(mode)
    settings: dict[str, Any] = {name: file}
    if name == "tls_key":
        settings["tls_certificate"] = file
    with pytest.raises(ConfigurationError, match=rf"others may read or write it: chmod 600 {file}"):
        Security.of(ServerConfig(name="b", **settings))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for read in (read_token, read_tokens):
        with pytest.raises(ConfigurationError, match="nowhere cannot be read: No such file or directory"):
            read(tmp_path / "nowhere")


def test_settings_that_contradict_each_other(tmp_path: Path) -> None:
    for settings, reason in (
        ({"listen": "sluices://127.0.0.1:1"}, "there is no TLS without a certificate"),
        ({"tls_key": tmp_path}, "tls_certificate and tls_key go together"),
        ({"tls_certificate": tmp_path}, "tls_certificate and tls_key go together"),
        ({"listen": "127.0.0.1:1", "links": ("sluices://127.0.0.1:1",)}, "where b itself listens"),
    ):
        with pytest.raises(ConfigurationError, match=reason):
            ServerConfig(name="b", **settings)


def test_a_check_reads_the_files_and_shows_no_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = secret(tmp_path / "tokens.toml", f'ann = "{GOOD}"\n')
    assert main(["broker", "--name", "b", "--tokens-file", str(file), "--check"]) == 0
    said = capsys.readouterr().out
    assert str(file) in said and GOOD not in said
    file.chmod(0o644)
    assert main(["broker", "--name", "b", "--tokens-file", str(file), "--check"]) == 2
    assert f"chmod 600 {file}" in capsys.readouterr().err
