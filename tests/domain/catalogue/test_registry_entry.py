"""Entries of the official registry: pinned commands and addresses, and what they ask for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from taskhub.core.errors import Invalid
from taskhub.domain.catalogue.importing import read_servers
from taskhub.domain.catalogue.registry_entry import MAX_ITEMS
from taskhub.domain.catalogue.server_files import FileServer, Placeholder, ServersFile, servers_of

FILES = Path(__file__).parents[2] / "support" / "server_files"
STDIO = {"type": "stdio"}
DIGEST = "0" * 64


def entry(name: str) -> str:
    return (FILES / f"{name}.server.json").read_text()


def package(**fields: Any) -> str:
    given = {"registryType": "npm", "identifier": "a", "version": "1.0.0", "transport": STDIO, **fields}
    kept = {name: value for name, value in given.items() if value is not None}
    return json.dumps({"name": "io.github.acme/a", "packages": [kept]})


def remote(**fields: Any) -> str:
    given = {"type": "streamable-http", "url": "https://a.example/mcp", **fields}
    return json.dumps({"name": "io.github.acme/a", "remotes": [given]})


def read(text: str, **values: str) -> FileServer:
    (server,) = servers_of(read_servers(text), values)
    return server


def asked(file: ServersFile) -> dict[str, tuple[bool, bool, str]]:
    return {each.key: (each.needed, each.hidden, each.default) for each in file.placeholders}


def test_a_package_of_npm_is_run_by_npx_in_its_version() -> None:
    file = read_servers(entry("weather"))
    assert (file.way, file.other_ways) == ("npm", ("pypi",))
    assert asked(file) == {
        "WEATHER_API_KEY": (True, True, ""),
        "WEATHER_LOG": (False, False, "info"),
        "WEATHER_CACHE": (False, False, ""),
        "units": (False, False, "metric"),
        "proxy": (False, False, ""),
        "place": (True, False, ""),
    }
    (server,) = servers_of(
        file, {"WEATHER_API_KEY": "k3y", "units": "us", "place": "Bern 'Le Locle'", "WEATHER_LOG": "debug"}
    )
    assert server == FileServer(
        "weather",
        "stdio:npx -y @acme/weather-mcp@2.4.1 serve --units=us Bern 'Le Locle'",
        environment={"WEATHER_API_KEY": "k3y", "WEATHER_LOG": "debug"},
    )
    (shown,) = servers_of(file, None)
    assert shown.spec.endswith("serve '--units=${units}' '--proxy=${proxy}' '${place}'")
    assert "WEATHER_CACHE" in shown.environment


def test_another_way_is_chosen() -> None:
    file = read_servers(entry("weather"), way="pypi", name="sky")
    assert file.other_ways == ("npm",)
    (server,) = servers_of(file, {"WEATHER_API_KEY": "k3y"})
    assert (server.name, server.spec) == ("sky", "stdio:uvx weather-mcp-server==2.4.1")
    with pytest.raises(Invalid, match=r"^weather: It has no 'oci'; it has npm, pypi, mcpb\.$"):
        read_servers(entry("weather"), way="oci")


def test_an_image_is_run_by_docker_and_no_value_is_an_argument() -> None:
    file = read_servers(entry("database"))
    assert file.placeholders == (
        Placeholder("DB_USER", hidden=False),
        Placeholder("DB_PASSWORD", secret=True),
        Placeholder("DB_CA", "A certificate", hidden=False, needed=False),
        Placeholder("source", "Directory of the data", hidden=False),
    )
    (server,) = servers_of(file, {"DB_USER": "ada", "DB_PASSWORD": "pa55w", "source": "/srv/data"})
    assert server.spec == (
        "stdio:docker run -i --rm -e DB_USER -e DB_PASSWORD --mount=type=bind,src=/srv/data,dst=/data --network=host"
        " ghcr.io/example/database-mcp:3.1.0 --read-only"
    )
    assert server.environment == {"DB_USER": "ada", "DB_PASSWORD": "pa55w"}
    with pytest.raises(Invalid, match="There is no value for DB_PASSWORD"):
        servers_of(file, {"DB_USER": "ada", "source": "/srv/data"})


def test_a_remote_is_an_address_with_its_headers() -> None:
    file = read_servers(entry("search"))
    assert (file.way, file.other_ways) == ("http", ("sse",))
    assert asked(file) == {
        "tenant": (True, False, ""),
        "token": (True, True, ""),
        "X-Region": (False, False, "eu"),
        "X-Api-Key": (False, True, ""),
    }
    (server,) = servers_of(file, {"tenant": "acme", "token": "t0ken", "X-Region": "us"})
    assert server == FileServer("example", "https://acme.search.invalid/mcp", token="t0ken", headers={"X-Region": "us"})
    with pytest.raises(Invalid, match=r"^X-Region is one of eu, us\.$"):
        servers_of(file, {"tenant": "acme", "token": "t0ken", "X-Region": "mars"})
    (server,) = servers_of(read_servers(entry("search"), way="sse"), {"tenant": "acme"})
    assert server.spec.startswith("sse+https://")


def test_a_secret_is_asked_for_even_where_the_entry_has_it() -> None:
    given = {"name": "KEY", "value": "sw0rdfish", "isSecret": True}
    file = read_servers(package(environmentVariables=[given, {"name": "MODE", "value": "fast"}]))
    assert asked(file) == {"KEY": (False, True, "")}
    assert servers_of(file, {})[0].environment == {"MODE": "fast"}


@pytest.mark.parametrize(
    ("fields", "spec"),
    [
        ({"version": "1.0.0-rc.1"}, "npx -y a@1.0.0-rc.1"),
        ({"runtimeArguments": [{"type": "named", "name": "--yes"}]}, "npx --yes a@1.0.0"),
        (
            {"runtimeArguments": [{"type": "named", "name": "-p", "value": "b@1"}], "runtimeHint": "npx"},
            "npx -y -p b@1 a@1.0.0",
        ),
        ({"packageArguments": [{"type": "named", "name": "-x", "description": "?"}]}, "npx -y a@1.0.0"),
        ({"packageArguments": [{"type": "positional", "value": "{a}"}]}, "npx -y a@1.0.0 '{a}'"),
        ({"runtimeHint": "node"}, "npx -y a@1.0.0"),
        ({"registryType": "pypi", "version": "2025.1.17"}, "uvx a==2025.1.17"),
        (
            {
                "registryType": "oci",
                "identifier": "a/b",
                "runtimeArguments": [{"type": "positional", "value": "run"}, {"type": "named", "name": "-i"}],
            },
            "docker run -i --rm a/b:1.0.0",
        ),
        (
            {"registryType": "oci", "identifier": f"h:5000/a@sha256:{DIGEST}", "runtimeHint": "podman", "version": ""},
            f"podman run -i --rm h:5000/a@sha256:{DIGEST}",
        ),
    ],
)
def test_what_is_run(fields: dict[str, Any], spec: str) -> None:
    assert read(package(**fields)).spec == f"stdio:{spec}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (package(version="latest"), "npm: the package a has no version: expected one"),
        (package(version="^1.0.0"), "the package a has no version"),
        (package(version=None), "the package a has no version"),
        (package(registryType="pypi", version=">=1"), "the package a has no version"),
        (package(registryType="oci", identifier="a/b:latest"), "the image a/b:latest has no version"),
        (package(registryType="oci", identifier="a/b", version=None), "the image a/b has no version"),
        (package(registryType="oci", identifier="--privileged"), "'--privileged:1.0.0' is no name of an image"),
        (package(identifier="--eval"), "'--eval' is no name of a package"),
        (package(identifier="git+https://github.com/a/b"), "is no name of a package"),
        (package(registryType="nuget"), "nuget: it is not one that can be run here"),
        (package(transport={"type": "sse", "url": "http://x"}), "the package is a server with HTTP"),
        (package(registryBaseUrl="https://npm.example"), "in another registry, https://npm.example"),
        (package(fileSha256=DIGEST), "cannot be checked here"),
        (package(runtimeHint="deno", runtimeArguments=[{"type": "named", "name": "-A"}]), "to be run by 'deno'"),
        (package(packageArguments=[{"type": "other"}]), "one of its `packageArguments` is neither"),
        (package(environmentVariables=[{}]), "one of its `environmentVariables` has no name"),
        (package(environmentVariables=[{"name": "A B", "value": "x"}]), "'A B' is no name of a variable"),
        (package(packageArguments=[{}] * (MAX_ITEMS + 1)), "is no list of at most 100 objects"),
        (json.dumps({"name": "a/b", "packages": [{"registry_type": "npm"}]}), "of before 2025-09-16"),
        (json.dumps({"name": "a/b", "packages": []}), r"b: None of its ways can be used\. It has none"),
        (remote(type="ws"), "remote of type 'ws': it is not one"),
        (remote(url="ftp://x"), "a: its url begins with"),
        (remote(url=None), "it has no url"),
        (remote(headers=[{"name": "Host", "value": "x"}]), "The header Host is set by TaskHub itself"),
    ],
)
def test_what_cannot_be_taken_is_refused(text: str, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        read(text)


def test_a_way_is_for_entries_only() -> None:
    with pytest.raises(Invalid, match="this is an mcp"):
        read_servers('{"mcpServers": {"a": {"command": "x"}}}', way="npm")
    with pytest.raises(Invalid, match="'a b' is no name for a server"):
        read_servers(entry("weather"), name="a b")


@pytest.mark.parametrize(
    ("name", "derived"),
    [
        ("io.github.acme/weather-mcp", "weather"),
        ("com.acme/mcp", "acme"),
        ("io.github.modelcontextprotocol/server-filesystem", "filesystem"),
        ("com.acme.tools/x_y.z", "x-y.z"),
    ],
)
def test_the_name_follows_from_that_of_the_entry(name: str, derived: str) -> None:
    text = json.dumps({"name": name, "remotes": [{"type": "streamable-http", "url": "https://a.example/mcp"}]})
    assert read(text).name == derived
