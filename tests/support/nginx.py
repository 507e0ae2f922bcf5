"""nginx with the server block of the docs."""

from __future__ import annotations

import getpass
import re
import socket
import ssl
import subprocess
from pathlib import Path

from tests.support.documents import certificate
from tests.support.hub import ROOT, STOP_SECONDS, wait_until
from tests.support.needed import program

PAGE = ROOT / "docs" / "run" / "production.md"


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Nginx:
    """The block as it stands in the page, but for addresses and paths, inside what every nginx.conf has. `base` is the
    address to ask, `plain` the one without TLS; both are known before `start`."""

    def __init__(self, directory: Path) -> None:
        self.program = program("nginx", "nginx")
        self.directory = directory
        self.port, self._plain = free_port(), free_port()
        self.base, self.plain = f"https://localhost:{self.port}", f"http://localhost:{self._plain}"
        self.log = directory / "error.log"
        self._authority = directory / "authority.pem"
        self._both = certificate(directory, self._authority)

    @property
    def tls(self) -> ssl.SSLContext:
        """What clients check its certificate by."""
        return ssl.create_default_context(cafile=str(self._authority))

    def start(self, *ports: int) -> None:
        """In front of web processes on these two ports."""
        (block,) = re.findall(r"```nginx\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
        for old, new in {
            "127.0.0.1:8001": f"127.0.0.1:{ports[0]}",
            "127.0.0.1:8002": f"127.0.0.1:{ports[1]}",
            "listen 80;": f"listen 127.0.0.1:{self._plain};",
            "listen 443 ssl;": f"listen 127.0.0.1:{self.port} ssl;",
            "https://hub.example.com$": f"{self.base}$",
            "server_name hub.example.com;": "server_name localhost;",
            "/etc/ssl/certs/hub.example.com.pem": str(self._both),
            "/etc/ssl/private/hub.example.com.key": str(self._both),
        }.items():
            assert old in block, f"{PAGE.name} does not have {old!r} any more"
            block = block.replace(old, new)
        assert "example.com" not in block
        paths = "".join(f"{of}_temp_path {self.directory}/{of};\n" for of in ("client_body", "proxy", "fastcgi"))
        paths += "".join(f"{of}_temp_path {self.directory}/{of};\n" for of in ("uwsgi", "scgi"))
        config = self.directory / "nginx.conf"
        config.write_text(
            f"daemon off;\npid {self.directory}/pid;\nerror_log {self.log};\nevents {{}}\n"
            f"http {{\naccess_log off;\n{paths}{block}}}\n"
        )
        # By root it would work as somebody who may not read here.
        self.process = subprocess.Popen(
            [self.program, "-e", str(self.log), "-c", str(config), "-g", f"user {getpass.getuser()};"]
        )
        wait_until(self._listens, "nginx")

    def _listens(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            socket.create_connection(("127.0.0.1", self.port), 5).close()
        except OSError:
            return False
        return True

    def end(self) -> None:
        """At once."""
        self.process.terminate()
        self.process.wait(STOP_SECONDS)
