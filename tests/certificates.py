"""Certificates for tests, made with the command `openssl`: an authority, and what it signs."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its key, both in PEM files."""

    certificate: Path
    key: Path

    @property
    def settings(self) -> dict[str, Path]:
        """Those of a broker that listens with it."""
        return {"tls_certificate": self.certificate, "tls_key": self.key}


class Authority:
    """Signs certificates, and keeps them in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.certificate, self._key = folder / "authority.pem", folder / "authority.key"
        _openssl("req", "-x509", *_NEW_KEY, "-keyout", self._key, "-out", self.certificate, "-subj", "/CN=authority")

    def issue(self, name: str, *hosts: str) -> Certificate:
        """A certificate for some hosts, such as `DNS:localhost` or `IP:127.0.0.1`."""
        request, extensions = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        extensions.write_text(f"subjectAltName={','.join(hosts)}\n")
        _openssl("req", "-new", *_NEW_KEY, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        key.chmod(0o600)
        signed_by = ("-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial")
        _openssl("x509", "-req", "-in", request, "-out", certificate, *signed_by, "-extfile", extensions)
        return Certificate(certificate, key)


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def secret(file: Path, text: str) -> Path:
    """A file that only its owner can read."""
    file.touch(mode=0o600)
    file.write_text(text)
    return file
