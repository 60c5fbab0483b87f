"""The server of the network in this process, with a stand-in for Codex that is fast."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from codex_acp.adapter.network.access_control import TokenFile, Tokens
from codex_acp.adapter.network.limits import Limits
from codex_acp.adapter.network.listen import Address, NetworkOptions, listen
from codex_acp.adapter.server.app_server import AppServer
from codex_acp.codex.connection.launch import LaunchOptions
from codex_acp.transcript.log import Transcript
from tests.fuzz.fuzzed_codex import FuzzedCodex
from tests.network.http_client import HttpClient
from tests.network.listening_adapter import TOKEN, WAIT, JsonClient

ALICE = "alices-token-of-these-tests"
BOB = "bobs-token-of-these-tests"


def several_tokens() -> str:
    """The content of a token file with two owners."""
    return f"alice {ALICE}\nbob {BOB}\nbob expired-token-of-bob 2020-01-01T00:00:00Z\n"


class Served:
    """A server that listens at ``url``."""

    def __init__(self, url: str, codex: FuzzedCodex, token_file: Path, folder: Path) -> None:
        self.url = url
        self.codex = codex
        self.token_file = token_file
        self.cwd = folder

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rpartition(":")[2].partition("/")[0])

    def connect(self, token: str | None = TOKEN, **more: Any) -> JsonClient:
        """A client, to be entered with ``async with``."""
        return JsonClient(self.url.replace("http", "ws", 1), token, **more)

    def over_http(self, token: str | None = TOKEN, **more: Any) -> HttpClient:
        """A client over streamable HTTP, likewise."""
        return HttpClient(self.url, token, **more)

    def decisions(self) -> list[str]:
        """What Codex was answered to its questions, as it came."""
        answers = self.codex.answers
        return answers.read_text().splitlines() if answers.exists() else []


async def until(condition: Callable[[], object]) -> None:
    """Wait until something holds that tells nobody when it does."""
    with anyio.fail_after(WAIT):
        while not condition():  # noqa: ASYNC110 - see above
            await anyio.sleep(0.01)


@asynccontextmanager
async def served(
    folder: Path,
    *,
    tokens: str = TOKEN,
    limits: Limits | None = None,
    transcript: Transcript | None = None,
    scheme: str = "ws",
    launch: LaunchOptions | None = None,
    **options: Any,
) -> AsyncIterator[Served]:
    """A server in ``folder``; at its end nothing of it is left. ``launch`` is for another Codex
    than the stand-in."""
    token_file = folder / "tokens"
    token_file.write_text(tokens)
    token_file.chmod(0o600)
    codex = FuzzedCodex(folder)
    network = NetworkOptions(
        Address.parse(f"{scheme}://127.0.0.1:0/acp"),
        Tokens(TokenFile(str(token_file)).current),
        limits or Limits(),
        **options,
    )
    launch = launch or LaunchOptions(codex=str(codex.path))
    urls: asyncio.Queue[str] = asyncio.Queue()
    lock = asyncio.Lock()
    async with anyio.create_task_group() as tasks:

        async def run() -> None:
            record = transcript or Transcript()
            server = lambda: AppServer(launch, lock=lock)  # noqa: E731
            await listen(network, server, record, urls.put_nowait, network.check())

        tasks.start_soon(run)
        with anyio.fail_after(WAIT):
            url = await urls.get()
        yield Served(url, codex, token_file, folder)
        tasks.cancel_scope.cancel()
