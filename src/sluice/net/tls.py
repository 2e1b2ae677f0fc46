"""TLS on a link: what a broker listens with, what whoever dials it trusts, and what is wrong in words when that fails.

Host names are checked always. An address says by its scheme whether it is dialled with TLS; nothing falls back to less.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Callable
from pathlib import Path

from sluice.errors import ConfigurationError, LinkError, TrustError
from sluice.net.address import PLAIN_SCHEME, Address
from sluice.net.connection import Connection

#: What OpenSSL says of the bytes of somebody who does not speak TLS.
_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG")
#: What OpenSSL calls that a certificate is for another name, or for another number.
_OTHER_HOST = (62, 64)
#: And that it is not valid yet, or not any more.
_OTHER_TIME = (9, 10)


def identity(certificate: Path, key: Path) -> ssl.SSLContext:
    """What a broker listens with: its certificate, with those that lead to its authority, and its key."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except OSError as error:  # that of a file, or of what is in it
        raise ConfigurationError(
            f"{certificate} and {key} are no certificate with its key: {reason(error)}. Both are files in PEM form"
        ) from None
    return context


def trust(authority: Path | None) -> ssl.SSLContext:
    """What whoever dials trusts: certificates of this authority, or without one those that the system trusts."""
    try:
        return ssl.create_default_context(cafile=authority)
    except OSError as error:
        raise ConfigurationError(
            f"{authority} is no certificate of an authority: {reason(error)}. It is a file in PEM form"
        ) from None


async def dial(make: Callable[[], Connection], address: Address, trusted: ssl.SSLContext | None) -> None:
    """Opens a connection; raises `ConnectionError` if nobody is there, `TrustError` if it is not who it should be."""
    loop = asyncio.get_running_loop()
    try:
        await loop.create_connection(make, address.host, address.port, ssl=trusted if address.is_tls else None)
    except ssl.SSLError as error:
        raise TrustError(problem_of(error, address)) from None
    except OSError as error:
        if address.is_tls and isinstance(error, ConnectionResetError):
            raise LinkError(f"{address} ended the connection before TLS began") from None
        raise ConnectionError(reason(error)) from None


def problem_of(error: ssl.SSLError, address: Address) -> str:
    """What is wrong, and what to do about it."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        if error.reason in _NOT_TLS:
            return f"whoever is at {address} does not speak TLS: for a broker without it write {PLAIN_SCHEME}://"
        return f"no TLS with {address}: {reason(error)}"
    if error.verify_code in _OTHER_HOST:
        return f"the certificate at {address} is for another host: dial a name that is in it, or give the broker one for this"
    if error.verify_code in _OTHER_TIME:
        return f"the certificate at {address} is not valid at this time ({error.verify_message}): renew it, or set the clock"
    return (
        f"the certificate at {address} is not trusted ({error.verify_message}): say with tls_authority or "
        "SLUICE_TLS_AUTHORITY which authority has signed it"
    )


def _no_password() -> str:
    raise OSError("the key has a password, and nobody is there to type it")


def reason(error: OSError) -> str:
    """What the system, or OpenSSL, has to say. asyncio puts the names of its calls, and all it has tried, around that.

    >>> reason(OSError(111, "Connect call failed ('127.0.0.1', 7470)"))
    'connection refused'
    >>> reason(OSError("Multiple exceptions: [Errno 111] Connect call failed (), [Errno 111] Connect call failed ()"))
    'connection refused'
    """
    if isinstance(error, ssl.SSLError):
        return error.reason.replace("_", " ").lower() if error.reason else "OpenSSL cannot read them"
    numbers = dict.fromkeys(re.findall(r"\[Errno (\d+)\]", str(error)))
    said = ", ".join(os.strerror(int(number)) for number in numbers) or error.strerror or str(error)
    return said[:1].lower() + said[1:]
