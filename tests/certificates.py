"""A certificate authority of the test's own, and what it signs."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
LOCALHOST = (x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1")))


@dataclass
class Pair:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


@dataclass
class Authority:
    """Signs certificates; its own is in ``certificate``."""

    folder: Path
    name: str = "authority"

    @cached_property
    def certificate(self) -> Path:
        path = self.folder / f"{self.name}.pem"
        path.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))
        return path

    def issue(
        self, name: str, *alternatives: x509.GeneralName, purpose: x509.ObjectIdentifier = SERVER, days: int = 30
    ) -> Pair:
        """Sign a certificate; with negative ``days`` it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        until = _now() + datetime.timedelta(days=days)
        names = alternatives or (LOCALHOST if purpose == SERVER else ())
        builder = (
            _builder(_subject(name), self._certificate.subject, key.public_key())
            .not_valid_before(until - datetime.timedelta(days=90))
            .not_valid_after(until)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        pair = Pair(self.folder / f"{self.name}-{name}.pem", self.folder / f"{self.name}-{name}.key")
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        pair.key.touch(0o600)
        pair.key.write_bytes(_key_bytes(key))
        return pair

    @cached_property
    def _key(self) -> ec.EllipticCurvePrivateKey:
        return ec.generate_private_key(ec.SECP256R1())

    @cached_property
    def _certificate(self) -> x509.Certificate:
        subject = _subject(self.name)
        return (
            _builder(subject, subject, self._key.public_key())
            .not_valid_before(_now() - datetime.timedelta(days=1))
            .not_valid_after(_now() + datetime.timedelta(days=90))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    return builder.serial_number(x509.random_serial_number())


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
