"""The official adapter's environment variables: what they come to, and what cannot be read."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from codex_acp.adapter.session_defaults import SessionDefaults
from codex_acp.cli.adapter_variables import read_variables
from codex_acp.cli.serve import ADAPTER_VARIABLES
from codex_acp.errors import MisuseError
from codex_acp.transcript.secrets import scrub


def settings(arguments: tuple[str, ...]) -> dict[str, Any]:
    """Dotted key → value, as Codex reads ``-c``."""
    assert set(arguments[::2]) <= {"-c"}
    found = {}
    for setting in arguments[1::2]:
        key, _, value = setting.partition("=")
        found[key] = tomllib.loads(f"x = {value}")["x"]
    return found


def test_nothing_set_is_nothing_given() -> None:
    read = read_variables(dict.fromkeys(ADAPTER_VARIABLES, ""))
    assert read.arguments == read.notes == read.defaults.notices == ()
    assert (read.defaults.mode, read.defaults.login, read.log_file) == (None, None, None)


@pytest.mark.attack("client")
def test_the_configuration_is_given_setting_by_setting() -> None:
    config = {
        "model": 'a "b"\n\x7fc',
        "features": {"goals": True, "n": 1.5},
        "model_providers.mine": {"name": "m", "http_headers": {"x-key": "s3cret"}},
        "shell_environment_policy": {"set": {"A": "1"}},
        "tools": {},
        "notify": ["say", "done"],
        "projects": {"/a/b": {"trust_level": "trusted"}},
        "mcp_servers": {"n": {"command": "c", "env": {"TOKEN": "s3cret"}}},
    }
    read = read_variables({"CODEX_CONFIG": json.dumps(config), "MODEL_PROVIDER": "mine"})
    assert settings(read.arguments) == {
        "model": 'a "b"\n\x7fc',
        "features.goals": True,
        "features.n": 1.5,
        "model_providers.mine.name": "m",
        "shell_environment_policy.set.A": "1",
        "tools": {},
        "notify": ["say", "done"],
        "projects": {"/a/b": {"trust_level": "trusted"}},
        "model_provider": "mine",
    }
    assert read.defaults.config == {
        "model_providers.mine.http_headers.x-key": "s3cret",
        "mcp_servers.n.command": "c",
        "mcp_servers.n.env.TOKEN": "s3cret",
    }
    shown = [*read.arguments, *read.notes, *read.defaults.notices, repr(read.arguments)]
    assert not any("s3cret" in text for text in shown), "other users can read a command line"
    (told,) = read.defaults.notices
    for key in ("notify", "projects", "mcp_servers", "shell_environment_policy"):
        assert key in told
    assert "model" not in told.replace("CODEX_CONFIG", "")


def test_all_of_a_server_goes_one_way() -> None:
    far = {"url": "https://h/mcp?key=s3cret", "startup_timeout_sec": 5, "enabled": True}
    config = {"mcp_servers": {"far": far, "near": {"command": "c", "enabled": False}}}
    read = read_variables({"CODEX_CONFIG": json.dumps(config)})
    assert settings(read.arguments) == {
        "mcp_servers.near.command": "c",
        "mcp_servers.near.enabled": False,
    }
    assert read.defaults.config == {f"mcp_servers.far.{key}": far[key] for key in far}


@pytest.mark.parametrize(
    ("ours", "clients", "both"),
    [
        ({"a.b": 1}, {"a.c": {"d": 2}}, {"a.b": 1, "a.c": {"d": 2}}),
        ({"a": {"x.y": 1}}, {"a.c": {"d": 2}}, {"a": {"x.y": 1, "c": {"d": 2}}}),
        ({"a.b.c": 1, "a.b.d": 2}, {"a": {"x.y": 3}}, {"a": {"x.y": 3, "b": {"c": 1, "d": 2}}}),
        ({"a": {"b": 1, "c": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ({"a": {"b": 1}}, {"a": 2}, {"a": 2}),
    ],
)
def test_no_key_of_a_thread_names_a_part_of_another_ones_table(
    ours: dict[str, Any], clients: dict[str, Any], both: dict[str, Any]
) -> None:
    given = SessionDefaults(config=ours).params({"cwd": "/", "config": clients})
    assert given == {"cwd": "/", "config": both}


@pytest.mark.attack("client")
@pytest.mark.parametrize(
    "config",
    [
        {"mcp_servers": {"my server": {"command": "c", "env": {"A": "s3cret"}}}},
        {"model_providers": {"a b": {"name": "m", "http_headers": {"Authorization": "s3cret"}}}},
        {"shell_environment_policy": {"set": {"DB_PASSWD": "s3cret"}}},
        {"shell_environment_policy": {"set": {"A B": "1", "AWS_ACCESS_KEY": "s3cret"}}},
        {"list": [{"credential": "s3cret"}]},
        {"mcp_servers": {"n": {"command": "c", "args": ["s3cret"]}}},
        {"mcp_servers": {"n": {"command": "c", "args": ["--api-key", "s3cret"]}}},
        {"mcp_servers": {"a b": {"command": "c", "args": ["s3cret"]}}},
        {"mcp_servers": {"n": {"url": "https://here/mcp?sig=s3cret"}}},
        {"mcp_servers": {"a b": {"url": "https://me:s3cret@here/mcp"}}},
        {"model_providers": {"p": {"name": "p", "base_url": "https://me:s3cret@here/v1"}}},
    ],
)
def test_what_may_be_secret_stands_on_no_command_line(config: dict[str, Any]) -> None:
    read = read_variables({"CODEX_CONFIG": json.dumps(config)})
    assert "s3cret" not in str((read.arguments, read.notes, read.defaults.notices))
    assert "s3cret" in str(read.defaults.config)


@pytest.mark.attack("client")
def test_what_may_be_secret_stands_in_no_log() -> None:
    provider = {"name": "m", "http_headers": {"x-proof": "s3cret-of-a-header"}}
    config = {"model_providers": {"m": provider, "a b": {"query_params": {"k": "s3cret-of-b"}}}}
    read_variables({"CODEX_CONFIG": json.dumps(config)})
    assert "s3cret" not in scrub("x-proof is s3cret-of-a-header, k is s3cret-of-b")


def test_what_says_nothing_of_access_is_not_told_in_each_session() -> None:
    read = read_variables({"CODEX_CONFIG": '{"model": "gpt-5.5"}'})
    assert read.defaults.notices == ()
    assert read.notes == ("CODEX_CONFIG sets model",)


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("read-only", "read-only"),
        ("workspace-write", "ask"),
        ("agent", "auto-review"),
        ("agent-full-access", "full-access"),
        ("permission-profile:mine", "profile:mine"),
        ("never-ask", "never-ask"),
        ("configured", "configured"),
    ],
)
def test_a_mode_of_the_official_adapter_is_the_same_here(text: str, mode: str) -> None:
    read = read_variables({"INITIAL_AGENT_MODE": text})
    assert read.defaults.mode == mode
    assert mode in read.notes[0]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CODEX_CONFIG", "{"),
        ("CODEX_CONFIG", "[" * 100_000),
        ("CODEX_CONFIG", "[]"),
        ("CODEX_CONFIG", "null"),
        ("CODEX_CONFIG", '"model=x"'),
        ("CODEX_CONFIG", '{"model": null}'),
        ("CODEX_CONFIG", '{"a b": 1}'),
        ("CODEX_CONFIG", '{"a=b": 1}'),
        ("CODEX_CONFIG", '{"a..b": 1}'),
        ("CODEX_CONFIG", '{"": 1}'),
        ("CODEX_CONFIG", '{"model": "\\ud800"}'),
        ("INITIAL_AGENT_MODE", "full"),
        ("INITIAL_AGENT_MODE", "Agent"),
        ("INITIAL_AGENT_MODE", "permission-profile:"),
        ("INITIAL_AGENT_MODE", "custom"),
        ("DEFAULT_AUTH_REQUEST", "api-key"),
        ("DEFAULT_AUTH_REQUEST", "{}x"),
        ("DEFAULT_AUTH_REQUEST", '{"methodId": "none"}'),
        ("DEFAULT_AUTH_REQUEST", '{"methodId": ["api-key"]}'),
        ("DEFAULT_AUTH_REQUEST", '{"methodId": "gateway"}'),
        ("DEFAULT_AUTH_REQUEST", '{"methodId": "gateway", "_meta": {"gateway": []}}'),
        (
            "DEFAULT_AUTH_REQUEST",
            '{"methodId": "gateway", "_meta": {"gateway": {"baseUrl": "file:///x"}}}',
        ),
        ("DEFAULT_AUTH_REQUEST", '{"methodId": "api-key", "_meta": 5}'),
        ("APP_SERVER_LOGS", "/dev/null/logs"),
    ],
)
def test_a_value_that_cannot_be_read_is_an_error_that_names_the_variable(
    variable: str, value: str
) -> None:
    with pytest.raises(MisuseError, match=variable):
        read_variables({variable: value})


def test_the_log_has_the_official_name_in_a_directory_that_is_made(tmp_path: Path) -> None:
    read = read_variables({"APP_SERVER_LOGS": str(tmp_path / "a" / "logs")})
    assert read.log_file == str(tmp_path / "a" / "logs" / "app-server.log")
    assert (tmp_path / "a" / "logs").is_dir()


def test_no_secret_of_a_login_is_said() -> None:
    login = {"methodId": "api-key", "_meta": {"api-key": {"apiKey": "sk-s3cret-of-a-test"}}}
    read = read_variables({"DEFAULT_AUTH_REQUEST": json.dumps(login)})
    assert read.defaults.login == login
    assert "s3cret" not in str((read.arguments, read.notes, read.defaults.notices))


MINE = {
    "command": "server", "args": ["--stdio"], "env": {"TOKEN": "s3cret-s3cret", "A": "1"},
}  # fmt: skip
SECRETIVE: dict[str, Any] = {
    "mcp_servers": {"mine": MINE},
    "model_providers": {"p": {"name": "p", "http_headers": {"x-key": "s3cret-s3cret"}}},
}


@pytest.mark.parametrize(
    ("given", "server", "provider", "left"),
    [
        ("model=gpt-5.5", {}, True, ["model=gpt-5.5"]),
        ('mcp_servers.mine.command="other"', {"command": "other"}, True, []),
        ("mcp_servers.mine.enabled=false", {"enabled": False}, True, []),
        ("mcp_servers.mine.env.TOKEN=plain", {"env.TOKEN": "plain"}, True, []),
        ("mcp_servers.mine.env.A=2026-01-31", {"env.A": "2026-01-31"}, True, []),
        ("mcp_servers.mine.env.A=nan", {"env.A": "nan"}, True, []),
        ('mcp_servers.mine={command="x"}', None, True, ['mcp_servers.mine={command="x"}']),
        ("mcp_servers={}", None, True, ["mcp_servers={}"]),
        ('mcp_servers.other.command="x"', {}, True, ['mcp_servers.other.command="x"']),
        (
            'model_providers.p.http_headers={x-key="n"}', {}, False,
            ['model_providers.p.http_headers={x-key="n"}'],
        ),
    ],
)  # fmt: skip
def test_the_command_line_goes_before_what_each_thread_is_given(
    given: str, server: dict[str, Any] | None, provider: bool, left: list[str]
) -> None:
    environment = {"CODEX_CONFIG": json.dumps(SECRETIVE)}
    read = read_variables(environment, ["-c", given])
    before = read_variables(environment)
    assert [each for each in read.arguments if each not in before.arguments] == left
    expected: dict[str, Any] = {
        "mcp_servers.mine.command": "server",
        "mcp_servers.mine.args": ["--stdio"],
        "mcp_servers.mine.env.TOKEN": "s3cret-s3cret",
        "mcp_servers.mine.env.A": "1",
    }
    expected = (
        {} if server is None else expected | {f"mcp_servers.mine.{k}": v for k, v in server.items()}
    )
    if provider:
        expected["model_providers.p.http_headers.x-key"] = "s3cret-s3cret"
    assert read.defaults.config == expected


def test_a_part_of_a_table_that_stays_one_is_put_into_it() -> None:
    config = {"mcp_servers": {"mine": {"command": "c", "env": {"a key": "s3cret-s3cret"}}}}
    read = read_variables({"CODEX_CONFIG": json.dumps(config)}, ["-c", "mcp_servers.mine.env.B=2"])
    assert read.defaults.config["mcp_servers.mine.env"] == {"a key": "s3cret-s3cret", "B": 2}
