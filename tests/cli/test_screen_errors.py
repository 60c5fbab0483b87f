"""An error is one sentence and the next step."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import pytest

from codex_acp.acp.types import AgentAuthMethod
from codex_acp.adapter.sessions.opening_errors import busy_elsewhere, unknown_session
from codex_acp.cli.screen import (
    DETAIL_LIMIT,
    LOOK_AT_ITS_LOG,
    MESSAGE_LIMIT,
    MOST_VALUES,
    JsonOutput,
    TextOutput,
    describe_error,
)
from codex_acp.errors import ErrorReply, ProcessExited
from codex_acp.routing.display import shortened
from codex_acp.runtime import AuthenticationRequired

OLD = "Codex 0.80.0 is too old; update it"


@pytest.mark.parametrize(
    ("message", "data", "said"),
    [
        (OLD, None, OLD),
        (OLD, {}, OLD),
        (OLD, {"message": OLD, "code": -32603}, OLD),
        (OLD, "too old", OLD),
        (OLD, {"reason": "agentLost"}, OLD),
        ("Internal error", {"details": "a holiday"}, "Internal error: a holiday"),
        ("Internal error", "Internal error: a holiday", "Internal error: a holiday"),
        ("Internal error", {"odd": 1}, 'Internal error: {"odd": 1}'),
        ("fast is none: slow, slower", {"at": "fast", "valid": ["slow", "slower"]}, None),
        (
            "fast is none",
            {"at": "fast", "valid": ["slow"]},
            'fast is none: {"at": "fast", "valid": ["slow"]}',
        ),
        (
            "the limit of 15 is reached",
            {"retryAfter": 5},
            'the limit of 15 is reached: {"retryAfter": 5}',
        ),
        ("", None, "an error without words"),
    ],
)
def test_what_the_data_says_again_is_not_said_again(
    message: str, data: Any, said: str | None
) -> None:
    said = message if said is None else said
    error = ErrorReply("session/new", -32603, message, data)
    assert describe_error(error, "codex", ours=True) == said
    unsaid = "" if data else LOOK_AT_ITS_LOG
    assert describe_error(error, "fox") == f"fox: {said}{unsaid}"


@pytest.mark.attack("agent")
@pytest.mark.parametrize(
    ("message", "data"),
    [
        (" ".join(map(str, range(MOST_VALUES + 1))), list(range(MOST_VALUES + 1))),
        ("a, then " + "b" * MESSAGE_LIMIT, ["a", "b" * MESSAGE_LIMIT]),
    ],
)
def test_only_few_values_are_looked_for_in_a_short_message(message: str, data: Any) -> None:
    error = ErrorReply("session/prompt", -32603, message, data)
    shown = shortened(json.dumps(data), DETAIL_LIMIT)
    assert describe_error(error, "codex", ours=True) == f"{message}: {shown}"


def test_what_our_agent_says_of_a_setting_has_its_data_for_programs() -> None:
    error = ErrorReply("session/set_config_option", -32602, "no 'x'; use a", {"valid": ["b"]})
    assert describe_error(error, "codex", ours=True) == "no 'x'; use a"
    assert describe_error(error, "fox") == 'fox: no \'x\'; use a: {"valid": ["b"]}'


def test_a_person_at_a_terminal_is_told_what_can_be_done_there() -> None:
    for made, said in (
        (
            unknown_session("s", {"message": "no rollout"}),
            "there is no session 's'; `codex-acp-sdk chat --list` names those of a directory",
        ),
        (
            busy_elsewhere("s", 7, "zed"),
            (
                "something runs in the session 's' in zed (process 7); wait for its end, cancel "
                "it there"
            ),
        ),
    ):
        error = ErrorReply("session/load", made.code, made.message, made.data)
        assert describe_error(error, "codex", ours=True) == said


def test_who_is_not_logged_in_is_told_the_command() -> None:
    reply = ErrorReply("session/new", -32000, "log in")
    error = AuthenticationRequired(reply, [AgentAuthMethod(id="k", name="A key")])
    assert "run `codex-acp-sdk login`" in describe_error(error, "codex", ours=True)
    assert describe_error(error, "fox") == (
        "fox needs a login first: log in with its own command (it offers: A key)"
    )


def test_other_errors_say_it_themselves() -> None:
    assert describe_error(ProcessExited("fox", 7, ""), "fox") == "fox exited with status 7"
    killed = "fox was killed (SIGKILL), as the system does when memory runs out"
    said = describe_error(ProcessExited("fox", -9, "out"), "fox")
    assert said == f"{killed}; the end of its stderr:\nout"
    assert describe_error(ProcessExited("fox", -11, ""), "fox") == "fox crashed (SIGSEGV)"
    assert describe_error(ProcessExited("fox", -15, ""), "fox") == "fox was ended by SIGTERM"
    assert describe_error(ProcessExited("fox", -99, ""), "fox") == "fox was ended by signal 99"
    assert describe_error(ProcessExited("fox", None, ""), "fox") == "fox ended"


@pytest.mark.attack("agent")
def test_the_line_of_an_error_is_json_whatever_number_the_agent_adds() -> None:
    out = io.StringIO()
    JsonOutput(out).write_error(ErrorReply("session/new", -32603, "x", {"n": [math.inf, 1.5]}))

    def refuse(constant: str) -> None:
        pytest.fail(constant)

    line = json.loads(out.getvalue(), parse_constant=refuse)
    assert line["error"]["data"] == {"n": [None, 1.5]}


@pytest.mark.attack("agent")
def test_spaces_at_the_end_of_a_line_cost_no_more_than_their_length() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    TextOutput(io.StringIO(), err := Terminal()).write_error(f"it broke{' ' * 1_000_000}\nhere")
    assert err.getvalue().splitlines()[1:] == ["here"]
