"""What a model may say: the prompt ends, the person sees it, and the next prompt works."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest

from codex_acp.testing import (
    CustomToolCall,
    Disconnect,
    Step,
    Text,
    ToolCall,
    apply_patch,
    exec_command,
    update_plan,
)
from tests.attacks.attacked import Attacked

pytestmark = [pytest.mark.e2e, pytest.mark.attack("model")]

MEGABYTE = 1_000_000

STEP: tuple[str, Literal["pending"]] = ("step", "pending")


def nested(depth: int) -> dict[str, object]:
    value: dict[str, Any] = {"end": 1}
    for _ in range(depth):
        value = {"a": [value]}
    return value


CALL_IDS = {
    "empty": "",
    "very long": "c" * 100_000,
    "a path": "../../../etc/passwd",
    "with line ends": "a\n\r\u2028b",
    "with an escape sequence": "\x1b[2J\x1b]0;owned\x07",
    "with a NUL": "a\x00b",
    "the name of a prototype": "__proto__",
    "with a lone surrogate": "a\ud800b",
    "that looks like a number": "0",
    "bidirectional": "\u202eabc\u2066",
}

SAYS: dict[str, list[Step]] = {
    "a command of a megabyte": [exec_command("true " + "x" * MEGABYTE)],
    "an escalated command of a megabyte": [
        exec_command("true " + "x" * MEGABYTE, justification="y" * MEGABYTE)
    ],
    "three hundred calls in one response": [update_plan(STEP, call_id=f"c{n}") for n in range(300)],
    "a plan of five thousand steps": [update_plan(*[STEP] * 5000)],
    "arguments nested a hundred deep": [ToolCall("exec_command", nested(50))],
    "a patch that is no patch": [apply_patch("*** Begin Patch\n" + "\x1b[31m\n" * 5000)],
    "a patch of a file outside": [
        apply_patch("*** Begin Patch\n*** Add File: ../../../tmp/x\n+y\n*** End Patch\n")
    ],
    "tools that are not there": [
        ToolCall("__proto__", {}),
        ToolCall("x" * 10_000, {}, namespace="mcp__none"),
        ToolCall("\x1b[2J", {}, namespace="\u202e"),
        CustomToolCall("exec_command", "\x00"),
    ],
    "escape sequences": [Text("\x1b[2J\x1b[H\x1b]0;owned\x07\x1bP", "\x9b31m\x00\x08")],
    "a single delta of two megabytes": [Text("x" * (2 * MEGABYTE))],
    "five thousand deltas": [Text(*["ab"] * 5000)],
    "half an item, and the line is cut": [Text("And then"), Disconnect()],
    "half a surrogate in each delta": [Text("\ud83d", "\ude00", "\ud800")],
}


ASKS: dict[str, list[Step]] = {
    f"call id {name}": [
        exec_command("touch made", justification="May I?", call_id=call_id),
        update_plan(STEP, call_id=call_id + "2"),
    ]
    for name, call_id in CALL_IDS.items()
}


@pytest.fixture(scope="module")
def shared() -> Iterator[Attacked]:
    with Attacked({**SAYS, **ASKS}) as attacked:
        yield attacked


@pytest.fixture
def attacked(shared: Attacked) -> Iterator[Attacked]:
    """The shared one; after each attack a usual prompt works."""
    yield shared
    shared.works()


@pytest.mark.parametrize("says", SAYS)
def test_a_model_that_sends(says: str, attacked: Attacked) -> None:
    attacked.prompt(says)


@pytest.mark.parametrize("call_id", CALL_IDS)
def test_a_model_whose_call_id_is(call_id: str, attacked: Attacked) -> None:
    attacked.prompt(f"call id {call_id}")
    assert not (attacked.home.workspace / "made").exists()
