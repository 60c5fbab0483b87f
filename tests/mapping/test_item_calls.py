"""What the tool call of each type of item says, for a client without any capability."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from codex_acp.errors import InvalidPayload
from codex_acp.mapping.item_calls import script_of
from codex_acp.mapping.prompt import DATA_LIMIT
from codex_acp.mapping.state import SessionState
from tests.mapping.test_unknown_values import variants
from tests.support.path_looks import texts
from tests.support.tool_call_samples import FILES, PNG, SAMPLES, ItemSample, command, mcp
from tests.support.tool_calls import Json, complete, replayed, start, text_of

RLO = "\u202e"


def shown(item: Json) -> Json:
    (call,) = replayed(SessionState(looks=texts(FILES)), item)
    return call


def blocks(call: Json) -> list[Json]:
    return [part["content"] for part in call["content"] if part["type"] == "content"]


# Commands.


@pytest.mark.parametrize(
    ("command_line", "script"),
    [
        ("/bin/bash -lc 'make test'", "make test"),
        ("bash -c make", "make"),
        ("/usr/bin/zsh -lc \"echo 'hi'\"", "echo 'hi'"),
        ("""/bin/sh -c 'echo '"'"'hi'"'"' there'""", "echo 'hi' there"),
        ("bash -lc 'a' 'b'", "bash -lc 'a' 'b'"),
        ("bash -lc 'open", "bash -lc 'open"),
        ("bash -lc ''", "bash -lc ''"),
        ("python -c 'print()'", "python -c 'print()'"),
        ("make test", "make test"),
        ("", ""),
        ("bash -lc '" + "x;" * 500_000 + "'", "x;" * 500_000),
        ('bash -lc "' + "x" * 500_000 + '"', 'bash -lc "' + "x" * 500_000 + '"'),
    ],
)
def test_a_command_is_taken_out_of_the_shell_that_codex_puts_around_it(
    command_line: str, script: str
) -> None:
    assert script_of(command_line) == script


def test_a_command_stands_whole_in_title_and_raw_input() -> None:
    call = shown(command("make test && ls"))
    assert call["title"] == "`make test && ls`"
    assert call["rawInput"]["command"] == "/bin/bash -lc 'make test && ls'"
    assert call["rawInput"]["cwd"] == "/w"


@pytest.mark.parametrize("script", ["cat <<E\nhi\nE", f"echo {RLO}x", "echo " + "y" * 5_000])
def test_a_command_that_the_title_cannot_hold_as_it_is_stands_above_its_output(script: str) -> None:
    call = shown(command(script))
    first = blocks(call)[0]["text"]
    assert first == f"```sh\n{script.replace(RLO, '⟦U+202E⟧')}\n```"
    assert RLO not in call["title"]
    assert "\n" not in call["title"]
    assert len(call["title"]) < 4_100


@pytest.mark.parametrize(
    ("actions", "kind", "title", "paths"),
    [
        ([("read", "a.py", "/w/a.py"), ("read", "b", "/w/b")], "read", "Read 2 files: a.py, b", 2),
        ([("read", f"a{RLO}", "/w/a")], "read", "Read `a⟦U+202E⟧`", 1),
        ([("listFiles", None, None)], "search", "List files", 0),
        ([("listFiles", None, "src")], "search", "List files in src", 1),
        ([("search", "x", "/w/src")], "search", "Search for x in /w/src", 1),
        ([("search", None, None)], "search", "Search", 0),
        ([("read", "a", "/w/a"), ("unknown", None, None)], "execute", "run", 1),
        ([("read", "a", "/w/a"), ("listFiles", None, None)], "execute", "run", 1),
        ([("dream", None, None)], "execute", "run", 0),
        ([], "execute", "run", 0),
    ],
)
def test_a_command_that_only_reads_or_searches_says_so(
    actions: list[tuple[str, str | None, str | None]], kind: str, title: str, paths: int
) -> None:
    listed = [
        {"type": what, "command": "c", "name": name, "query": name, "path": path}
        for what, name, path in actions
    ]
    call = shown(command("run", commandActions=listed))
    assert (call["kind"], call["title"]) == (kind, title)
    assert len(call["locations"]) == paths
    assert all(place["path"].startswith("/w") for place in call["locations"])


@pytest.mark.parametrize(
    ("status", "exit_code", "shown_status", "words"),
    [
        ("completed", 0, "completed", ["Exit code: 0"]),
        ("completed", 3, "completed", ["Exit code: 3"]),
        ("failed", 1, "failed", ["Exit code: 1"]),
        ("failed", None, "failed", []),
        ("declined", None, "failed", ["Declined: this was not done."]),
        ("vanished", None, "failed", ["Codex gives it the status vanished."]),
    ],
)
def test_the_end_of_a_command_is_said(
    status: str, exit_code: int | None, shown_status: str, words: list[str]
) -> None:
    call = shown(command("run", status, exitCode=exit_code, aggregatedOutput="out\n"))
    assert call["status"] == shown_status
    assert [block["text"] for block in blocks(call)] == ["```\nout\n```", *words]
    known = {} if exit_code is None else {"exitCode": exit_code}
    assert call["rawOutput"] == {**known, "durationMs": 12}


def test_of_a_command_that_never_ran_there_is_no_raw_output() -> None:
    call = shown(command("run", "declined", exitCode=None, durationMs=None, aggregatedOutput=None))
    assert "rawOutput" not in call


# Tools.


def test_3_8_the_blocks_of_an_mcp_result_are_shown_one_by_one_and_its_words_as_code() -> None:
    result: list[Json] = [
        {"type": "text", "text": "A", "annotations": {"audience": ["user"]}, "_meta": {"k": 1}},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "note://1", "name": "1", "title": "One"},
        {"type": "resource_link", "uri": "https://x@a.b/)", "name": "1", "title": "![](http://c)"},
        {"type": "resource_link", "uri": "file:///w/a", "name": "a", "_meta": {"k": 1}},
        {"type": "resource", "resource": {"uri": "note://1", "text": "B", "mimeType": "text/x"}},
        {"type": "resource", "resource": {"uri": "note://1", "blob": "AAAA"}},
    ]
    call = shown(mcp(result={"content": result}))
    assert blocks(call)[1:] == [
        {"type": "text", "text": "```\nA\n```"},
        result[1],
        result[2],
        {"type": "text", "text": "Resource:\n```\nOne\nnote://1\n```"},
        {"type": "resource_link", "uri": "https://x@a.b/%29", "name": "`![](http://c)` (a.b)"},
        {"type": "resource_link", "uri": "file:///w/a", "name": "a"},
        {"type": "text", "text": "`note://1`\n```\nB\n```"},
        result[-1],
    ]
    assert "content" not in call.get("rawOutput", {}), "they stand in one place"


@pytest.mark.parametrize("block", [{"type": "hologram"}, {"type": "image"}, "text", 7, None, []])
def test_a_block_that_acp_does_not_have_is_shown_as_json(block: Any) -> None:
    call = shown(mcp(result={"content": [block]}))
    assert blocks(call)[-1]["text"].startswith("```json\n")


def test_a_structured_result_without_blocks_is_shown() -> None:
    call = shown(mcp(result={"content": [], "structuredContent": {"n": 7}}))
    assert '"n": 7' in text_of(call)
    assert call["rawOutput"]["structuredContent"] == {"n": 7}


def test_huge_data_is_named_and_not_sent_and_never_sent_twice() -> None:
    huge = {"type": "image", "data": "A" * (DATA_LIMIT + 1), "mimeType": "image/png"}
    large = {"type": "image", "data": "A" * 5_000, "mimeType": "image/png"}
    call = shown(mcp(result={"content": [huge, large]}))
    assert (
        blocks(call)[1]["text"] == f"[image of {DATA_LIMIT + 1:,} characters of base64 not shown]"
    )
    assert blocks(call)[2]["data"] == large["data"]
    assert json.dumps(call).count(large["data"]) == 1


def test_an_mcp_call_names_server_tool_and_arguments_and_its_error() -> None:
    error = {"message": f"no {RLO}note"}
    call = shown(mcp("failed", server=f"no{RLO}tes", error=error, arguments={"a": RLO}))
    assert (call["title"], call["status"]) == ("`no⟦U+202E⟧tes`: `read_note`", "failed")
    assert '"a": "⟦U+202E⟧"' in text_of(call)
    assert text_of(call).endswith("Error:\n```\nno ⟦U+202E⟧note\n```")
    assert call["rawInput"]["arguments"] == {"a": RLO}


@pytest.mark.parametrize("hint", [True, False, None])
def test_a_tool_that_only_reads_is_of_the_kind_read(hint: bool | None) -> None:
    assert shown(mcp(readOnlyHint=hint))["kind"] == ("read" if hint else "other")


@pytest.mark.parametrize("arguments", [None, {}])
def test_no_arguments_are_not_shown(arguments: Any) -> None:
    assert shown(mcp(arguments=arguments))["content"] == []


def test_a_dynamic_tool_that_was_without_success_has_failed() -> None:
    item = {"type": "dynamicToolCall", "id": "item", "tool": "t", "arguments": {}}
    call = shown({**item, "status": "completed", "success": False})
    assert call["status"] == "failed"


def test_the_output_of_a_function_is_shown_part_by_part() -> None:
    output = [
        {"type": "input_text", "text": "A"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
        {"type": "input_image", "image_url": "https://a.example/i.png"},
        {"type": "input_image", "file_id": "file-1"},
        {"type": "input_audio", "audio_url": "data:audio/wav;base64,AAAA"},
        {"type": "encrypted_content", "encrypted_content": "x" * 40},
        {"type": "input_smell", "smell": "of roses"},
    ]
    item = {"type": "functionCallOutput", "id": "item", "name": "f", "output": output}
    kinds = [block["type"] for block in blocks(shown(item))]
    assert kinds == ["text", "image", "resource_link", "text", "audio", "text", "text"]
    assert "of roses" in text_of(shown(item))
    assert "x" * 40 not in text_of(shown(item))


# Searches, images, sub-agents.


@pytest.mark.parametrize(
    ("query", "action", "title", "kind"),
    [
        ("acp", None, "Search the web: acp", "search"),
        ("", None, "Search the web", "search"),
        ("", {"type": "search", "query": "a"}, "Search the web: a", "search"),
        ("", {"type": "search", "queries": ["a", "b"]}, "Search the web: a, b", "search"),
        ("q", {"type": "search"}, "Search the web: q", "search"),
        ("q", {"type": "other"}, "Search the web: q", "search"),
        ("q", {"type": "divine"}, "Search the web: q", "search"),
        ("", {"type": "openPage", "url": "https://a/"}, "Open `https://a/`", "fetch"),
        ("", {"type": "openPage"}, "Open a page", "fetch"),
        (
            "",
            {"type": "findInPage", "url": "https://a/", "pattern": f"x{RLO}"},
            "Find `x⟦U+202E⟧` in `https://a/`",
            "fetch",
        ),
        ("", {"type": "findInPage"}, "Find in the page", "fetch"),
    ],
)
def test_a_search_says_what_it_searches(
    query: str, action: Json | None, title: str, kind: str
) -> None:
    call = shown({"type": "webSearch", "id": "item", "query": query, "action": action})
    assert (call["title"], call["kind"]) == (title, kind)


@pytest.mark.parametrize("result", [{"url": "https://a/"}, {"url": "https://a/", "title": 7}])
def test_a_result_without_a_title_is_linked_by_its_address(result: Json) -> None:
    call = shown({"type": "webSearch", "id": "item", "query": "q", "results": [result]})
    assert blocks(call) == [{"type": "resource_link", "name": "`https://a/`", "uri": "https://a/"}]


@pytest.mark.parametrize(
    ("more", "status", "kinds"),
    [
        ({"status": "completed", "result": PNG}, "completed", ["image"]),
        ({"status": "generating", "result": PNG}, "completed", ["image"]),
        ({"status": "x", "result": "", "savedPath": "/w/i.png"}, "completed", ["resource_link"]),
        ({"status": "completed", "result": "file-1"}, "completed", ["text"]),
        ({"status": "in_progress", "result": ""}, "failed", ["text"]),
        ({"status": "failed", "result": ""}, "failed", []),
        ({"status": "completed", "result": "", "failure": {"type": "storm"}}, "failed", ["text"]),
        ({"status": "completed", "result": "iVBOR" + "A" * DATA_LIMIT}, "completed", ["text"]),
        ({"status": "completed", "result": "no image " * 99}, "completed", ["text"]),
    ],
)  # fmt: skip
def test_an_image_is_shown_or_why_there_is_none(more: Json, status: str, kinds: list[str]) -> None:
    call = shown({"type": "imageGeneration", "id": "item", **more})
    assert call["status"] == status
    assert [block["type"] for block in blocks(call)] == kinds
    assert len(text_of(call)) < 500


def test_every_tool_for_sub_agents_is_told_in_words() -> None:
    item = {"type": "collabAgentToolCall", "id": "item", "senderThreadId": "root"}
    fields = {"receiverThreadIds": ["a"], "agentsStates": {}, "status": "completed"}
    titles = {
        tool: shown({**item, **fields, "tool": tool})["title"]
        for tool in ("spawnAgent", "wait", "sendMessage", "listAgents", "summon")
    }
    assert titles == {
        "spawnAgent": "Start a sub-agent",
        "wait": "Wait for a sub-agent",
        "sendMessage": "Send a message to a sub-agent",
        "listAgents": "List the sub-agents",
        "summon": "Sub-agents: summon",
    }


# A newer Codex.


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: f"{s.completed['type']} {s.case}")
def test_any_value_may_be_one_that_this_schema_does_not_know(sample: ItemSample) -> None:
    read = 0
    for item in variants(sample.completed):
        if not isinstance(item.get("id"), str):
            continue
        state = SessionState(looks=texts(FILES))
        try:
            started = start(state, copy.deepcopy(item))
            ended = complete(state, copy.deepcopy(item))
        except InvalidPayload:
            continue  # what cannot be read reaches no row
        read += 1
        if started:  # else it became an item that is no tool call
            assert (started[0]["sessionUpdate"], started[0]["status"]) == (
                "tool_call",
                "in_progress",
            )
            assert ended[-1]["status"] in ("completed", "failed")
    assert read


@pytest.mark.parametrize(
    ("item", "status"),
    [
        ({"type": "telepathy", "id": "t"}, "completed"),
        ({"type": "telepathy", "id": "t", "status": "failed"}, "failed"),
        ({"type": "telepathy", "id": "t", "status": {"deep": 1}}, "completed"),
        ({"type": "telepathy", "id": 7}, "completed"),
        ({"type": "telepathy"}, "completed"),
    ],
)
def test_an_item_of_an_unknown_type_is_shown_whole(item: Json, status: str) -> None:
    call = shown(item)
    assert (call["title"], call["kind"], call["status"]) == ("telepathy", "other", status)
    assert call["rawInput"] == item
