"""What agents ask, answered at the driver: nothing is permitted that nobody permitted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest

from codex_acp.fleet import TaskPermission, deny_all
from codex_acp.fleet.jobs import Job
from codex_acp.fleet.ray_worker import RayWorker
from codex_acp.runtime import Form, FormAnswer, UrlAnswer, UrlRequest, allow_kinds
from tests.fleet.fleet_bench import WAIT, fleet_of, outcomes, spec, task


async def test_by_default_nothing_is_permitted(tmp_path: Path) -> None:
    found = await outcomes(fleet_of(None), task("a", tmp_path, ask="execute"))
    assert (found["a"].ok, found["a"].text) == (True, "answer n. ")
    assert (found["a"].asked, found["a"].allowed) == (1, 0)
    assert not (tmp_path / "asked").exists()


async def test_a_callback_answers_the_questions_of_every_task(tmp_path: Path) -> None:
    asked: list[tuple[str, Any]] = []

    async def decide(permission: TaskPermission) -> str | None:
        asked.append((permission.task_id, permission.tool_call.raw_input))
        await asyncio.sleep(0)
        return "y" if permission.task_id == "a" else None

    found = await outcomes(
        fleet_of(None, permissions=decide),
        *(task(name, tmp_path, ask="execute") for name in ("a", "b")),
        task("own", tmp_path, ask="read", policy=allow_kinds("read")),
        task("denied", tmp_path, ask="read", policy=deny_all),
    )
    texts = {name: outcome.text for name, outcome in found.items()}
    assert texts == {
        "a": "answer y. ",
        "b": "answer n. ",
        "own": "answer y. ",
        "denied": "answer n. ",
    }
    assert sorted(asked) == [("a", {"a": 1}), ("b", {"a": 1})]
    assert found["a"].allowed == 1


@pytest.mark.parametrize("answer", ["z", "", "Y", 3, True, RuntimeError("no"), object()])
async def test_whatever_is_no_option_is_no_consent(tmp_path: Path, answer: Any) -> None:
    def decide(_permission: object) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    found = await outcomes(fleet_of(None, permissions=decide), task("a", tmp_path, ask="execute"))
    assert found["a"].text == "answer n. "
    assert found["a"].allowed == 0
    assert not (tmp_path / "asked").exists()


async def test_a_waiting_question_holds_its_task_and_no_slot(tmp_path: Path) -> None:
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    others: list[str] = []

    async def decide(_permission: object) -> str:
        return await answer

    tasks = [task("asks", tmp_path, ask="execute")]
    tasks += [task(f"t{n}", tmp_path, say="x") for n in range(3)]
    with anyio.fail_after(WAIT):
        async with fleet_of(None, concurrency=1, permissions=decide).map(tasks) as running:
            async for outcome in running:
                others.append(outcome.id)
                if len(others) == 3:
                    answer.set_result("y")
    assert others == ["t0", "t1", "t2", "asks"]


async def test_a_question_of_a_stopped_fleet_is_answered_by_nothing(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def decide(_permission: object) -> str:
        asked.set()
        await asyncio.sleep(600)
        return "y"

    with anyio.fail_after(WAIT):
        one = task("a", tmp_path, ask="execute")
        async with fleet_of(tmp_path / "out", permissions=decide).map([one]) as running:
            await asked.wait()
            running.stop()
            assert [outcome async for outcome in running] == []
    assert not (tmp_path / "asked").exists()


async def test_forms_are_offered_only_if_somebody_answers_them(tmp_path: Path) -> None:
    forms: list[tuple[str, str]] = []

    def fill(task_id: str, form: Form) -> FormAnswer:
        forms.append((task_id, form.message))
        return {"name": "secret-answer"}

    without = await outcomes(fleet_of(None), task("a", tmp_path, form=True))
    assert without["a"].text == "form {}. "
    found = await outcomes(fleet_of(None, on_form=fill), task("a", tmp_path, form=True))
    assert '"action": "accept"' in found["a"].text
    assert forms == [("a", "?")]
    log = found["a"].transcript.decode()
    assert '"fields": ["name"]' in log
    assert "secret-answer" not in log.replace(found["a"].text.replace('"', '\\"'), "")


async def test_urls_are_offered_only_if_somebody_answers_them(tmp_path: Path) -> None:
    pages: list[tuple[str, str]] = []

    def look(task_id: str, request: UrlRequest) -> UrlAnswer:
        pages.append((task_id, request.url))
        return "accept"

    one = task("a", tmp_path, url="https://example.com/page")
    assert (await outcomes(fleet_of(None), one))["a"].text == "url {}. "
    found = await outcomes(fleet_of(None, on_url=look), one)
    assert '"action": "accept"' in found["a"].text
    assert (pages, found["a"].asked, found["a"].allowed) == (
        [("a", "https://example.com/page")],
        1,
        1,
    )


async def test_a_worker_takes_an_answer_for_the_very_question_alone(tmp_path: Path) -> None:
    worker = RayWorker(str(tmp_path / "root"), 4)
    job = Job(
        attempt_id="1", fleet_id="f", run_id="r", task_id="t", name="t", cwd=str(tmp_path),
        prompts=('{"ask": "execute"}',), agent=spec(),
    )  # fmt: skip
    await worker.begin(job)
    question_id = ""
    with anyio.fail_after(WAIT):
        while not question_id:
            messages = await worker.fetch()
            question_id = next((m.question_id for m in messages if m.kind == "question"), "")
        for other in ("", "1", question_id.upper() + "x"):
            await worker.answer(other, {"optionId": "y"})
        assert not (tmp_path / "asked").exists()
        await worker.cancel("1")
        await worker.answer(question_id, {"optionId": "y"})  # too late
        await worker.aclose([])
    assert not (tmp_path / "asked").exists()
