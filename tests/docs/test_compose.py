"""docker-compose.yml, the image and the example environment say what the code says. No engine runs them here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from taskhub.config import env
from tests.docs.test_docs import ROOT, declared
from tests.support.clusters import Cluster, embedded

OURS = ("migrate", "web", "worker")
SECRETS = ("DATABASE_URL", "SECRET_KEY", "METRICS_TOKEN")
OF_COMPOSE = {"PYTHON_IMAGE", "POSTGRES_IMAGE", "POSTGRES_MEMORY", "WEB_MEMORY", "WORKER_MEMORY"}
"""Variables of `.env` that no container is told."""
TEXT = (ROOT / "docker-compose.yml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, Any] = COMPOSE["services"]


def example() -> list[str]:
    return (ROOT / ".env.example").read_text().splitlines()


def test_the_example_environment_names_known_variables_only() -> None:
    named = {found[1] for line in example() if (found := re.match(r"#?([A-Z][A-Z0-9_]*)=", line))}
    asked = set(re.findall(r"\$\{([A-Z0-9_]+)", TEXT))
    assert asked - set(env.VARIABLES) == OF_COMPOSE
    assert named - set(env.VARIABLES) == OF_COMPOSE
    assert asked - named == set()


def test_the_parts_run_with_settings_we_read() -> None:
    assert set(SERVICES) == {"postgres", *OURS}
    files = {f"{name}_FILE" for name in SECRETS}
    for name in OURS:
        given = set(SERVICES[name]["environment"])
        assert given - set(env.VARIABLES) == files
        # The image says where its data lie.
        assert set(env.VARIABLES) - given - set(SECRETS) == {"DEBUG", "TASKHUB_DATA_DIR"}
    assert [SERVICES[name]["command"][0] for name in OURS] == list(OURS)
    for name in ("web", "worker"):
        assert SERVICES[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}


def test_defaults_are_ours() -> None:
    for name, default in re.findall(r"\$\{([A-Z0-9_]+):-([^}]*)\}", TEXT):
        if name.startswith("TASKHUB_") or name in ("LOG_LEVEL", "TRUSTED_PROXIES"):
            assert default == declared()[name][0], name
        if name in OF_COMPOSE:
            assert f"#{name}={default}" in example()
    assert f"ARG PYTHON={re.search('PYTHON_IMAGE:-([^}]*)', TEXT)[1]}\n" in (ROOT / "Dockerfile").read_text()  # type: ignore[index]


def test_images_are_named_by_digest() -> None:
    digest = r":-[\w.:-]+@sha256:[0-9a-f]{64}\}"
    assert re.search(r"\{POSTGRES_IMAGE" + digest, SERVICES["postgres"]["image"])
    for name in OURS:
        assert re.search(r"\{PYTHON_IMAGE" + digest, SERVICES[name]["build"]["args"]["PYTHON"])


def test_secrets_are_files_of_their_own_and_nowhere_in_the_environment() -> None:
    assert COMPOSE["secrets"] == {
        name: {"file": f"./secrets/{name}"}
        for name in ("database_url", "secret_key", "postgres_password", "metrics_token")
    }
    for name, service in SERVICES.items():
        used = set(re.findall(r"/run/secrets/(\w+)", str(service["environment"])))
        # Its first start reads the password of our role, too.
        assert used | ({"database_url"} if name == "postgres" else set()) == set(service["secrets"])
    assert not re.search(r"\$\{(SECRET_KEY|METRICS_TOKEN|DATABASE_URL|\w*PASSWORD)", TEXT)


def test_postgres_is_on_an_inner_network_alone_and_workers_have_their_own_way_out() -> None:
    networks = {name: set(service["networks"]) for name, service in SERVICES.items()}
    assert networks == {
        "postgres": {"database"},
        "migrate": {"database"},
        "web": {"database", "web"},
        "worker": {"database", "servers"},
    }
    assert [name for name, network in COMPOSE["networks"].items() if (network or {}).get("internal")] == ["database"]


def test_every_service_is_bounded_and_what_stays_has_a_health_check() -> None:
    for name, service in SERVICES.items():
        assert service["mem_limit"], name
        assert service["logging"]["options"] == {"max-size": "20m", "max-file": "5"}, name
        assert service["restart"] in ("unless-stopped", "on-failure"), name
        assert ("healthcheck" in service) == (name != "migrate"), name
    # `tests/deployment/test_stuck.py` shows what this does, and that a stuck part ends.
    assert SERVICES["worker"]["healthcheck"]["test"] == ["CMD", "python", "manage.py", "worker", "--check"]


def test_what_compose_and_the_image_name_is_there() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            if volume.startswith("./"):
                assert (ROOT / volume.split(":")[0]).exists(), volume
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for line in (ROOT / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY") and "--from" not in line:
            for name in line.split()[1:-1]:
                assert (ROOT / name).exists(), name
                assert name in allowed, name


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """As the script makes them."""
    made = tmp_path / "secrets"
    subprocess.run(["sh", "tools/compose-secrets.sh", str(made)], cwd=ROOT, check=True)
    return made


def test_the_script_makes_each_secret_once(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {file.name for file in secrets.iterdir()} == set(COMPOSE["secrets"])
    before = {file.name: file.read_text() for file in secrets.iterdir()}
    assert len(set(before.values())) == len(before)
    assert secrets.stat().st_mode & 0o777 == 0o700
    # Users inside containers are neither the owner nor in a group of theirs.
    assert {file.stat().st_mode & 0o777 for file in secrets.iterdir()} == {0o444}
    for name in SECRETS:
        monkeypatch.setenv(f"{name}_FILE", str(secrets / name.lower()))
        assert env.secret(name, env.VARIABLES[name]) == before[name.lower()].strip()
    env.key(before["secret_key"].strip(), "secret_key")
    found = env.database(before["database_url"].strip())
    assert (found["USER"], found["HOST"], found["NAME"]) == ("taskhub", "postgres", "taskhub")
    (secrets / "secret_key").unlink()
    subprocess.run(["sh", "tools/compose-secrets.sh", str(secrets)], cwd=ROOT, check=True)
    after = {file.name: file.read_text() for file in secrets.iterdir()}
    assert {name for name in before if before[name] != after[name]} == {"secret_key"}


@pytest.mark.processes
def test_the_role_of_the_first_start_signs_in_with_the_password_of_the_url_and_is_no_superuser(secrets: Path) -> None:
    cluster = Cluster(embedded())
    try:
        with cluster.connect(user="postgres", dbname="postgres") as raw:
            raw.execute("DROP DATABASE taskhub")
            raw.execute("DROP ROLE taskhub")
            environment = {
                "PATH": f"{cluster.programs}:{os.environ['PATH']}",
                "PGHOST": str(cluster.directory),
                "POSTGRES_USER": "postgres",
                "DATABASE_URL_FILE": str(secrets / "database_url"),
            }
            subprocess.run(
                ["sh", "tools/compose-role.sh"], cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE
            )
            hba = cluster.directory / "pg" / "pg_hba.conf"
            hba.write_text(f"local all taskhub scram-sha-256\n{hba.read_text()}")
            raw.execute("SELECT pg_reload_conf()")
        password = str(env.database((secrets / "database_url").read_text().strip())["PASSWORD"])
        with cluster.connect(password=password) as connection:
            assert connection.execute("SELECT current_setting('is_superuser')").fetchone() == ("off",)
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            cluster.connect(password="another").close()
    finally:
        cluster.stop()


def test_shell_is_plain_enough_for_any_sh() -> None:
    for name in ("compose-secrets.sh", "compose-role.sh"):
        subprocess.run([shutil.which("dash") or "sh", "-n", f"tools/{name}"], cwd=ROOT, check=True)
