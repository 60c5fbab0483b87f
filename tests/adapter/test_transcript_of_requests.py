"""What the adapter records of a request: the ids of both protocols (contract 3.1, 5.1)."""

from __future__ import annotations

import pytest

from codex_acp.transcript.events import Entry, RequestRef
from tests.support.approval_world import KINDS, World, settle


@pytest.mark.parametrize("kind", KINDS)
async def test_5_1_each_event_names_the_request_of_codex_and_the_one_to_the_client(
    kind: str,
) -> None:
    entries: list[Entry] = []
    async with World() as world:
        world.transcript.subscribe(entries.append)
        world.begin("turn")
        for _ in range(2):
            first = world.ask("command")
        asked = world.ask(kind)
        await settle()
        world.collect()
        world.end_turn()
        await settle()
        for one in (first, asked):
            assert one.dialog is not None
            refs = [entry.event.ref for entry in entries]
            mine = [
                ref
                for ref in refs
                if isinstance(ref, RequestRef) and ref.codex_request_id == one.codex_id
            ]
            assert len(mine) == 2
            assert {ref.acp_request_id for ref in mine} == {one.dialog["id"]}
