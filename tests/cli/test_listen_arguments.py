"""The options of ``serve --listen``: what is safe is what one gets, what is not has to be said."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from codex_acp.adapter.network import listen as listen_module
from codex_acp.adapter.network.access_control import EVERYBODY, fixed_token
from codex_acp.adapter.network.listen import Address, NetworkOptions
from codex_acp.cli import serve as serve_module
from codex_acp.cli.main import main
from codex_acp.codex import LaunchOptions
from codex_acp.transcript import Transcript

WS = ("--listen", "ws://127.0.0.1:0/acp")
TOKEN = "a-token-of-some-length"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[NetworkOptions]:
    """What it would listen with."""
    found: list[NetworkOptions] = []

    def serve(_launch: object, *, network: NetworkOptions, **_: object) -> int:
        found.append(network)
        return 7

    monkeypatch.setattr(serve_module, "serve", serve)
    monkeypatch.delenv("CODEX_ACP_TOKEN", raising=False)
    return found


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["serve", *arguments])
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.attack("network")
def test_without_a_token_it_does_not_start(
    started: list[NetworkOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "need a token" in error_of(capsys, *WS)
    assert started == []


@pytest.mark.attack("network")
def test_nothing_listens_to_other_machines_unasked(
    started: list[NetworkOptions], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = token_file(tmp_path)
    wide = ("--listen", "ws://0.0.0.0:0/acp")
    assert "--expose" in error_of(capsys, *wide, "--token-file", file)
    assert "loopback" in error_of(capsys, *wide, "--expose", "--no-token")
    assert started == []
    assert main(["serve", *wide, "--expose", "--token-file", file]) == 7


def test_a_token_of_the_environment_is_taken_out_of_it(
    started: list[NetworkOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_ACP_TOKEN", TOKEN)
    assert main(["serve", *WS]) == 7
    assert started[0].tokens.find(f"Bearer {TOKEN}").owner == EVERYBODY
    assert "CODEX_ACP_TOKEN" not in os.environ


def test_what_it_is_told_is_what_it_does(started: list[NetworkOptions], tmp_path: Path) -> None:
    limited = ("--max-connections", "3", "--max-sessions", "5", "--line-limit", "1000")
    shares = ("--max-owner-connections", "2", "--max-owner-sessions", "4")
    options = (*limited, *shares, "--keep", "1.5h")
    more = ("--allow-origin", "https://a", "--allow-origin", "https://b", "--allow-host", "h")
    alone = "--codex-per-connection"
    assert main(["serve", *WS, "--token-file", token_file(tmp_path), *options, *more, alone]) == 7
    (found,) = started
    limits = found.limits
    assert (limits.connections, limits.sessions, limits.message_bytes) == (3, 5, 1000)
    assert (limits.owner_connections, limits.owner_sessions) == (2, 4)
    assert limits.keep_seconds == 5400
    assert (found.origins, found.hosts) == (("https://a", "https://b"), ("h",))
    assert not found.shared


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--no-token",), "--no-token is for --listen"),
        (("--max-sessions", "2"), "--max-sessions is for --listen"),
        (("--max-owner-sessions", "2"), "--max-owner-sessions is for --listen"),
        (("--listen", "127.0.0.1:8765", "--no-token"), "error: this is no address"),
        (("--listen", "ftp://127.0.0.1:1/acp", "--no-token"), "no address"),
        (("--listen", "http://h:1/acp", "--no-token"), "--expose"),
        (("--listen", "https://127.0.0.1:1/acp", "--no-token"), "--tls-cert"),
        (("--listen", "ws://h/acp", "--no-token"), "no address"),
        (("--listen", "ws://u:p@127.0.0.1:1/", "--no-token"), "more than"),
        (("--listen", "wss://127.0.0.1:0/", "--no-token"), "--tls-cert"),
        ((*WS, "--no-token", "--tls-cert", "x"), "wss://"),
        ((*WS, "--token-file", "/no/such/file"), "cannot be read"),
        ((*WS, "--token-file", "/dev/null"), "no regular file"),
        ((*WS, "--token-file", "x", "--no-token"), "exclude each other"),
        ((*WS, "--no-token", "--max-sessions", "0"), "positive"),
        ((*WS, "--no-token", "--keep", "soon"), "no time"),
        ((*WS, "--no-token", "--keep", "1000d"), "no time"),
        (("--keep", "1h"), "--keep is for --listen"),
    ],
)
def test_what_makes_no_sense_is_said(
    started: list[NetworkOptions],
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    assert said in error_of(capsys, *arguments)
    assert started == []


@pytest.mark.parametrize(
    ("url", "missing", "said"),
    [
        ("ws://127.0.0.1:0/acp", "websockets", "pip install 'codex-acp-sdk[remote]'"),
        ("http://127.0.0.1:0/acp", "websockets", "pip install 'codex-acp-sdk[http]'"),
        ("http://127.0.0.1:0/acp", "hypercorn", "pip install 'codex-acp-sdk[http]'"),
        ("ws://127.0.0.1:0/acp", "hypercorn", None),
    ],
)
def test_a_package_that_is_missing_is_named(
    started: list[NetworkOptions],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    url: str,
    missing: str,
    said: str | None,
) -> None:
    where = "codex_acp.adapter.network.listen.find_spec"
    monkeypatch.setattr(where, lambda name: None if name == missing else name)
    if said is None:
        assert main(["serve", "--listen", url, "--no-token"]) == 7
    else:
        assert said in error_of(capsys, "--listen", url, "--no-token")
        assert started == []


FILES = {
    "short\n": "at least 16",
    "# nothing\n\n": "no token",
    "a b c d\n": "is not TOKEN",
    f"me {TOKEN} soon\n": "no time",
    f"me 2027-01-31T12:00:00Z {TOKEN}\n": "its third word",
}


@pytest.mark.parametrize(("content", "said"), FILES.items(), ids=FILES.values())
def test_a_token_file_that_cannot_be_used(
    started: list[NetworkOptions],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    content: str,
    said: str,
) -> None:
    error = error_of(capsys, *WS, "--token-file", token_file(tmp_path, content))
    assert said in error
    assert TOKEN not in error
    assert started == []


@pytest.mark.attack("network")
def test_a_token_file_that_others_can_read_is_refused(
    started: list[NetworkOptions], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = token_file(tmp_path, mode=0o640)
    assert "chmod 600" in error_of(capsys, *WS, "--token-file", file)
    assert started == []


def token_file(folder: Path, content: str = TOKEN, mode: int = 0o600) -> str:
    file = folder / "tokens"
    file.write_text(content)
    file.chmod(mode)
    return str(file)


@pytest.mark.parametrize(
    ("url", "clear"),
    [
        ("http://0.0.0.0:0/acp", True),
        ("ws://[::]:0/acp", True),
        ("http://127.0.0.1:0/acp", False),
        ("https://0.0.0.0:0/acp", False),
    ],
)
def test_a_server_that_others_reach_without_tls_says_that_tokens_travel_in_the_clear(
    monkeypatch: pytest.MonkeyPatch, url: str, clear: bool
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(serve_module, "complain", lines.append)

    def run_network(options: NetworkOptions, *rest: Any) -> int:
        rest[-1](options.address.url_at(8765))  # where it listens
        return 0

    monkeypatch.setattr(listen_module, "run_network", run_network)
    options = NetworkOptions(Address.parse(url), fixed_token(TOKEN, "--token"), any_interface=True)
    serve = serve_module._prepare_network(options, LaunchOptions(), None)
    assert serve(Transcript()) == 0
    said = "\n".join(lines)
    assert f"listening at {url.replace(':0/', ':8765/')}" in said
    assert ("TOKENS TRAVEL IN THE CLEAR" in said) == clear
