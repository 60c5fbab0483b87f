"""A command's output: shown while it runs, whole at its end, and never more than linear in it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.mapping.call import (
    EARNED_PER_BYTE,
    FIRST_CREDIT,
    INTERVAL,
    OVERHEAD_BYTES,
    TAIL_LIMIT,
    WHOLE_LIMIT,
)
from codex_acp.mapping.running_calls import due, flush_due
from codex_acp.mapping.state import SessionState
from tests.support.notification_samples import ITEM
from tests.support.tool_call_samples import command, mcp
from tests.support.tool_calls import ZED, Folded, Json, complete, replayed, start, text_of
from tests.support.updates import NONE, step, wired

DELTA = "item/commandExecution/outputDelta"


class Running:
    """A command that runs, its updates folded as a client does, and a clock."""

    def __init__(self, client: ClientFeatures = NONE, item: Json | None = None) -> None:
        self.state = SessionState(client)
        self.item = item or command(status="inProgress")
        self.client = Folded(client)
        self.client.take(start(self.state, self.item))
        self.sent: list[Json] = []

    @property
    def text(self) -> str:
        return text_of(self.client.calls["item"])

    def take(self, updates: list[Json]) -> list[Json]:
        self.client.take(updates)
        self.sent += updates
        return updates

    def put(self, delta: str, after: float = 0.0) -> list[Json]:
        self.state.now += after
        return self.take(step(self.state, DELTA, {**ITEM, "delta": delta}))

    def wait_until_due(self) -> list[Json]:
        at = due(self.state)
        assert at is not None
        self.state.now = max(self.state.now, at)
        return self.take(wired(self.state, flush_due(self.state)))


def test_the_first_output_is_shown_at_once() -> None:
    running = Running()
    running.put("compiling\n")
    assert running.text == "```\ncompiling\n```"
    assert due(running.state) is None


def test_more_output_waits_for_its_time_and_is_then_shown_with_what_came_before() -> None:
    running = Running()
    running.put("1\n")
    assert running.put("2\n", after=0.01) == []
    assert running.put("3\n", after=0.01) == []
    assert due(running.state) == pytest.approx(INTERVAL)

    running.wait_until_due()

    assert running.text == "```\n1\n2\n3\n```"
    assert due(running.state) is None
    assert wired(running.state, flush_due(running.state)) == []


def test_output_that_comes_late_enough_does_not_wait() -> None:
    running = Running()
    running.put("1\n")
    assert running.put("2\n", after=INTERVAL) != []


def test_a_second_of_output_in_tiny_pieces_is_four_updates_or_five() -> None:
    running = Running()
    for _ in range(1000):
        running.put("line\n", after=0.001)
    assert 4 <= len(running.sent) <= 5


def test_of_long_output_the_end_is_shown_and_the_rest_is_counted() -> None:
    running = Running()
    lines = [f"line {n}\n" for n in range(20_000)]
    running.put("".join(lines))

    text = running.text
    assert len(text.encode()) <= TAIL_LIMIT + 100
    assert text.endswith("line 19999\n```")
    note, _, end = text.removeprefix("```\n").removesuffix("```").partition("\n")
    assert "".join(lines).endswith(end)
    assert end.startswith("line "), "from the beginning of a line"
    assert f"{len(''.join(lines)) - len(end):,} earlier characters not shown" in note


def test_the_end_shows_the_whole_output_and_the_exit_code() -> None:
    running = Running()
    running.put("1\n")
    running.put("2\n")
    running.client.take(complete(running.state, command(aggregatedOutput="1\n2\n", exitCode=0)))

    assert running.text == "```\n1\n2\n```\nExit code: 0"
    assert running.client.calls["item"]["rawOutput"] == {"exitCode": 0, "durationMs": 12}
    assert due(running.state) is None


def test_output_beyond_a_megabyte_is_cut_and_that_is_said() -> None:
    running = Running()
    output = "x" * (WHOLE_LIMIT + 7)
    running.client.take(complete(running.state, command(aggregatedOutput=output)))

    shown = "[… 7 earlier characters not shown]\n" + "x" * WHOLE_LIMIT
    assert running.text == f"```\n{shown}\n```\nExit code: 0"


@pytest.mark.parametrize("client", [NONE, ZED])
@pytest.mark.parametrize("size", [10, 100_000, 1_000_000])
def test_a_whole_output_is_sent_once(client: ClientFeatures, size: int) -> None:
    running = Running(client)
    line = "of some length, as a program prints them\n"
    output = line * (size // len(line))
    updates = complete(running.state, command(aggregatedOutput=output))
    assert len(json.dumps(updates)) <= 1.1 * len(output) + 1_000


def test_without_an_output_of_its_own_the_end_shows_what_was_streamed() -> None:
    running = Running()
    for part in ("1\n", "2\n", "3\n"):
        running.put(part)
    running.client.take(complete(running.state, command(aggregatedOutput=None)))

    assert running.text == "```\n1\n2\n3\n```\nExit code: 0"


def test_what_is_typed_is_marked_and_a_mere_look_is_not_shown() -> None:
    running = Running()
    running.put("Name? ")
    running.state.now = 1.0
    typed = {**ITEM, "processId": "42"}
    method = "item/commandExecution/terminalInteraction"
    assert step(running.state, method, {**typed, "stdin": ""}) == []
    running.take(step(running.state, method, {**typed, "stdin": "Eve\x1b\n"}))

    assert running.text == "```\nName? \n[typed] Eve⟦U+001B⟧\n```"


def test_output_cannot_end_the_block_that_it_stands_in() -> None:
    running = Running()
    running.put("```\n# not ours\n````\n")
    assert running.text.startswith("`````\n")
    assert running.text.endswith("\n`````")


def test_output_of_a_command_that_is_not_open_is_dropped() -> None:
    running = Running()
    complete(running.state, command())
    assert running.put("late\n") == []
    assert step(running.state, DELTA, {**ITEM, "itemId": "never", "delta": "x"}) == []


# Zed's convention.


def test_a_client_of_zeds_convention_gets_each_piece_once_and_a_terminal() -> None:
    running = Running(ZED)
    running.put("1\n")
    running.put("2\n")
    running.put("3\n")
    running.take(complete(running.state, command(aggregatedOutput="1\n2\n3\n4\n", exitCode=3)))

    assert running.client.terminals == {"item": "1\n2\n3\n4\n"}
    assert running.client.calls["item"]["content"] == [{"type": "terminal", "terminalId": "item"}]
    assert running.client.calls["item"]["rawOutput"]["exitCode"] == 3
    assert running.sent[-1]["_meta"]["terminal_exit"] == {
        "terminal_id": "item",
        "exit_code": 3,
        "signal": None,
    }
    assert due(running.state) is None


def test_a_terminal_gets_the_output_of_a_command_that_streamed_nothing() -> None:
    running = Running(ZED)
    running.take(complete(running.state, command(aggregatedOutput="all\n")))
    assert running.client.terminals == {"item": "all\n"}


def test_a_terminal_that_missed_the_beginning_gets_the_whole_output_marked_as_that() -> None:
    running = Running(ZED)
    running.put("2\n")
    running.take(complete(running.state, command(aggregatedOutput="1\n2\n")))
    shown = running.client.terminals["item"]
    assert shown == "2\n\n[Some of this was not streamed. The whole output:]\n1\n2\n"


def test_what_is_typed_does_not_make_a_terminals_output_look_incomplete() -> None:
    running = Running(ZED)
    running.put("Name? ")
    typed = {**ITEM, "processId": "42", "stdin": "Eve\n"}
    running.take(step(running.state, "item/commandExecution/terminalInteraction", typed))
    running.put("Eve\n")
    running.take(complete(running.state, command(aggregatedOutput="Name? Eve\n")))
    assert running.client.terminals["item"] == "Name? \n[typed] Eve\nEve\n"


def test_a_replayed_command_fills_the_terminal_behind_its_announcement() -> None:
    client = Folded(ZED)
    updates = replayed(SessionState(ZED), command(aggregatedOutput="all\n"))
    client.take(updates)

    assert [update["sessionUpdate"] for update in updates] == ["tool_call", "tool_call_update"]
    assert updates[0]["_meta"] == {"terminal_info": {"terminal_id": "item", "cwd": "/w"}}
    assert client.terminals == {"item": "all\n"}


# Bounds.


def size_of(update: Json) -> int:
    """Bytes of an update as it is written, newlines and quotation marks counted as one."""
    written = json.dumps(update, ensure_ascii=False).replace("\\n", "\n").replace('\\"', '"')
    return len(written.encode())


PIECES = st.lists(
    st.tuples(
        st.one_of(
            st.sampled_from(["", ".", "ok\n", "äöü€\n", "x" * 200]),
            st.integers(1, 40).map(lambda n: "line of output\n" * n * n),
        ),
        st.sampled_from([0.0, 0.01, 0.3, 5.0]),
    ),
    max_size=60,
)


@pytest.mark.slow
@settings(max_examples=40)
@given(pieces=PIECES, script=st.sampled_from(["make", "cat <<E\n" + "# here\n" * 900 + "E"]))
def test_what_is_sent_is_linear_in_the_output_also_of_a_slow_trickle(
    pieces: list[tuple[str, float]], script: str
) -> None:
    item = command(script, "inProgress")
    running = Running(item=item)
    output = ""
    for delta, after in pieces:
        running.put(delta, after)
        output += delta
        at = due(running.state)
        if at is not None and at <= running.state.now + after:
            running.wait_until_due()
    live = sum(size_of(update) for update in running.sent)
    size = len(output.encode())
    assert live <= FIRST_CREDIT + EARNED_PER_BYTE * size
    if output:
        assert running.sent, "the first output is shown"

    end = complete(running.state, command(script, aggregatedOutput=output))
    assert size_of(end[0]) <= 2 * (2 * size) + 4 * len(script.encode()) + 2048


@pytest.mark.parametrize("trickle", ["x", "a line of the log, as slow as it comes\n"])
def test_a_trickle_of_hours_is_shown_to_its_last_part(trickle: str) -> None:
    running = Running()
    for _ in range(1_500):
        running.put(trickle, after=1.0)
    sent = sum(size_of(update) for update in running.sent)

    assert sent <= FIRST_CREDIT + EARNED_PER_BYTE * 1_500 * len(trickle)
    last = running.sent[-1]["content"][0]["content"]["text"]
    behind = (1_500 * len(trickle)) - _shown_to(last)
    assert behind <= OVERHEAD_BYTES + 2048 * 2


@pytest.mark.slow
def test_3_8_output_that_grows_when_it_is_made_visible_stays_bounded() -> None:
    running = Running()
    pieces, written_out = 100, len("\u27e6U+001B\u27e7".encode())
    for _ in range(pieces):
        running.put("\x1b" * 10_000, after=1.0)
    sent = sum(size_of(update) for update in running.sent)
    assert sent <= FIRST_CREDIT + (EARNED_PER_BYTE + 1) * pieces * 10_000 + written_out * TAIL_LIMIT
    end = complete(running.state, command(aggregatedOutput="\x1b" * 1_000_000))
    assert "\x1b" not in end[0]["content"][0]["content"]["text"]
    assert len(end[0]["content"][0]["content"]["text"].encode()) < WHOLE_LIMIT + 200


def _shown_to(text: str) -> int:
    """How many characters of the output are shown or counted as cut."""
    inner = text.removeprefix("```\n").removesuffix("```").removesuffix("\n")
    if not inner.startswith("[…"):
        return len(inner)
    note, _, end = inner.partition("\n")
    return int(note.split()[1].replace(",", "")) + len(end)


def test_memory_is_bounded_however_the_output_comes() -> None:
    running = Running()
    output = running.state.open_calls["item"].output
    for piece in ("x", "y" * 100_000):
        for _ in range(5_000 if piece == "x" else 60):
            running.put(piece)
        assert len(output._pieces) <= 1025
        assert sum(map(len, output._pieces)) <= 2 * WHOLE_LIMIT + 100_000


# The progress of an MCP call goes the same way.


def progress(message: str) -> tuple[str, dict[str, Any]]:
    return "item/mcpToolCall/progress", {**ITEM, "message": message}


def test_progress_is_shown_below_the_arguments_and_makes_way_for_the_result() -> None:
    running = Running(item=mcp("inProgress"))
    running.take(step(running.state, *progress("half\u202e way")))
    assert running.text.endswith("half⟦U+202E⟧ way\n```")
    assert '"name": "n1"' in running.text

    assert step(running.state, *progress("done")) == []
    running.wait_until_due()
    assert running.text.endswith("half⟦U+202E⟧ way\ndone\n```")

    result = {"content": [{"type": "text", "text": "A note."}]}
    running.client.take(complete(running.state, mcp(result=result)))
    assert "half" not in running.text
    assert running.text.endswith("A note.\n```")


def test_progress_without_end_stays_bounded() -> None:
    running = Running(item=mcp("inProgress", arguments={"text": "a" * 50_000}))
    for n in range(600):
        running.state.now += 1.0
        running.take(step(running.state, *progress(f"step {n}")))
    sent = sum(size_of(update) for update in running.sent)
    assert sent <= FIRST_CREDIT + EARNED_PER_BYTE * 600 * len("step 599\n")
    assert running.sent
