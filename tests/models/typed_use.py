"""What mypy and pyright must see of generated classes: checked by both, and run by nobody.

An ``assert_type`` that does not hold is an error, and so is an ignored error that is not there.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import assert_never, assert_type

import anyio

from codex_acp import codex
from codex_acp.acp._generated.v1.models import SessionUpdate, TextContentBlock
from codex_acp.codex import sync, types
from codex_acp.codex._generated import models
from codex_acp.wire.model import UnknownVariant


class Louder(types.WarningNotification):
    """A subclass has the fields of its base."""

    volume: int = 1


def models_are_typed() -> None:
    turn = models.Turn(id="t", items=[], status="completed")
    assert_type(turn, types.Turn)
    assert_type(turn.id, str)
    assert_type(turn.duration_ms, int | None)
    assert_type(Louder(message="m", volume=2).message, str)
    assert_type(models.Turn.model_validate({}), models.Turn)
    TextContentBlock()  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    TextContentBlock(text=3)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    models.Nothing  # type: ignore[attr-defined] # pyright: ignore  # noqa: B018


def unions_are_told_apart(item: types.ThreadItem, update: SessionUpdate) -> str:
    if isinstance(item, types.AgentMessageThreadItem):
        assert_type(item.text, str)
    match update.session_update:
        case "agent_message_chunk":
            return "said"
        case _:
            pass
    if isinstance(item, UnknownVariant):
        assert_type(item, UnknownVariant)
    return ""


def every_item_has_a_type(event: types.ItemStartedEvent) -> str:
    return event.params.item.type


def events_are_told_apart(event: types.WarningEvent | types.UnknownNotification) -> str:
    match event:
        case types.WarningEvent(params, method):
            assert_type(params, types.WarningNotification)
            return method
        case types.UnknownNotification(method=name, problem=problem):
            assert_type(name, str)
            assert_type(problem, str | None)
            return name
        case _:
            assert_never(event)


def events_are_made_of_their_params(params: types.WarningNotification) -> None:
    event = types.WarningEvent(params)
    assert_type(event.params, types.WarningNotification)
    types.WarningEvent(3)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    event.params = params  # type: ignore[misc] # pyright: ignore[reportAttributeAccessIssue]


async def an_answer_is_of_the_type_that_was_asked_for(
    thread: codex.Thread, waiting: sync.Thread
) -> None:
    assert_type(await thread.run("a"), codex.RunResult[None])
    assert_type(await thread.run("a", output_type=Louder), codex.RunResult[Louder])
    assert_type(thread.turn("a", model="b"), codex.Turn[None])
    assert_type(thread.turn("a", output_type=Louder), codex.Turn[Louder])
    assert_type(waiting.run("a", silent_after=1), codex.RunResult[None])
    assert_type(waiting.run("a", output_type=Louder).output, Louder)
    assert_type(waiting.turn("a"), sync.Turn[None])
    assert_type(waiting.turn("a", output_type=Louder), sync.Turn[Louder])
    async with anyio.create_task_group() as group:
        group.start_soon(thread.run, "a")
    ThreadPoolExecutor().submit(waiting.run, "a")
