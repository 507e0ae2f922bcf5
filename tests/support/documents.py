"""Client metadata documents over real https on this machine, with an authority of our own."""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Documents:
    """`https://127.0.0.1:port`; `pages` is what it serves by path, `asked` the paths it was asked for.
    `authority` is the file to trust, for `SSL_CERT_FILE`."""

    def __init__(self, directory: Path) -> None:
        self.pages: dict[str, Any] = {}
        self.asked: list[str] = []
        self.authority = directory / "authority.pem"
        documents = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                documents.asked.append(self.path)
                found = documents.pages.get(self.path)
                status, kind, body, more = found if isinstance(found, tuple) else (200, "application/json", found, {})
                raw = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(404 if found is None else status)
                for name, value in {"Content-Type": kind, "Content-Length": str(len(raw)), **more}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that hangs up is no news."""

        self._server = Server(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate(directory, self.authority))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.base = f"https://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def publish(self, path: str = "/client.json", **changes: Any) -> str:
        """A good document but for `changes` (`None` leaves a member out); its address, which is the client id."""
        url = f"{self.base}{path}"
        document = {
            "client_id": url,
            "client_name": "Notebook",
            "redirect_uris": ["https://app.example.com/callback"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            **changes,
        }
        self.pages[path] = {name: value for name, value in document.items() if value is not None}
        return url

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def served(directory: Path) -> Iterator[Documents]:
    """Documents for a while."""
    documents = Documents(directory)
    try:
        yield documents
    finally:
        documents.close()


def certificate(directory: Path, authority: Path) -> Path:
    """A certificate for 127.0.0.1 and localhost with its key in one file; `authority` signs it."""
    now = datetime.datetime.now(datetime.UTC)
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])

    def builder(subject: x509.Name, public_key: Any) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(root)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )

    identifier = x509.SubjectKeyIdentifier.from_public_key(root_key.public_key())
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    signed_root = (
        builder(root, root_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
        .sign(root_key, hashes.SHA256())
    )
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")])
    leaf = (
        builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "documents")]), key.public_key())
        .add_extension(names, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(root_key, hashes.SHA256())
    )
    authority.write_bytes(signed_root.public_bytes(serialization.Encoding.PEM))
    both = directory / "documents.pem"
    both.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + leaf.public_bytes(serialization.Encoding.PEM)
    )
    return both
