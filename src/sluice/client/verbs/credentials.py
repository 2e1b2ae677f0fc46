"""What every verb that talks to brokers takes: a token to show, and whose certificates to trust.

Importing this is cheap. A token is never a flag, since everybody on a machine can see the flags of its processes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TypedDict


class Credentials(TypedDict):
    """What `sluice.connect` takes of them; None: as the environment says."""

    token: str | None
    tls_authority: Path | None


def add_credentials(parser: argparse.ArgumentParser) -> None:
    """Says what a verb takes."""
    group = parser.add_argument_group("security")
    group.add_argument(
        "--token-file", metavar="FILE", type=Path, help="has the token to show to the broker (default: $SLUICE_TOKEN)"
    )
    group.add_argument(
        "--tls-authority",
        metavar="FILE",
        type=Path,
        help="has signed the broker's certificate, in PEM form (default: $SLUICE_TLS_AUTHORITY, or whom the system trusts)",
    )


def credentials_of(arguments: argparse.Namespace) -> Credentials:
    """What was said, for `sluice.connect(address, **credentials_of(arguments))`."""
    token = None
    if arguments.token_file is not None:
        from sluice.broker.security import read_token

        token = read_token(arguments.token_file)
    return Credentials(token=token, tls_authority=arguments.tls_authority)
