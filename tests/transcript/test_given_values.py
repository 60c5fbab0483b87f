"""Of what is given under a name: what is a secret, and what is plainly none."""

from __future__ import annotations

import pytest

from codex_acp.transcript.given_values import secrets_in, secrets_of, secrets_of_arguments


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NODE_ENV", "production"),
        ("X", "development"),
        ("X", "workspace-write"),
        ("LOG_LEVEL", "warning"),
        ("RUST_LOG", "info,codex=debug,hyper::client=warn"),
        ("ENABLED", "enabled"),
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("ROOT", "/srv/my project/src"),
        ("CACHE", "~/.cache/pip"),
        ("APPDATA", "C:\\Users\\me\\AppData"),
        ("JAVA_HOME", "/usr/lib/jvm/java-17-openjdk-amd64"),
        ("KEY_FILE", "/run/secrets/key.pem"),
        ("HOST", "localhost:8080"),
        ("HOST", "127.0.0.1:8080"),
        ("DB", "db.example.com:5432"),
        ("NO_PROXY", "localhost,127.0.0.1,.example.com"),
        ("URL", "https://api.example.com/v1/mcp"),
        ("URL", "https://docs.example/page#section-two"),
        ("LANG", "de_CH.UTF-8"),
        ("TZ", "Europe/Zurich"),
        ("PORT", "123456"),
        ("TIMEOUT", "30000ms"),
        ("MEMORY", "4096MB"),
        ("VERSION", "v20.11.1"),
        ("MCP-Protocol-Version", "2025-06-18"),
        ("REGION", "us-east-1"),
        ("MODEL", "gpt-4o-mini"),
        ("PYTHON", "python3"),
        ("TERM", "xterm-256color"),
        ("Accept", "application/json, text/event-stream"),
        ("User-Agent", "my-client/1.0"),
        ("NODE_OPTIONS", "--max-old-space-size=4096 --enable-source-maps"),
        ("USER", "a1b2c3d4"),
    ],
)
def test_what_is_plainly_no_secret_is_none(name: str, value: str) -> None:
    assert list(secrets_of(name, value)) == []


@pytest.mark.attack("MCP server")
@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        # By the name, whatever the value is.
        ("API_KEY", "production", "production"),
        ("MYSQL_PWD", "swordfish", "swordfish"),
        ("sshKey", "/usr/bin", "/usr/bin"),
        ("X-Auth", "swordfish", "swordfish"),
        ("Cookie", "id=77aa88bb", "id=77aa88bb"),
        ("Authorization", "Bearer swordfish", "swordfish"),
        ("SLACK_WEBHOOK", "https://h.example/services/x", "https://h.example/services/x"),
        # By the value.
        ("X", "sk-abc12345678", "sk-abc12345678"),
        ("X", "9f2b7c41d0", "9f2b7c41d0"),
        ("X", "3f2504e0-4f89-11d3-9a0c-0305e82c3301", "3f2504e0-4f89-11d3-9a0c-0305e82c3301"),
        ("X", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEX", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEX"),
        ("X", "/9j4AAQSkZJRgABAQ", "/9j4AAQSkZJRgABAQ"),
        ("X", "gjkwqzxplmbvcrtd", "gjkwqzxplmbvcrtd"),
        ("X", "qwkzjxvb", "qwkzjxvb"),
        ("X", "1234567890123456", "1234567890123456"),
        ("X", "dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        # Of an address what in it is one, and no more.
        ("URL", "postgres://user:hunter22@h/db", "hunter22"),
        ("URL", "https://ghp_abcdef12@h.example/x", "ghp_abcdef12"),
        ("URL", "https://h.example/mcp?mode=readonly&x=s3cr3ts", "s3cr3ts"),
        ("URL", "https://h.example/mcp?key=swordfish", "swordfish"),
        ("URL", "https://h.example/0123456789abcdef0123/v1", "0123456789abcdef0123"),
        ("URL", "https://h.example/#Zq7Hj2Lk9Pw4Xv8T", "Zq7Hj2Lk9Pw4Xv8T"),
        # In doubt.
        ("NOTES", "hunter2", "hunter2"),
        ("NOTES", "hunter2-of-the-notes", "hunter2-of-the-notes"),
        ("X", "correct-horse-battery-staple", "correct-horse-battery-staple"),
        ("X", "summer-2024", "summer-2024"),
        ("X", "CorrectHorse", "CorrectHorse"),
        ("X", "swordfish!", "swordfish!"),
        ("X", "me:swordfish", "me:swordfish"),
        ("X", "k\u00e4sebrot-9", "k\u00e4sebrot-9"),
        ("X", '{"a": "b"}', '{"a": "b"}'),
    ],
)
def test_what_may_be_a_secret_is_one(name: str, value: str, secret: str) -> None:
    found = set(secrets_of(name, value))
    assert secret in found
    assert not found & {"readonly", "h.example"}


def test_what_a_server_was_given_that_may_be_a_secret_is_known() -> None:
    token = "0123456789abcdef0123"
    url = f"https://me:pass@a-long-name-of-a.host.example:81/mcp/{token}/v1?id=7&key=in-query#x"
    arguments = ["-y", "@scope/a-server@1.2", "--api-key", "k-in-args", "--verbose", "word"]
    servers = {
        "a": {"command": "/run", "args": arguments, "env": {"PATH": "/bin", "NOTES": "hunter2"}},
        "b": {"url": url, "http_headers": {"Authorization": "Bearer in-header", "X": "acme-inc"}},
    }
    wanted = {"hunter2", "k-in-args", "me:pass", "pass", token, "in-query", "in-header"}
    assert set(secrets_in(servers)) == {*wanted, "Bearer in-header"}


def test_settings_that_say_where_a_secret_is_are_none() -> None:
    settings = {
        "cli_auth_credentials_store": "keyring",
        "preferred_auth_method": "chatgpt",
        "model_providers": {"p": {"env_key": "MY_KEY", "base_url": "https://h.example/v1"}},
        "shell_environment_policy": {"set": {"NODE_ENV": "production"}},
    }
    assert list(secrets_in(settings)) == []
    assert list(secrets_in({"experimental_bearer_token": "swordfish"})) == ["swordfish"]


@pytest.mark.attack("MCP server")
@pytest.mark.parametrize(
    ("arguments", "secret"),
    [
        (["--token=swordfish"], "swordfish"),
        (["-e", "FOO=a9f8e7d6"], "a9f8e7d6"),
        (["mcp-remote", "https://h.example", "--header", "X-Who: q9w8e7r6t5"], "q9w8e7r6t5"),
        (["https://me:pass-word@h.example/x"], "pass-word"),
        (["serve", "9f2b7c41d0"], "9f2b7c41d0"),
    ],
)
def test_what_a_server_is_called_with_may_be_a_secret(arguments: list[str], secret: str) -> None:
    assert secret in set(secrets_of_arguments(arguments))
