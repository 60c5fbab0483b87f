"""The player of an app-server script, without any IO."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.errors import MisuseError
from codex_acp.testing import (
    AppServerPlayer,
    AppServerScript,
    AskClient,
    AwaitAnswer,
    CloseOutput,
    Entry,
    Exit,
    Expect,
    ExpectNotification,
    Notify,
    Output,
    Pause,
    RawLine,
    Send,
    Silence,
    StderrText,
    agent_message,
    command_approval,
    file_change_approval,
    request_resolved,
    turn_completed,
    turn_started,
)


def sent(outputs: list[Output]) -> list[Any]:
    return [output.message for output in outputs if isinstance(output, Send)]


def request(method: str, request_id: int | str = 1, **params: object) -> dict[str, object]:
    return {"id": request_id, "method": method, "params": params}


def started(*entries: Entry) -> AppServerPlayer:
    player = AppServerPlayer(entries)
    assert player.start() == []
    return player


def test_an_expected_request_gets_its_answer_and_what_follows() -> None:
    player = started(Expect("a", result={"x": 1}), Notify("n", {"y": 2}), Expect("b"))
    assert sent(player.feed(request("a", "q"))) == [
        {"id": "q", "result": {"x": 1}},
        {"method": "n", "params": {"y": 2}},
    ]
    assert not player.finished
    assert sent(player.feed(request("b"))) == [{"id": 1, "result": {}}]
    assert player.finished


def test_an_error_is_the_answer_if_the_script_says_so() -> None:
    player = started(Expect("a", error={"code": -32600, "message": "no"}))
    assert sent(player.feed(request("a")))[0]["error"]["code"] == -32600


def test_a_silent_request_is_recorded_and_not_answered() -> None:
    player = started(Expect("a", silent=True))
    assert player.feed(request("a")) == []
    assert player.finished
    assert player.received == [request("a")]


def test_initialize_is_answered_by_default() -> None:
    assert "userAgent" in sent(started().feed(request("initialize")))[0]["result"]


def test_defaults_answer_the_usual_requests() -> None:
    player = AppServerPlayer(AppServerScript(defaults=True))
    (thread,) = sent(player.feed(request("thread/start", cwd="/w")))
    assert thread["result"]["thread"]["cwd"] == "/w"
    first, second = (sent(player.feed(request("turn/start", n)))[0] for n in (1, 2))
    assert first["result"]["turn"]["id"] != second["result"]["turn"]["id"]


def test_without_defaults_what_is_not_expected_gets_an_error() -> None:
    player = started()
    assert sent(player.feed(request("thread/start")))[0]["error"]["code"] == -32601
    assert player.unexpected == [request("thread/start")]
    assert player.feed({"method": "note"}) == []


def test_a_request_of_a_later_entry_waits_for_it() -> None:
    player = started(Expect("a", result={"n": "a"}), Expect("b", result={"n": "b"}))
    assert player.feed(request("b", 1)) == []
    assert [m["id"] for m in sent(player.feed(request("a", 2)))] == [2, 1]


def test_a_request_beyond_those_expected_does_not_wait() -> None:
    player = started(Expect("gate"), Expect("a"))
    assert player.feed(request("a", 1)) == []
    assert "error" in sent(player.feed(request("a", 2)))[0]


def test_a_notification_can_be_expected() -> None:
    player = started(ExpectNotification("initialized"), Notify("n"))
    assert sent(player.feed({"method": "initialized"})) == [{"method": "n"}]


def test_server_requests_count_from_zero_and_their_answers_are_recorded() -> None:
    player = AppServerPlayer([AskClient("q"), AskClient("q", name="two"), AwaitAnswer("two")])
    assert [message["id"] for message in sent(player.start())] == [0, 1]
    player.feed({"id": 1, "result": {"decision": "accept"}})
    assert player.finished
    (answer,) = player.answers_to(1)
    assert (answer.name, answer.result) == ("two", {"decision": "accept"})
    assert player.answers_to(0) == []


def test_an_answer_with_an_id_of_another_type_answers_nothing() -> None:
    player = AppServerPlayer([AskClient("q"), AwaitAnswer("q")])
    player.start()
    player.feed({"id": "0", "result": {}})
    assert not player.finished
    assert player.answers_to(0) == []
    assert [answer.name for answer in player.answers_to("0")] == [None]
    player.feed({"id": 0, "result": {}})
    assert player.finished


def test_a_second_answer_is_recorded_as_one_to_nothing() -> None:
    player = AppServerPlayer([AskClient("q", id="x")])
    player.start()
    player.feed({"id": "x", "result": {}})
    player.feed({"id": "x", "result": {}})
    assert [answer.name for answer in player.answers_to("x")] == ["q", None]


def test_a_request_sent_again_with_its_id_needs_one_answer() -> None:
    player = AppServerPlayer([AskClient("q", id=4), AskClient("q", id=4), AwaitAnswer("q")])
    player.start()
    player.feed({"id": 4, "result": {}})
    assert player.finished


def test_references_keep_the_type_of_the_value() -> None:
    player = started(
        Expect("a", result={"n": "${a:list.1.n}", "text": "n is ${a:list.1.n}"}),
        AskClient("q", {"all": "${a:}"}, name="ask"),
        AwaitAnswer("ask"),
        Notify("said", {"it": "${ask:result.decision}"}),
    )
    answer, asked = sent(player.feed(request("a", list=[0, {"n": 7}])))
    assert answer["result"] == {"n": 7, "text": "n is 7"}
    assert asked["params"] == {"all": {"list": [0, {"n": 7}]}}
    (note,) = sent(player.feed({"id": 0, "result": {"decision": "cancel"}}))
    assert note["params"] == {"it": "cancel"}


@pytest.mark.parametrize("reference", ["${a:b}", "${x:y}", "${turn:id}", "${a:list.9}"])
def test_a_reference_to_what_was_not_seen_is_an_error(reference: str) -> None:
    player = started(Expect("a", result={"r": reference}))
    with pytest.raises(MisuseError, match="not seen"):
        player.feed(request("a", list=[1]))


def test_the_turn_of_a_scripted_answer_is_the_one_later_entries_speak_of() -> None:
    player = started(Expect("turn/start", result={"turn": {"id": "T"}}), *turn_completed())
    _, done = sent(player.feed(request("turn/start", threadId="th")))
    assert done["params"]["threadId"] == "th"
    assert done["params"]["turn"]["id"] == "T"


def test_after_silence_nothing_is_said_but_all_is_recorded() -> None:
    player = AppServerPlayer(AppServerScript(Silence(), Notify("n"), defaults=True))
    assert player.start() == []
    assert player.feed(request("initialize")) == []
    assert player.feed({"id": 0, "result": {}}) == []
    assert len(player.received) == 2
    assert len(player.answers) == 1


def test_a_notification_may_be_sent_many_times() -> None:
    assert len(sent(AppServerPlayer([Notify("n", times=3)]).start())) == 3


def test_entries_may_be_added_while_it_plays() -> None:
    player = started(Expect("a"))
    assert player.extend(Notify("n")) == []
    assert len(sent(player.feed(request("a")))) == 2
    assert len(sent(player.extend(Notify("n")))) == 1


ALL: list[Entry] = [
    Expect("a"),
    Expect("a", result={"x": 1}),
    Expect("a", error={"code": 1, "message": "m"}),
    Expect("a", silent=True),
    ExpectNotification("b"),
    Notify("c", {"d": 1}),
    Notify("c", times=3),
    AskClient("e", {"f": None}, id="0", name="g"),
    AskClient("e", id=0),
    AwaitAnswer("g"),
    RawLine("garbage", newline=False),
    StderrText("oops"),
    Pause(0.5),
    CloseOutput(),
    Exit(3),
    Exit(),
    Silence(),
    *turn_started(),
    *agent_message("a", "b"),
    *command_approval("touch x", reason="why", name="n"),
    *file_change_approval(),
    *request_resolved(0),
    *turn_completed("failed", error="e"),
]


def test_jsonl_gives_back_the_same_script() -> None:
    script = AppServerScript(*ALL, defaults=True, ignore_eof=True, ignore_sigterm=True)
    text = script.to_jsonl()
    assert AppServerScript.from_jsonl(f"# a comment\n\n{text}") == script
    assert AppServerScript.from_jsonl(AppServerScript(*ALL).to_jsonl()) == AppServerScript(*ALL)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "line 2 is not JSON"),
        ("3", "line 2 must be an object"),
        ('{"expct": "a"}', "line 2 must be an object with one of"),
        ('{"expect": "a", "notify": "b"}', "line 2 must"),
        ('{"expect": 3}', "line 2: 'expect'"),
        ('{"expect": "a", "reslt": {}}', "'reslt'"),
        ('{"options": {"default": true}}', "line 2: options"),
    ],
)
def test_a_mistake_in_jsonl_is_named(line: str, problem: str) -> None:
    with pytest.raises(MisuseError, match=problem):
        AppServerScript.from_jsonl(f'{{"expect": "a"}}\n{line}\n')
