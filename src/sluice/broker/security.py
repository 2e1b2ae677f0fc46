"""Who may connect to a broker, and how it shows who it is itself: certificates and tokens, read from the files of its settings.

A token is a secret that whoever connects says in its hello; the file of tokens says for each who holds it. Files with secrets
that others may read are refused, and no secret is ever logged, reported or shown in an error.
"""

from __future__ import annotations

import hmac
import logging
import ssl
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.broker.logs import log
from sluice.errors import ConfigurationError
from sluice.limits import MAX_TOKEN, MIN_TOKEN
from sluice.net.address import Address
from sluice.net.tls import identity, trust

if TYPE_CHECKING:
    from sluice.broker.config import ServerConfig

#: What makes a token that nobody guesses.
_ADVICE = "make one with: openssl rand -hex 32"


@dataclass(frozen=True, slots=True)
class Security:
    """What a broker needs to listen, to dial and to let others in."""

    #: What it listens with; None: without TLS.
    identity: ssl.SSLContext | None = None
    #: Whom it trusts when it dials with TLS.
    trusted: ssl.SSLContext | None = None
    #: What it shows to the brokers that it dials.
    token: str | None = field(default=None, repr=False)
    #: Who holds which token; None: everybody may come in.
    tokens: Mapping[str, str] | None = field(default=None, repr=False)
    #: Who of them may reshape the network.
    operators: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: ServerConfig) -> Security:
        """Reads the files that a configuration names."""
        own = None
        if config.tls_certificate is not None and config.tls_key is not None:
            _check_private(config.tls_key)
            own = identity(config.tls_certificate, config.tls_key)
        # A broker that is dialled with TLS has neighbours that are, too, and may come to dial them.
        needs_trust = own is not None or any(link.is_tls for link in config.dialled)
        tokens = None if config.tokens_file is None else read_tokens(config.tokens_file)
        for name in config.operators:
            if name not in (tokens or {}):
                raise ConfigurationError(f"operators has {name}, who holds no token in {config.tokens_file}")
        return cls(
            identity=own,
            trusted=None if not needs_trust else trust(config.tls_authority),
            token=None if config.token_file is None else read_token(config.token_file),
            tokens=tokens,
            operators=config.operators,
        )

    def refusal(self, token: str | None) -> str | None:
        """Why whoever shows this token, or none, must not come in; None: it may."""
        if self.tokens is None or (token is not None and self.holder(token) is not None):
            return None
        if token is None:
            return "this broker asks for a token: set SLUICE_TOKEN, or token_file of a broker"
        return "this broker does not know that token: ask whoever runs it for one"

    def forbids(self, holder: str | None) -> str | None:
        """Why the holder of a token must not reshape the network; None: it may."""
        if self.tokens is None or holder in self.operators:
            return None
        return (
            f"{holder} must not reshape this network: put the name into operators of the broker that it is connected to"
        )

    @staticmethod
    def warn_of_plain(address: Address, secret: object) -> None:
        """Tells where something secret travels that others can read on its way."""
        if secret is not None and not address.is_tls and not address.is_loopback:
            log("tokens-without-tls", level=logging.WARNING, address=str(address))

    def holder(self, token: str | None) -> str | None:
        """Who holds a token, as the file of tokens says; the time it takes tells nothing about the tokens in it."""
        shown = (token or "").encode(errors="surrogatepass")
        found = [name for name, known in (self.tokens or {}).items() if hmac.compare_digest(known.encode(), shown)]
        return found[0] if found else None


def read_token(file: Path) -> str:
    """The token that is all there is in a file."""
    token = _read_private(file).strip()
    _check_token(token, str(file))
    return token


def read_tokens(file: Path) -> dict[str, str]:
    """Tokens by who holds them, from a file with a line `name = "token"` for each."""
    text = _read_private(file)
    try:
        tokens = tomllib.loads(text)
    except tomllib.TOMLDecodeError:  # whose message may show what stands there
        raise ConfigurationError(f'{file} is no TOML: write a line name = "token" for each holder') from None
    holders: dict[str, str] = {}
    for name, token in tokens.items():
        if not isinstance(token, str):
            raise ConfigurationError(f'{file}: {name} is no token: write {name} = "token"')
        _check_token(token, f"{file}, {name}")
        if token in holders:
            raise ConfigurationError(f"{file}: {holders[token]} and {name} have the same token: give each its own")
        holders[token] = name
    if not tokens:
        raise ConfigurationError(f'{file} has no token, and nobody could connect: write name = "token", {_ADVICE}')
    return tokens


def _check_token(token: str, where: str) -> None:
    if not MIN_TOKEN <= len(token) <= MAX_TOKEN or not token.isprintable() or " " in token:
        raise ConfigurationError(
            f"{where}: a token has {MIN_TOKEN} to {MAX_TOKEN:,} characters and no spaces: {_ADVICE}"
        )


def _read_private(file: Path) -> str:
    _check_private(file)
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file} is no text in UTF-8") from None
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None


def _check_private(file: Path) -> None:
    """That nobody but its owner can read a file."""
    try:
        mode = file.stat().st_mode
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None
    if mode & 0o077:
        raise ConfigurationError(f"{file} holds a secret, and others may read or write it: chmod 600 {file}")
