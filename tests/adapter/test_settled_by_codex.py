"""Codex settles a request itself, at whatever moment: nobody can approve it any more."""

from __future__ import annotations

import json

import pytest

from tests.support.approval_world import KINDS, THREAD, World, accepts, settle


@pytest.mark.parametrize("kind", KINDS)
async def test_3_2_what_codex_settled_in_the_same_read_is_never_asked(kind: str) -> None:
    async with World() as world:
        world.begin("turn")
        await settle()
        asked = world.ask(kind, send=False)
        resolved = {"threadId": THREAD, "requestId": asked.codex_id}
        lines = [asked.sent, {"method": "serverRequest/resolved", "params": resolved}]
        world.codex.link.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        await settle()
        world.collect()
        assert asked.dialog is None
        (reply,) = asked.replies
        assert not accepts(reply)


@pytest.mark.parametrize("kind", KINDS)
async def test_3_2_what_codex_settled_while_it_was_asked_is_withdrawn(kind: str) -> None:
    async with World() as world:
        world.begin("turn")
        asked = world.ask(kind)
        await settle()
        world.notify("serverRequest/resolved", {"threadId": THREAD, "requestId": asked.codex_id})
        await settle()
        cancelled = [m for m in world.client.received if m.get("method") == "$/cancel_request"]
        world.collect()
        assert asked.dialog is not None
        assert [m["params"]["requestId"] for m in cancelled] == [asked.dialog["id"]]
        (reply,) = asked.replies
        assert not accepts(reply)


async def test_3_6_an_unknown_decision_is_left_out_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with World() as world:
        world.begin("turn")
        asked = world.ask("command", send=False)
        asked.sent["params"]["availableDecisions"] = ["accept", "acceptOnSundays", "cancel"]
        world.codex.send(asked.sent)
        await settle()
        world.collect()
        assert asked.dialog is not None
        kinds = [option["kind"] for option in asked.dialog["params"]["options"]]
        assert kinds == ["allow_once", "reject_once"]
        assert "acceptOnSundays" in caplog.text
