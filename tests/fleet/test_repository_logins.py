"""A repository's login: git has it, and no command line, file or message shows it."""

from __future__ import annotations

import base64
import functools
import http.server
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from codex_acp.errors import MisuseError
from codex_acp.fleet import Task
from codex_acp.fleet.checkout import without_login
from tests.fleet.fleet_bench import fleet_of, git, outcomes, repository, task

PASSWORD = "p@ss/word:7%"
WRITTEN = "p%40ss%2Fword%3A7%25"
LOGIN = base64.b64encode(f"robot:{PASSWORD}".encode()).decode()
PEM = Path(__file__).parents[1] / "network" / "localhost.pem"


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Files for whoever is logged in; notes what each request shows, and all command lines."""

    seen: list[str | None]
    lines: set[bytes]
    elsewhere: str | None

    def do_GET(self) -> None:
        if self.elsewhere is not None:
            self.send_response(302)
            self.send_header("Location", self.elsewhere + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.seen.append(self.headers["Authorization"])
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                self.lines.add(file.read_bytes())
            except OSError:
                continue
        if self.headers["Authorization"] == f"Basic {LOGIN}":
            super().do_GET()
            return
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="r"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def served(folder: Path, elsewhere: str | None = None) -> Iterator[tuple[int, type[_Handler]]]:
    """The port, and what was seen."""
    seen: list[str | None] = []
    lines: set[bytes] = set()
    noted = {"seen": seen, "lines": lines, "elsewhere": elsewhere}
    handler = type("Noting", (_Handler,), noted)
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(handler, directory=str(folder))
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    running = threading.Thread(target=server.serve_forever, daemon=True)
    running.start()
    try:
        yield server.server_address[1], handler
    finally:
        server.shutdown()
        server.server_close()
        running.join()


def bare(tmp_path: Path) -> Path:
    """A repository that can be fetched file by file."""
    git(repository(tmp_path / "source", a_txt="1\n"), "clone", "-q", "--bare", ".", "../x.git")
    git(tmp_path / "x.git", "update-server-info")
    return tmp_path


def users_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Configure the user's git; what its own helper was told is in the file that is returned."""
    told = tmp_path / "told"
    config = tmp_path / "home" / ".gitconfig"
    config.parent.mkdir()
    helper = f"!f() {{ cat >> {told}; echo $1 >> {told}; }}; f"
    git(tmp_path, "config", "--file", str(config), "credential.helper", helper)
    monkeypatch.setenv("HOME", str(config.parent))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config.parent))
    monkeypatch.setenv("GIT_SSL_CAINFO", str(PEM))
    return told


@pytest.mark.attack("agent")
async def test_git_has_the_login_of_a_url_and_nobody_else_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = users_git(tmp_path, monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with served(bare(tmp_path)) as (port, noted):
        url = f"https://robot:{WRITTEN}@localhost:{port}/x.git"
        one = task("a", tmp_path, write={"a.txt": "2\n"}, repository=url)
        found = await outcomes(fleet_of(tmp_path / "out"), one)
    assert found["a"].ok, found["a"].message
    assert f"Basic {LOGIN}" in noted.seen
    git_lines = [line for line in noted.lines if b"/x.git" in line]
    assert git_lines, "git was looked at while it ran"
    assert not [line for line in noted.lines if b"ss/word" in line or b"ss%2Fword" in line]
    assert "ss%2Fword" not in repr(one)
    assert not told.exists(), "no other helper was asked, or told the password"
    files = [p for folder in ("out", "cache") for p in (tmp_path / folder).rglob("*")]
    written = b"".join(path.read_bytes() for path in files if path.is_file())
    assert b"https://" in written
    assert b"ss%2Fword" not in written
    assert b"ss/word" not in written


@pytest.mark.attack("network")
async def test_a_redirect_takes_the_login_of_a_url_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users_git(tmp_path, monkeypatch)
    with ExitStack() as stack:
        far, noted = stack.enter_context(served(bare(tmp_path)))
        elsewhere = f"https://127.0.0.1:{far}"
        port, _ = stack.enter_context(served(tmp_path, elsewhere))
        url = f"https://robot:{WRITTEN}@localhost:{port}/x.git"
        found = await outcomes(fleet_of(None), task("a", tmp_path, repository=url))
    assert found["a"].reason == "checkout", found["a"].message
    assert "ss/word" not in str(found["a"].message)
    assert set(noted.seen) == {None}


def test_a_user_alone_is_told_to_git_and_its_helpers_are_asked_for_the_rest() -> None:
    url, env = without_login("HTTPS://al%40ice@host.example:8443/x?y=a@b")
    assert url == "HTTPS://host.example:8443/x?y=a@b"
    assert env["GIT_CONFIG_KEY_0"] == "credential.https://host.example:8443.username"
    assert (env["GIT_CONFIG_VALUE_0"], env["GIT_CONFIG_COUNT"]) == ("al@ice", "1")


@pytest.mark.parametrize(
    "plain", ["/x@y", "git@host:x", "ssh://git@host/x", "https://host/@a/b", "file:///x"]
)
def test_a_repository_without_a_login_is_named_as_it_is(plain: str) -> None:
    assert without_login(plain) == (plain, {})


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ssh://git:hunter2secret@host/x", "which ssh does not use"),
        ("https://robot:hunter2/secret@host/x", "percent-encoded"),
        ("https://robot:hunter2%0ahost=evil@host/x", "control characters"),
        ("ext::https://robot:hunter2secret@host/x", "transport helper"),
    ],
)
def test_a_login_that_cannot_be_used_is_refused_without_being_shown(url: str, said: str) -> None:
    with pytest.raises(MisuseError, match=said) as caught:
        Task(id="a", prompt="x", repository=url)
    assert "hunter2" not in str(caught.value)
