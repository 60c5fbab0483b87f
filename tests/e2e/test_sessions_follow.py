"""One session in every program of this package, one after the other: each is a process."""

from __future__ import annotations

from asyncio import to_thread
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from codex_acp.codex import CodexClient, LaunchOptions
from codex_acp.testing import Text
from tests.cli.command import environment, run
from tests.cli.test_chat import Chat
from tests.e2e.raw_adapter import Message, RawAdapter
from tests.e2e.session_bench import SessionBench
from tests.e2e.v2_bench import INFO
from tests.network.listening_adapter import ListeningAdapter

WHO = (
    "server",
    "editor",
    "library",
    "run",
    "chat",
    "newer editor",
    "chat again",
    "library again",
    "server again",
)


def initialized(adapter: RawAdapter, version: int) -> None:
    """Shake hands in a version."""
    who = "info" if version == 2 else "clientInfo"
    adapter.result("initialize", {"protocolVersion": version, who: INFO})


async def test_8_1_a_session_goes_wherever_it_is_asked_for_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = [[Text(f"To {who}.")] for who in WHO]
    with TemporaryDirectory(dir="/tmp") as runtime, SessionBench(script) as bench:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)  # also of the library, in this process
        env, cwd = {**bench.home.env, "XDG_RUNTIME_DIR": runtime}, str(bench.home.workspace)
        options = LaunchOptions(env=env, cwd=cwd)
        terminal_env = environment(tmp_path, TERM="xterm", NO_COLOR="1", PROMPT_TOOLKIT_NO_CPR="1")
        terminal_env |= env
        with (
            ListeningAdapter(env, tmp_path) as server,
            RawAdapter(env) as editor,
            RawAdapter(env) as newer,
        ):
            async with server.connect() as client, CodexClient.start(options) as codex:
                session = await client.new_session(bench.home.workspace)
                await client.outcome(await client.prompt(session, "I am server."))

                place: Message = {"sessionId": session, "cwd": cwd, "mcpServers": []}
                initialized(editor, 1)
                await to_thread(editor.result, "session/load", place)
                said = await to_thread(bench.run, editor, session, "I am editor.")
                assert said == "To editor."

                thread = await codex.threads.resume(session)
                assert (await thread.run("I am library.")).text == "To library."

                command = ["run", "--session", session, "--cwd", cwd, "I am run."]
                done = await to_thread(run, command, terminal_env)
                assert b"To run." in done.stdout, done

                arguments = ("--resume", session, "--cwd", cwd, "I am chat.")
                with Chat(terminal_env, *arguments, stdout_too=True, command="chat") as chat:
                    await to_thread(chat.until, "To chat.")
                    initialized(newer, 2)
                    await to_thread(newer.result, "session/resume", place)
                    asked = newer.start_prompt(session, "I am newer editor.")
                    assert "result" in await to_thread(newer.answer, asked)
                    ended = {"state": "idle", "stopReason": "end_turn"}
                    await to_thread(lambda: newer.until("state_update", session, **ended))
                    chat.line("I am chat again.\r")
                    await to_thread(chat.until, "To chat again.")
                    assert "This session went to" in chat.screen

                assert (await thread.run("I am library again.")).text == "To library again."
                await client.outcome(await client.prompt(session, "I am server again."))
                assert client.text(session).endswith("To server again.")
                heard = str(bench.model.requests[-1].body["input"])
                places = [heard.index(f"I am {who}.") for who in WHO]
                assert places == sorted(places)
                assert all(heard.count(f"I am {who}.") == 1 for who in WHO)
