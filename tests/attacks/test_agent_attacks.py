"""What an ACP agent may ask of a program that uses the runtime: nothing beyond what was given."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from codex_acp.errors import CodexAcpError
from codex_acp.runtime import (
    AgentRuntime,
    AgentSpec,
    FileAccess,
    Permission,
    Session,
    TerminalAccess,
)

pytestmark = pytest.mark.attack("agent")

WAIT = 90.0
"""Seconds; what is waited for takes a fraction of one."""

PUPPET = Path(__file__).with_name("puppet_agent.py")

Json = dict[str, Any]

OPTIONS = [
    {"optionId": "y", "name": "Yes", "kind": "allow_once"},
    {"optionId": "n", "name": "No", "kind": "reject_once"},
]


@asynccontextmanager
async def puppet(folder: Path, **services: Any) -> AsyncIterator[Session]:
    """A session in ``folder/work``, beside which nothing may be touched."""
    (folder / "work").mkdir()
    (folder / "secret.txt").write_text("the secret")
    spec = AgentSpec([sys.executable, "-I", str(PUPPET)], "puppet")
    with anyio.fail_after(WAIT):
        async with (
            AgentRuntime(**services) as runtime,
            runtime.open(spec, cwd=folder / "work") as session,
        ):
            yield session


async def told(session: Session, **what: Any) -> Any:
    """Have the agent do that; what its questions were answered."""
    result = await session.run(json.dumps(what))
    return json.loads(result.text)


def permission(session_id: str) -> Json:
    call = {"toolCallId": "c", "title": "rm -rf /"}
    return {"sessionId": session_id, "toolCall": call, "options": OPTIONS}


async def test_a_permission_request_for_a_session_that_is_not_its_own(tmp_path: Path) -> None:
    asked: list[str] = []

    def allow(permission: Permission) -> str:
        asked.append(permission.session_id)
        return "y"

    async with puppet(tmp_path, permissions=allow) as session:
        names = ("s2", "", "S1", "s1 ", "../s1", "\x00")
        ask = [["session/request_permission", permission(name)] for name in names]
        answers = await told(
            session, ask=[*ask, ["session/request_permission", permission("SESSION")]]
        )
    allowed = [
        answer["result"]["outcome"].get("optionId") for answer in answers if "result" in answer
    ]
    assert [option for option in allowed if option == "y"] == ["y"]
    assert asked == ["s1"]


PATHS = {
    "above": "../secret.txt",
    "absolute": "/etc/passwd",
    "through a link": "WORK/link/secret.txt",
    "through the parent": "WORK/../secret.txt",
    "with a NUL": "WORK/a\x00b",
    "of a very long name": "WORK/" + "a" * 3000,
    "a device": "/dev/zero",
    "a process's environment": "/proc/self/environ",
    "another process's memory": f"/proc/{os.getpid()}/mem",
    "the directory": "WORK",
    "empty": "",
    "a URL": "file:///etc/passwd",
    "a FIFO": "WORK/fifo",
}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
async def test_a_file_whose_path_is(path: str, tmp_path: Path) -> None:
    async with puppet(tmp_path, files=FileAccess(write=True)) as session:
        work = tmp_path / "work"
        (work / "link").symlink_to(tmp_path)
        os.mkfifo(work / "fifo")
        of = {"sessionId": "SESSION", "path": path.replace("WORK", str(work))}
        answers = await told(
            session,
            ask=[["fs/read_text_file", of], ["fs/write_text_file", {**of, "content": "owned"}]],
        )
        assert [list(answer) for answer in answers] == [["error"], ["error"]]
        assert "secret" not in json.dumps(answers).replace("secret.txt", "")
    assert (tmp_path / "secret.txt").read_text() == "the secret"


async def test_terminals_without_end_and_those_of_others(tmp_path: Path) -> None:
    made = {"sessionId": "SESSION", "command": "/bin/sleep", "args": ["3600"]}
    async with puppet(tmp_path, terminals=TerminalAccess(max_terminals=4)) as session:
        of_others = [
            [f"terminal/{what}", {"sessionId": "SESSION", "terminalId": name}]
            for what in ("output", "kill", "release", "wait_for_exit")
            for name in ("0", "no-such", "../1", "")
        ]
        answers = await told(session, ask=[["terminal/create", made]] * 20 + of_others)
        assert sum("result" in answer for answer in answers) == 4


async def test_what_was_not_offered_is_not_done(tmp_path: Path) -> None:
    of = {"sessionId": "SESSION"}
    async with puppet(tmp_path) as session:
        (tmp_path / "work" / "a").write_text("a")
        path = {"path": str(tmp_path / "work" / "a")}
        ask: list[Any] = [
            ["fs/read_text_file", {**of, **path}],
            ["fs/write_text_file", {**of, **path, "content": "owned"}],
            ["terminal/create", {**of, "command": "/bin/true"}],
            [
                "elicitation/create",
                {
                    **of,
                    "mode": "url",
                    "message": "?",
                    "url": "https://a.example",
                    "elicitationId": "e",
                },
            ],
            ["session/prompt", {**of, "prompt": []}],
            ["initialize", {"protocolVersion": 1}],
        ]
        answers = await told(session, ask=ask)
        assert all("error" in answer for answer in answers), answers
        assert (tmp_path / "work" / "a").read_text() == "a"


def chunk(session: str, text: str = "x") -> Json:
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    return {"method": "session/update", "params": {"sessionId": session, "update": update}}


async def test_a_flood_of_updates_for_other_sessions(tmp_path: Path) -> None:
    async with puppet(tmp_path) as session:
        assert await told(session, tell=[{**chunk("s7"), "times": 20_000}]) == []
        assert await told(session) == []


async def test_answers_and_updates_behind_the_answer(tmp_path: Path) -> None:
    async with puppet(tmp_path) as session:
        late = [
            {"result": {"stopReason": "refusal"}},
            chunk("s1", "too late"),
            {"id": 99, "result": {}},
        ]
        assert await told(session, afterwards=late) == []
        # An update names no prompt: one that comes late may be taken for the next one's.
        assert (await session.run("{}")).text in ("[]", "too late[]")
        assert (await session.run("{}")).stop_reason == "end_turn"


async def test_a_prompt_that_never_ends_is_ended_by_closing(tmp_path: Path) -> None:
    async with puppet(tmp_path) as session:
        running = asyncio.create_task(session.run(json.dumps({"stop": None})))
        heard = anyio.Event()
        session.listen(lambda _: heard.set())
        await heard.wait()
        await session.aclose()
        with pytest.raises(CodexAcpError):
            await running


@pytest.mark.parametrize("depth", [150, 300, 50_000])
async def test_an_update_that_is_nested_very_deep(depth: int, tmp_path: Path) -> None:
    raw = '{"a":' * depth + "1" + "}" * depth
    call = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "rawInput": "RAW"}
    update = {"method": "session/update", "params": {"sessionId": "s1", "update": call}}
    text = json.dumps({"tell": [update]}).replace('"RAW"', raw)
    async with puppet(tmp_path) as session:
        with anyio.move_on_after(2):  # the agent itself may not read that
            with suppress(CodexAcpError):
                await session.run(text)
