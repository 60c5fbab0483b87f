"""Parked approvals: answered later, from anywhere, once, and only while they are open."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest

from codex_acp.codex import Always, ParkedApproval, ParkedApprovals, allow_commands
from codex_acp.codex.threads.options import mention, skill
from codex_acp.errors import MisuseError
from codex_acp.testing import turn_completed
from tests.codex.policy_bench import DECLINED, PolicyBench, ask_command

ACCEPTED = {"decision": "accept"}


async def first(parked: ParkedApprovals) -> ParkedApproval:
    with anyio.fail_after(60):
        return await parked.next()


async def test_one_is_answered_later_by_its_id_from_another_thread() -> None:
    parked = ParkedApprovals()
    async with PolicyBench(parked, ask_command()) as bench:
        approval = await first(parked)
        assert approval.question.arguments["command"] == "touch made"
        assert parked.waiting == (approval,)
        found = parked.get(approval.id)
        assert found is approval

        assert await asyncio.to_thread(found.allow)

        assert await bench.answer() == ACCEPTED
    assert parked.get(approval.id) is None
    assert not parked.waiting


async def test_one_that_is_denied_does_not_run_and_nobody_is_told_of_a_refusal() -> None:
    parked = ParkedApprovals()
    async with PolicyBench(parked, ask_command()) as bench:
        assert (await first(parked)).deny("not now")
        assert await bench.answer() == DECLINED
        assert not bench.refused


async def test_the_first_of_two_answers_counts() -> None:
    parked = ParkedApprovals()
    async with PolicyBench(parked, ask_command()) as bench:
        approval = await first(parked)
        assert approval.deny()
        assert not approval.allow()
        assert await bench.answer() == DECLINED


async def test_of_many_threads_that_answer_at_once_one_is_told_that_it_counted() -> None:
    parked = ParkedApprovals()
    async with PolicyBench(parked, ask_command()) as bench:
        approval = await first(parked)
        answers = await asyncio.gather(*(asyncio.to_thread(approval.allow) for _ in range(20)))
        assert sum(answers) == 1
        assert await bench.answer() == ACCEPTED


async def test_a_late_answer_settles_nothing_and_says_so() -> None:
    parked = ParkedApprovals()
    async with PolicyBench(parked, ask_command()) as bench:
        approval = await first(parked)
        bench.server.play(*turn_completed())
        assert await bench.answer() == DECLINED
        assert not approval.is_open
        assert not approval.allow()
    assert "over" in repr(approval)


async def test_what_is_not_offered_cannot_be_allowed_and_the_question_stays() -> None:
    parked = ParkedApprovals()
    async with PolicyBench(parked, ask_command()) as bench:
        approval = await first(parked)
        with pytest.raises(MisuseError, match="Always"):
            approval.allow(Always())
        assert approval.is_open
        assert approval.deny()
        assert await bench.answer() == DECLINED


async def test_it_is_asked_where_another_policy_has_no_opinion() -> None:
    parked = ParkedApprovals()
    policy = allow_commands(["npm test"]) | parked
    asked = [ask_command("npm test", itemId="a"), ask_command(itemId="b")]
    async with PolicyBench(policy, *asked) as bench:
        approval = await first(parked)
        assert approval.question.item_id == "b"
        assert approval.allow()
        assert await bench.answers(2) == [ACCEPTED, ACCEPTED]


def test_a_skill_is_named_by_its_directory_or_its_file(tmp_path: Path) -> None:
    file = tmp_path / "release" / "SKILL.md"
    file.parent.mkdir()
    file.write_text("---\nname: release\n---\n")

    assert skill(file.parent) == skill(file)
    made = skill(file, name="other").model_dump()
    assert made == {"type": "skill", "name": "other", "path": str(file)}
    with pytest.raises(MisuseError, match=r"no skill .*SKILL\.md"):
        skill(tmp_path)


def test_a_mention_is_an_app_or_a_plugin() -> None:
    made = mention("app://notes", name="Notes").model_dump()
    assert made == {"type": "mention", "name": "Notes", "path": "app://notes"}
    with pytest.raises(MisuseError, match="write the paths of files as text"):
        mention("src/a.py", name="a.py")
