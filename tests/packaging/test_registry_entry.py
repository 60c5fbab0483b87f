"""The entry for the ACP registry keeps the registry's published rules.

Source: ``agent.schema.json``, ``CONTRIBUTING.md`` and ``AUTHENTICATION.md`` of
github.com/agentclientprotocol/registry, February 2026.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from codex_acp import __version__
from codex_acp.cli.arguments import serve_parser
from codex_acp.wire.lazy import TESTED
from tests.cli.command import WAIT_SECONDS

ROOT = Path(__file__).resolve().parents[2]
ENTRY = ROOT / "packaging" / "acp-registry" / "codex-acp-sdk"
THIN = ROOT / "packaging" / "codex-acp"

FIELDS = {
    "id", "name", "version", "description", "repository", "authors", "license", "icon",
    "distribution",
}  # fmt: skip


@pytest.fixture(scope="module")
def entry() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ENTRY / "agent.json").read_text())
    return found


def test_the_fields_are_those_of_the_schema(entry: dict[str, Any]) -> None:
    assert {"id", "name", "version", "description", "distribution"} <= entry.keys() <= FIELDS
    assert re.fullmatch(r"[a-z][a-z0-9-]*", entry["id"])
    assert entry["id"] == ENTRY.name
    assert all(entry[key] for key in entry)
    assert entry["distribution"].keys() == {"uvx"}
    assert entry["distribution"]["uvx"].keys() <= {"package", "args", "env"}


def test_the_versions_are_this_one(entry: dict[str, Any]) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", entry["version"])
    thin = tomllib.loads((THIN / "pyproject.toml").read_text())["project"]
    package, _, version = entry["distribution"]["uvx"]["package"].partition("==")
    assert package == thin["name"]
    major, minor = TESTED[-1].split(".")  # the library takes newer ones, and loads more slowly
    tested = f"pydantic<{major}.{int(minor) + 1}"
    assert thin["dependencies"] == [f"codex-acp-sdk[codex]=={__version__}", tested]
    assert {entry["version"], version, thin["version"]} == {__version__}


def test_its_command_is_one_that_starts_the_agent(entry: dict[str, Any]) -> None:
    thin = tomllib.loads((THIN / "pyproject.toml").read_text())["project"]
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert thin["scripts"] == {"codex-acp": ours["scripts"]["codex-acp-sdk"]}
    assert serve_parser().parse_args(entry["distribution"]["uvx"]["args"]).command == "serve"


def test_the_icon_is_of_16_by_16_and_of_the_colour_of_the_text() -> None:
    text = (ENTRY / "icon.svg").read_text()
    svg = ET.fromstring(text)
    assert (svg.get("width"), svg.get("height"), svg.get("viewBox")) == ("16", "16", "0 0 16 16")
    paints = [e.get(name) for e in svg.iter() for name in ("fill", "stroke") if e.get(name)]
    assert set(paints) == {"none", "currentColor"}
    assert "style" not in text


def test_the_agent_offers_a_login_that_the_registry_takes() -> None:
    request = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": 1, "clientCapabilities": {"terminal": True}},
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "codex_acp"], input=json.dumps(request) + "\n",
        capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
    )  # fmt: skip
    methods = json.loads(done.stdout.splitlines()[0])["result"]["authMethods"]
    assert {method.get("type", "agent") for method in methods} & {"agent", "terminal"}
