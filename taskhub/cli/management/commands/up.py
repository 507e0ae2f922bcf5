"""`manage.py up`: run all of TaskHub by one command."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import socket
import time
import urllib.request
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError, connection, connections, transaction

from taskhub.cli.alone import alone_in, refuse_second
from taskhub.cli.database import refuse_newer
from taskhub.cli.embedded import Embedded
from taskhub.cli.firstrun import FIRST_START, add_demo, credentials_file, make_people
from taskhub.cli.logfile import LogFile
from taskhub.cli.mcpjson import read_file, values_for
from taskhub.cli.reload import follow_changes
from taskhub.cli.seed import seed
from taskhub.cli.static import collect_if_changed
from taskhub.cli.steps import Steps, runner
from taskhub.cli.supervisor import Stopped, Supervisor
from taskhub.cli.vitals import Answers, Beats
from taskhub.control.caller import of_shell
from taskhub.control.servers import import_servers, set_server
from taskhub.core.errors import Invalid, TaskHubError
from taskhub.domain.catalogue.server_files import FileServer, servers_of
from taskhub.domain.catalogue.spec import ServerSpec, parse_spec
from taskhub.lib.privacy import keep_private
from taskhub.protocol.registry import check_named
from taskhub.store.backend.base import unhurried

READY_SECONDS = 30.0
MOST_WORKERS = 64


class Command(BaseCommand):
    """Starts the database, migrates it, adds the data of a first start, and runs web and workers. Stops all cleanly."""

    help = "Run TaskHub: an embedded Postgres unless DATABASE_URL is set, the web server and a worker."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The arguments of the command."""
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
        parser.add_argument("--port", type=int, default=8000, help="port to listen on (default 8000)")
        parser.add_argument("--data-dir", help="where database, keys and credentials live (default .taskhub)")
        parser.add_argument("--no-demo", action="store_true", help="no demo server and no demo tasks")
        parser.add_argument("--anonymous", action="store_true", help="serve /mcp without a token, for everybody")
        parser.add_argument(
            "--server",
            action="append",
            default=[],
            metavar="[NAME=]SPEC",
            help="an MCP server to connect; repeatable",
        )
        parser.add_argument(
            "--mcp-json", metavar="FILE", help="connect the servers of an mcp.json (`manage.py server import`)"
        )
        parser.add_argument("--values", metavar="FILE", help="lines NAME=VALUE for what that file asks for")
        parser.add_argument("--workers", type=int, default=1, help="worker processes (default 1)")
        parser.add_argument("--reload", action="store_true", help="restart parts when their sources change")
        parser.add_argument(
            "--verbose", action="store_true", help="log to the terminal, not to taskhub.log in the data directory"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Start everything, watch it, and stop it at a signal."""
        keep_private()
        host, port = options["host"], options["port"]
        if not 1 <= port <= 65_535:
            raise CommandError(f"--port is a number from 1 to 65535, not {port}.")
        if not 1 <= options["workers"] <= MOST_WORKERS:
            raise CommandError(f"--workers is a number from 1 to {MOST_WORKERS}, not {options['workers']}.")
        try:
            check_named(settings.TASKHUB_REVISIONS)
        except Invalid as error:
            raise CommandError(error.message) from None
        specs = self._specs(options["server"])
        self.file = self._file(options["mcp_json"], options["values"])
        if twice := {spec.name for spec in specs} & {server.name for server in self.file}:
            raise CommandError(f"--server and --mcp-json both name a server {min(twice)}. Rename one of them.")
        refuse_second(settings.DATA_DIR)
        self._need_port(host, port)
        data_dir = self._data_dir()
        url = settings.PUBLIC_URL or f"http://{_reachable(host)}:{port}"
        self.steps = Steps(self._show)
        supervisor = Supervisor(self._say)
        supervisor.heed_signals()
        with alone_in(data_dir, url), contextlib.ExitStack() as ends:
            if not options["verbose"]:
                supervisor.log = LogFile(data_dir)
                ends.callback(supervisor.log.close)
                ends.enter_context(supervisor.log.instead_of_stderr())
            try:
                self._run(supervisor, specs, data_dir, url, options)
            except Stopped:
                pass
            except Exception:
                if not supervisor.stopping:  # Ctrl-C also ends programs of a step, so its error is expected
                    raise
            finally:
                supervisor.stop()
        self.stderr.write("taskhub: stopped")

    def _run(
        self, supervisor: Supervisor, specs: list[ServerSpec], data_dir: Path, url: str, options: dict[str, Any]
    ) -> None:
        host, port = options["host"], options["port"]
        self._secret_key(data_dir)
        self._database(data_dir, supervisor)
        supervisor.go_on()
        with self.steps.step("Bringing its tables up to date"):
            self._migrate()
        supervisor.go_on()
        fresh = not credentials_file(data_dir).exists()
        credentials = make_people(data_dir, url)
        if not options["no_demo"]:
            with self.steps.step("Adding the demo server"):
                add_demo()
        self._connect(specs)
        self._import()
        collect_if_changed()
        connections.close_all()
        if options["anonymous"]:
            os.environ["TASKHUB_ANONYMOUS"] = "True"
        answers = Answers(_reachable(host), port, _own_host())
        supervisor.add("web", answers, "web", "--host", host, "--port", str(port))
        for number in range(options["workers"]):
            supervisor.add(f"worker {number + 1}", Beats(), "worker")
        if options["reload"]:
            follow_changes(supervisor.changed)
        supervisor.go_on()
        supervisor.start()
        if self._wait_until_ready(supervisor, host, port, options["workers"]):
            if fresh and not options["no_demo"]:
                with self.steps.step("Calling some of the demo's tools"):
                    self._seed()
            self._announce(url, credentials if fresh else {}, data_dir, options, supervisor.log)
        supervisor.watch()

    def _show(self, text: str) -> None:
        self.stdout.write(text, ending="")
        self.stdout.flush()

    def _say(self, text: str) -> None:
        self.steps.interrupt()
        self.stderr.write(f"taskhub: {text}")

    def _specs(self, texts: list[str]) -> list[ServerSpec]:
        try:
            specs = [parse_spec(text) for text in texts]
        except TaskHubError as error:
            raise CommandError(f"--server: {error.message}") from None
        targets: dict[str, tuple[str, str]] = {}
        for spec in specs:
            if targets.setdefault(spec.name, (spec.transport, spec.target)) != (spec.transport, spec.target):
                raise CommandError(f"--server: two servers are named {spec.name}. Write NAME=SPEC with another name.")
        return specs

    def _connect(self, specs: list[ServerSpec]) -> None:
        """Add all of the servers, or none if one is refused."""
        try:
            with transaction.atomic():
                for spec in specs:
                    set_server(of_shell(FIRST_START), spec)
        except TaskHubError as error:
            raise CommandError(f"--server: {error.message}") from None

    def _file(self, path: str | None, values: str | None) -> tuple[FileServer, ...]:
        if path is None:
            return ()
        file = read_file(path)
        try:
            return servers_of(file, values_for(file, values))
        except TaskHubError as error:
            raise CommandError(f"--mcp-json: {error.message}") from None

    def _import(self) -> None:
        try:
            import_servers(of_shell(FIRST_START), self.file, again=True)
        except TaskHubError as error:
            raise CommandError(f"--mcp-json: {error.message}") from None

    def _need_port(self, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                why = f"Cannot listen on {host}:{port}: {error.strerror}. Choose another --port."
                raise CommandError(why) from None

    def _data_dir(self) -> Path:
        data_dir: Path = settings.DATA_DIR
        try:
            # 0711: Postgres may run as another user and must be able to enter; files with secrets have 0600.
            data_dir.mkdir(mode=0o711, parents=True, exist_ok=True)
            probe = data_dir / ".writable"
            probe.write_text("")
            probe.unlink()
        except OSError as error:
            raise CommandError(f"Cannot write to the data directory {data_dir}: {error.strerror}") from None
        return data_dir

    def _secret_key(self, data_dir: Path) -> None:
        path = data_dir / "secret_key"
        if not os.environ.get("SECRET_KEY") and not os.environ.get("SECRET_KEY_FILE") and not path.exists():
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secrets.token_urlsafe(48))
            settings.SECRET_KEY = path.read_text()

    def _database(self, data_dir: Path, supervisor: Supervisor) -> None:
        if not settings.EMBEDDED_DATABASE:
            try:
                connection.ensure_connection()
            except OperationalError as error:
                reason = str(error).strip().splitlines()[0]
                raise CommandError(f"The database of DATABASE_URL is away: {reason}") from None
            self._show("  Database of DATABASE_URL … found\n")
            return
        embedded = supervisor.database = Embedded(data_dir)
        verb = "Starting" if (embedded.database / "PG_VERSION").exists() else "Making"
        with self.steps.step(f"{verb} the database, in {embedded.database}"):
            try:
                url = embedded.start(supervisor.waits)
            except Exception as error:
                log = data_dir / "pg" / "log"
                raise CommandError(f"The embedded Postgres did not start: {error}. Its log: {log}") from error
        (data_dir / "database_url").write_text(url)
        (data_dir / "database_url").chmod(0o600)
        connection.settings_dict["HOST"] = str(embedded.directory())

    def _migrate(self) -> None:
        refuse_newer()
        # Migrations may take longer than the timeout of requests.
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = 0")
        with unhurried(connection):
            call_command("migrate", verbosity=0, interactive=False)

    def _seed(self) -> None:
        try:
            seed()
        except TaskHubError as error:
            self._say(f"no demo tasks: {error.message}")
        finally:
            connections.close_all()

    def _wait_until_ready(self, supervisor: Supervisor, host: str, port: int, workers: int) -> bool:
        """Wait until web and workers are ready. After `READY_SECONDS`, print that they are not, and go on, because they
        may become ready later. Returns `False` if everything is to be stopped."""
        deadline = time.monotonic() + READY_SECONDS
        base = f"http://{_reachable(host)}:{port}"
        steps = {
            "Starting the server": f"{base}/readyz",
            "Starting a worker" if workers == 1 else f"Starting {workers} workers": f"{base}/readyz?full",
        }
        for text, address in steps.items():
            with self.steps.step(text):
                while not _answers(address):
                    supervisor.check()
                    supervisor.go_on()
                    if time.monotonic() > deadline:
                        self._say(f"not ready after {READY_SECONDS:.0f} s; {base}/readyz?full says what is missing")
                        supervisor.tell_log(0)
                        return True
                    time.sleep(0.1)
        return not supervisor.stopping

    def _announce(
        self, url: str, credentials: dict[str, Any], data_dir: Path, options: dict[str, Any], log: LogFile | None
    ) -> None:
        lines = ["", f"  TaskHub is ready:  {url}", ""]
        if credentials.get(
            "users"
        ):  # printed at the first start only: later, others may see the output, and passwords may have changed
            lines.append("  Sign in as")
            for role, user in credentials.get("users", {}).items():
                lines.append(f"    {role:<9} {user['username']} / {user['password']}")
            lines.append("")
        lines += [f"  Sign-ins and tokens: {credentials_file(data_dir)}", f"  MCP endpoint:        {url}/mcp"]
        if log is not None:
            lines.append(f"  Log:                 {log.path}")
        if options["anonymous"]:
            lines += [
                "",
                "  ANONYMOUS: whoever reaches this port can call every tool and read every result",
                "  of every other anonymous caller. For trials on one machine only.",
            ]
        if not options["no_demo"]:
            lines += ["", "  Try:", f"    {runner()} {first_call(url, data_dir)}"]
        self.stdout.write("\n".join([*lines, "", "  Ctrl-C stops everything.", ""]))
        self.stdout.flush()


def first_call(url: str, data_dir: Path) -> str:
    """The arguments of `manage.py` for a first call to the hub at `url`, as typed in another terminal: the token is
    found in the data directory, which that terminal knows only if it is the default one."""
    words = ["call", "deploy", "service=web", "version=1.4.2", "environment=production"]
    if url != "http://127.0.0.1:8000":
        words += ["--url", f"{url}/mcp"]
    if data_dir != Path(".taskhub").resolve():
        words += ["--data-dir", str(data_dir)]
    return shlex.join(words)


def _answers(address: str) -> bool:
    request = urllib.request.Request(address, headers={"Host": _own_host()})  # noqa: S310 - our own address
    try:
        with urllib.request.urlopen(request, timeout=2) as response:  # noqa: S310 - our own address
            return bool(response.status == 200)
    except OSError:
        return False


def _reachable(host: str) -> str:
    """The host to use in URLs, on this machine, for a server that listens on `host`."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        return "127.0.0.1" if host == "0.0.0.0" else "[::1]"  # noqa: S104
    return f"[{host}]" if ":" in host else host


def _own_host() -> str:
    """A value of the `Host` header that this server accepts."""
    return next((name for name in settings.ALLOWED_HOSTS if "*" not in name and name[0] != "."), "localhost")
