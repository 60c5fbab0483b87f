"""3.8, 3.4, 4.1: what the person sees is what runs, and every approval can be refused."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codex_acp.codex._generated.notifications import ServerNotification
from codex_acp.codex.approvals.actions import (
    comparable_looks,
    named_paths,
    place_of,
    refreshed,
)
from codex_acp.codex.approvals.classify import ApprovalRequest, CommandApproval, classify
from codex_acp.codex.approvals.grants import (
    NotGranted,
    Once,
    RememberHost,
    Session,
    accepting_reply,
    digest_of,
)
from codex_acp.codex.approvals.real_paths import not_looked_at
from codex_acp.codex.approvals.running_items import PathLook
from codex_acp.mapping.events import PermissionQuestion, tool_call_id
from codex_acp.mapping.v1.updates import permission_request
from codex_acp.routing.approvals import UNKNOWN_COMMAND, choices, identity_of
from codex_acp.routing.changes import Looks
from codex_acp.routing.display import is_plain, visible
from codex_acp.routing.ledger import Key, Ledger, LedgerEntry
from codex_acp.routing.records import approval_requested
from codex_acp.wire.codec import encode
from tests.support.path_looks import behind, nothing, there
from tests.support.path_looks import texts as looks_of
from tests.support.routing_samples import (
    approval_of,
    approval_route,
    change,
    command,
    command_item,
    file_change,
    file_item,
    item_completed,
    item_started,
    mcp_item,
    options,
    permissions,
    questions,
    request,
    running,
    thread_started,
    tool_approval,
    turn_completed,
    turn_started,
)
from tests.support.updates import wire

TRICK = "a\u202eb\x1b[31mc\u200bd\re"
SHOWN = "a⟦U+202E⟧b⟦U+001B⟧[31mc⟦U+200B⟧d⟦U+000D⟧e"
QUESTION = {"id": "mcp_tool_call_approval", "options": options("Allow", "Cancel")}


def patch_request(path: str, content: str = "text") -> Any:
    return request("applyPatchApproval", fileChanges={path: {"type": "add", "content": content}})


def sent(
    asked: Any, *items: dict[str, Any], looks: Looks | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The permission request's tool call and the announcement, as they go over the wire."""
    routed = approval_route(asked, running(*items), looks=looks)
    asked_for = permission_request(PermissionQuestion("s", routed.shown, ()))
    return json.loads(encode(asked_for.tool_call)), wire(routed.announcement)[0]


def texts(call: dict[str, Any]) -> list[str]:
    """Every text of a tool call that a person reads, but not the diffs and not rawInput."""
    content = [c["content"]["text"] for c in call.get("content", ()) if c["type"] == "content"]
    return [call["title"], *content]


EVERY: list[tuple[str, Any, list[dict[str, Any]]]] = [
    ("command", command(), []),
    ("stdin", command(kind="writeStdin", approvalId="s"), [command_item()]),
    ("file change", file_change(), [file_item()]),
    ("permissions", permissions(), []),
    ("tool", tool_approval(), [mcp_item()]),
    ("question", questions(QUESTION), [mcp_item()]),
    ("old command", request("execCommandApproval"), []),
    ("old patch", request("applyPatchApproval"), []),
]
each = pytest.mark.parametrize(
    ("asked", "items"), [row[1:] for row in EVERY], ids=[row[0] for row in EVERY]
)


tricks = pytest.mark.parametrize(
    ("asked", "items"),
    [
        (command(command=TRICK, cwd=TRICK, reason=TRICK), []),
        (command(additionalPermissions={"fileSystem": {"write": [TRICK]}}), []),
        (command(networkApprovalContext={"host": TRICK, "protocol": "https"}), []),
        (command(proposedExecpolicyAmendment=[TRICK]), []),
        (command(kind="writeStdin", approvalId="s"), [command_item(TRICK)]),
        (file_change(grantRoot=TRICK), [file_item(change(TRICK, TRICK, "update"))]),
        (file_change(), [file_item(change("a", "t", "update", move_path=TRICK))]),
        (file_change(), [file_item(change(TRICK, TRICK), change(f"{TRICK}2", TRICK, "delete"))]),
        (permissions(permissions={"fileSystem": {"read": [TRICK], "write": [TRICK]}}), []),
        (
            permissions(
                permissions={
                    "fileSystem": {
                        "entries": [
                            {"path": {"type": "path", "path": TRICK}, "access": "write"},
                            {"path": {"type": "glob_pattern", "pattern": TRICK}, "access": TRICK},
                            {"path": {"type": TRICK}, "access": "deny"},
                        ]
                    }
                }
            ),
            [],
        ),
        (
            tool_approval({TRICK: TRICK}, serverName=TRICK, message=TRICK),
            [mcp_item(arguments={TRICK: TRICK}, server=TRICK, tool=TRICK)],
        ),
        (questions({**QUESTION, "question": TRICK}), [mcp_item(server=TRICK, tool=TRICK)]),
        (request("execCommandApproval", command=[TRICK, "b"], cwd=TRICK, reason=TRICK), []),
        (patch_request(TRICK, TRICK), []),
    ],
)
"""Requests that are hostile wherever they can be."""


WRITTEN_TO: dict[str, tuple[list[ServerNotification], str | None]] = {
    "runs": ([item_started(command_item("psql prod"))], "psql prod"),
    "runs since an earlier turn": (
        [item_started(command_item("psql prod")), turn_completed(), turn_started(turn="next")],
        "psql prod",
    ),
    "runs without a text": ([item_started(command_item(""))], ""),
    "has ended": (
        [item_started(command_item("psql prod")), item_completed(command_item("psql prod"))],
        None,
    ),
    "shares its id": (
        [item_started(command_item("psql prod")), item_started(command_item("cat"))],
        None,
    ),
    "shares its id with one that has ended": (
        [
            item_started(command_item("psql prod")),
            item_started(command_item("cat")),
            item_completed(command_item("cat")),
            item_started(command_item("cat")),
        ],
        None,
    ),
    "shares its id with one of an earlier turn": (
        [
            item_started(command_item("psql prod")),
            turn_completed(),
            turn_started(turn="next"),
            item_started(command_item("cat"), turn="next"),
            item_completed(command_item("cat"), turn="next"),
            item_started(command_item("cat"), turn="next"),
        ],
        None,
    ),
    "is no command": ([item_started(mcp_item())], None),
}


@pytest.mark.attack("model")
@pytest.mark.parametrize(("told", "named"), WRITTEN_TO.values(), ids=WRITTEN_TO)
def test_3_8_an_input_is_shown_with_the_command_that_gets_it(
    told: list[ServerNotification], named: str | None
) -> None:
    items = running()
    for each_told in told:
        items.apply(each_told)
    turn = items.running_turn("root")
    asked = command(kind="writeStdin", approvalId="s", command="drop table users;", turnId=turn)
    routed = approval_route(asked, items)
    call = json.loads(
        encode(permission_request(PermissionQuestion("s", routed.shown, ())).tool_call)
    )

    assert call["rawInput"]["runningCommand"] == named
    assert call["rawInput"]["command"] == "drop table users;"
    entry = Ledger().open(Key(1, "int", 0), routed, 1)
    assert isinstance(entry, LedgerEntry)
    _, recorded = approval_requested(entry).subject
    assert recorded == f"written to {UNKNOWN_COMMAND if named is None else named}"
    if named is None:
        assert call["title"].startswith("Write to a running command that is not known any more: ")
    elif not named:
        assert call["title"] == "Write to `(no command given)`: drop table users;"
    else:
        assert call["title"] == "Write to `psql prod`: drop table users;"
        assert any("psql prod" in text for text in texts(call)[1:])
    assert "cat" not in call["title"]


@pytest.mark.attack("model")
def test_3_2_an_input_is_not_allowed_for_a_command_that_has_ended() -> None:
    items = running(command_item("psql prod"))
    asked = classify(command(kind="writeStdin", approvalId="s"), items)
    assert isinstance(asked, CommandApproval)
    shown = digest_of(asked)
    other = classify(asked.request, running(command_item("cat")))
    assert isinstance(other, CommandApproval)
    assert digest_of(other) != shown
    still = refreshed(asked, items)
    assert not isinstance(
        accepting_reply(Once(), (Once(),), shown, still, running=True), NotGranted
    )
    items.apply(item_completed(command_item("psql prod")))
    gone = refreshed(asked, items)
    assert isinstance(accepting_reply(Once(), (Once(),), shown, gone, running=True), NotGranted)


@tricks
def test_3_8_nothing_invisible_reaches_the_person(asked: Any, items: list[dict[str, Any]]) -> None:
    routed = approval_route(asked, running(*items))
    names = [c.option.name for c in choices(routed.offered, routed.approval, "p1")]
    seen = "".join([*names, *texts(sent(asked, *items)[0]), *texts(sent(asked, *items)[1])])
    assert all(is_plain(line) for line in seen.split("\n"))
    assert "U+202E" in seen


@tricks
def test_3_8_what_raw_input_has_unseen_stands_visibly_beside_it(
    asked: Any, items: list[dict[str, Any]]
) -> None:
    """Raw input is data, as it came: a client need not show it, and shows all the same."""
    question, announced = sent(asked, *items)
    routed = approval_route(asked, running(*items))
    names = [c.option.name for c in choices(routed.offered, routed.approval, "p1")]
    seen = "".join([*names, *texts(question), *texts(announced)])
    hidden = [leaf for leaf in leaves(question["rawInput"]) if not is_plain(leaf, multiline=True)]
    assert hidden
    for leaf in hidden:
        as_json = json.dumps(leaf, ensure_ascii=False)[1:-1]
        assert visible(leaf) in seen or visible(as_json) in seen, leaf


def leaves(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [leaf for key, each in value.items() for leaf in (key, *leaves(each))]
    if isinstance(value, list):
        return [leaf for each in value for leaf in leaves(each)]
    return [value] if isinstance(value, str) else []


def test_3_8_a_hidden_character_in_a_new_files_text_is_written_out_beside_its_diff() -> None:
    _, announced = sent(file_change(), file_item(change("/w/a", "x = 1 \u202e# ok\n")))
    diff, text = announced["content"]
    assert diff == {
        "type": "diff",
        "path": "/w/a",
        "newText": "x = 1 \u202e# ok\n",
        "oldText": None,
    }
    assert text["content"]["text"].endswith("/w/a\n```\nx = 1 ⟦U+202E⟧# ok\n```")


@pytest.mark.parametrize("text", ["a\n", "a\r\nb\r\n", "\tindented\n", ""])
def test_3_8_a_plain_new_file_is_shown_once(text: str) -> None:
    _, announced = sent(file_change(), file_item(change("/w/a", text)))
    assert [content["type"] for content in announced["content"]] == ["diff"]


def test_3_8_a_command_stands_whole_in_title_content_and_raw_input() -> None:
    run = "cd /w && rm -rf 'a b'\n\ttrue"
    shown, announced = sent(command(command=run, cwd="/w", reason="to clean up"))
    assert shown["title"] == "Run: `cd /w && rm -rf 'a b'⏎⇥true`"
    assert shown["kind"] == "execute"
    assert shown["rawInput"]["command"] == run
    assert shown["rawInput"]["reason"] == "to clean up"
    assert texts(shown)[1:] == [
        f"```sh\n{run}\n```",
        "In /w",
        "Reason given:\n```\n> to clean up\n```",
    ]
    assert announced["content"] == shown["content"]


def test_3_8_a_megabyte_of_command_is_cut_with_a_word_about_it_and_in_bounded_time() -> None:
    run = "echo " + "\u202e" * 1_000_000
    began = time.monotonic()
    shown, _ = sent(command(command=run))
    assert time.monotonic() - began < 5
    assert len(shown["title"]) < 4_100
    title_cut = shown["title"].rsplit("… [", 1)[1]
    assert "characters not shown]" in title_cut
    first = texts(shown)[1]
    assert len(first) < 1_000_100
    assert first.endswith("characters not shown]\n```")
    assert shown["rawInput"]["command"] == run


def test_3_8_an_old_commands_words_are_told_apart() -> None:
    one, _ = sent(request("execCommandApproval", command=["rm", "a b", "$(x)"]))
    other, _ = sent(request("execCommandApproval", command=["rm", "a", "b", "$(x)"]))
    assert one["title"] == "Run: `rm 'a b' '$(x)'`"
    assert other["title"] != one["title"]


def test_3_8_more_permissions_of_a_command_are_shown() -> None:
    shown, _ = sent(command(additionalPermissions={"fileSystem": {"write": ["/etc"]}}))
    assert any("With more permissions" in text and '"/etc"' in text for text in texts(shown))


def test_3_8_a_network_question_names_the_host_and_still_shows_the_command() -> None:
    asked = command(networkApprovalContext={"host": "example.com", "protocol": "https"})
    shown, _ = sent(asked)
    assert (shown["title"], shown["kind"]) == ("Connect to `https://example.com`", "fetch")
    assert "```sh\nls -l\n```" in texts(shown)


def test_3_8_a_file_change_shows_all_files_with_their_diffs_and_the_question_erases_none() -> None:
    item = file_item(
        change("/w/new", "n\n"),
        change("/w/old", "o\n", "delete"),
        change("/w/edit", "@@ -1 +1 @@\n-a\n+b\n", "update"),
        change("/w/from", "", "update", move_path="/etc/to"),
    )
    shown, announced = sent(file_change(), item)
    assert "content" not in shown
    assert shown["title"] == (
        "Change 4 files: /w/new (new), /w/old (deleted), /w/edit, /w/from moved to /etc/to"
    )
    assert [place["path"] for place in shown["locations"]] == [
        "/w/new",
        "/w/old",
        "/w/edit",
        "/w/from",
        "/etc/to",
    ]
    new, old, edit, moved = announced["content"]
    assert (new["path"], new["oldText"], new["newText"]) == ("/w/new", None, "n\n")
    assert (old["path"], old["oldText"], old["newText"]) == ("/w/old", "o\n", "")
    assert (edit["path"], edit["oldText"], edit["newText"]) == ("/w/edit", "a\n", "b\n")
    assert moved["content"]["text"].startswith("/w/from\nmoved to /etc/to\n")
    assert [c["path"] for c in shown["rawInput"]["changes"]] == [
        p["path"] for p in shown["locations"][:4]
    ]


def test_3_8_a_root_that_is_opened_with_a_file_change_is_named() -> None:
    shown, _ = sent(file_change(grantRoot="/etc"), file_item())
    assert shown["title"] == "Create /w/a, and from now on write below /etc"
    assert shown["rawInput"]["grantRoot"] == "/etc"


def test_3_8_every_permission_is_named_in_the_title() -> None:
    entries = [
        {"path": {"type": "path", "path": "/out"}, "access": "write"},
        {"path": {"type": "path", "path": "/"}, "access": "write"},
        {"path": {"type": "glob_pattern", "pattern": "/x/**"}, "access": "read"},
        {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"},
    ]
    files = {"read": ["/in"], "write": ["/out"], "entries": entries}
    for enabled, name in ((True, "network"), (False, "no network"), (None, "network as listed")):
        asked = permissions(permissions={"network": {"enabled": enabled}, "fileSystem": files})
        shown, _ = sent(asked)
        assert f"permissions: {name}" in shown["title"]
        assert "read /in, write /out, write `/`, read all that matches `/x/**`, " in shown["title"]
        assert '"kind": "root"' in shown["title"]
    nothing, _ = sent(permissions(permissions={}))
    assert nothing["title"] == "Give the turn permissions: none named"


def test_3_8_a_tool_call_is_shown_from_the_item_and_the_servers_words_as_its_words() -> None:
    meta = {"tool_title": "Harmless", "tool_description": "Just reads"}
    asked = tool_approval({"a": 1}, message="Run: ls\nIt is safe", meta=meta)
    shown, _ = sent(asked, mcp_item(arguments={"a": 1}))
    assert shown["title"] == "notes: call write"
    assert shown["rawInput"] == {
        "server": "notes",
        "tool": "write",
        "arguments": {"a": 1},
        'The MCP server "notes" says': "Run: ls\nIt is safe",
    }
    assert texts(shown)[1:] == [
        'Arguments:\n```json\n{\n  "a": 1\n}\n```',
        'The MCP server "notes" says:\n```\n> Run: ls\n> It is safe\n```',
    ]
    assert "Harmless" not in json.dumps(shown)


def test_3_9_a_sub_agent_is_named_even_behind_a_long_command() -> None:
    items = running()
    items.apply(thread_started("child", parent="root"))
    items.apply(turn_started("child", "u"))
    asked = command(command="x" * 10_000, threadId="child", turnId="u")
    title = approval_route(asked, items).shown.title
    assert title is not None
    assert title.endswith("characters not shown]` (asked by sub-agent child)")


# --- options -------------------------------------------------------------------------------------


@each
def test_3_4_every_approval_can_be_allowed_and_rejected(
    asked: Any, items: list[dict[str, Any]]
) -> None:
    routed = approval_route(asked, running(*items))
    listed = choices(routed.offered, routed.approval, "p7")
    kinds = [choice.option.kind for choice in listed]
    assert "allow_once" in kinds
    (reject,) = [choice for choice in listed if choice.option.kind == "reject_once"]
    assert reject.grant is None
    ids = [choice.option.option_id for choice in listed]
    assert len(set(ids)) == len(ids)
    assert all(option.startswith("p7:") for option in ids)
    names = [choice.option.name for choice in listed]
    assert len(set(names)) == len(names)


def test_3_4_the_first_option_that_rejects_is_the_plain_one() -> None:
    hosts = [{"host": "h", "action": action} for action in ("deny", "allow")]
    asked = command(
        networkApprovalContext={"host": "h", "protocol": "https"},
        proposedNetworkPolicyAmendments=hosts,
    )
    routed = approval_route(asked, running())
    listed = choices(routed.offered, routed.approval, "p1")
    assert [c.option.kind for c in listed] == [
        "allow_once",
        "allow_always",
        "allow_always",
        "reject_once",
        "reject_always",
    ]
    assert listed[-1].grant == RememberHost("h", "deny")
    assert (
        listed[-1].option.name
        == "Reject always, in every directory and later session: every connection to h"
    )


@pytest.mark.parametrize(
    ("asked", "items", "reach"),
    [
        (tool_approval(meta={"persist": "session"}), [mcp_item()], "every call of notes/write"),
        (command(), [], "this same command in this directory"),
        (file_change(), [file_item()], "any change at these paths, their deletion too"),
        (permissions(), [], "these permissions, for every command and edit until the session ends"),
        (command(networkApprovalContext={"host": "h", "protocol": "http"}), [], "connections to h"),
    ],
)
def test_2_6_an_option_says_its_real_reach(
    asked: Any, items: list[dict[str, Any]], reach: str
) -> None:
    routed = approval_route(asked, running(*items))
    names = {c.grant: c.option.name for c in choices(routed.offered, routed.approval, "p1")}
    assert names[Once()] == "Allow once"
    assert reach in names[Session()]


def test_3_6_an_amendment_is_shown_in_full() -> None:
    prefix = ["git", "a b", 'c"d', "x" * 5_000]
    routed = approval_route(command(proposedExecpolicyAmendment=prefix), running())
    name = choices(routed.offered, routed.approval, "p1")[2].option.name
    assert name.endswith('`"git" "a b" "c\\"d" "' + "x" * 5_000 + '"`')


# --- announcements -------------------------------------------------------------------------------


@each
def test_4_1_the_announcement_is_the_pending_tool_call_the_question_refers_to(
    asked: Any, items: list[dict[str, Any]]
) -> None:
    shown, announced = sent(asked, *items)
    assert announced["sessionUpdate"] == "tool_call"
    for name in ("toolCallId", "title", "kind", "status", "rawInput"):
        assert announced[name] == shown[name]
    assert shown["status"] == "pending"
    assert announced.get("locations") == shown.get("locations")
    assert announced["content"]


@each
def test_3_1_the_tool_is_named(asked: Any, items: list[dict[str, Any]]) -> None:
    approval: ApprovalRequest = approval_of(asked, *items)
    tool = identity_of(approval)
    kinds = {"shell": "shell", "file_change": "file change", "permissions": "permissions"}
    assert tool.name == kinds.get(tool.kind, "notes/write")
    assert place_of(approval).item_id == "item"


def test_4_1_a_sub_command_and_a_sub_agent_have_tool_calls_of_their_own() -> None:
    assert place_of(approval_of(command(approvalId="sub")))[2:] == ("item", "sub")
    assert place_of(approval_of(command(approvalId="item")))[2:] == ("item", None)
    old = approval_of(request("execCommandApproval", approvalId="s"))
    assert place_of(old) == ("root", None, "item", "s")


PIECES = st.sampled_from(
    ["i", ":", "%", "%3A", "codex-acp:", "agent", "part", "item", "agent-part"]
)
NAMES = st.lists(PIECES, max_size=5).map("".join)
PLACES = st.tuples(NAMES, st.none() | NAMES, st.none() | NAMES)


@pytest.mark.attack("model")
@settings(max_examples=500)
@given(one=PLACES, other=PLACES)
def test_3_9b_no_two_places_have_one_id(
    one: tuple[str, str | None, str | None], other: tuple[str, str | None, str | None]
) -> None:
    assert (tool_call_id(*one) == tool_call_id(*other)) == (one == other)


@given(st.text().filter(lambda text: not text.startswith("codex-acp:")))
def test_3_9b_an_ordinary_id_is_the_items_own(item_id: str) -> None:
    assert tool_call_id(item_id) == item_id


# Where paths really lead.


def linked(*paths: str) -> dict[str, PathLook]:
    """Links to a place of the same name below ``/out``."""
    return {path: behind(path, f"/out{path}") for path in paths}


def test_3_8_every_path_that_permissions_name_is_shown_where_it_leads() -> None:
    special = {"kind": "project_roots", "subpath": "sub"}
    entries = [
        {"path": {"type": "path", "path": "/x"}, "access": "write"},
        {"path": {"type": "glob_pattern", "pattern": "/g/a*/b"}, "access": "read"},
        {"path": {"type": "special", "value": special}, "access": "write"},
    ]
    files = {"read": ["/r"], "write": ["/x", "/plain"], "entries": entries}
    asked = permissions(permissions={"fileSystem": files}, cwd="/w")
    looks = linked("/r", "/x", "/g", "/w/sub") | {"/plain": nothing("/plain")}
    assert set(named_paths(approval_of(asked))) == set(looks)
    shown, _ = sent(asked, looks=looks)
    for part in ("read /r (really /out/r)", "write /x (really /out/x)", "(really /out/g)"):
        assert part in shown["title"]
    assert "(really /out/w/sub)" in shown["title"]
    assert shown["title"].endswith("write /plain"), "what leads elsewhere stands first"
    assert shown["rawInput"]["realPaths"] == {p: f"/out{p}" for p in ("/r", "/x", "/g", "/w/sub")}
    assert any("/x: really /out/x" in text for text in texts(shown))


def test_3_8_a_root_that_is_opened_and_a_commands_directories_are_shown_where_they_lead() -> None:
    shown, _ = sent(file_change(grantRoot="/r"), file_item(), looks=linked("/r"))
    assert shown["title"].endswith("write below /r (really /out/r)")
    more = {"fileSystem": {"write": ["/x"]}}
    asked = command(cwd="/w", command="ls", additionalPermissions=more)
    assert named_paths(approval_of(asked)) == ["/w", "/x"]
    shown, _ = sent(asked, looks=linked("/w", "/x"))
    there = "in /w (really /out/w), with permissions for /x (really /out/x)"
    assert shown["title"] == f"Run: `ls`, {there}"
    assert "In /w (really /out/w)" in texts(shown)
    assert "/x: really /out/x" in texts(shown)
    shown, _ = sent(request("execCommandApproval", cwd="/w"), looks=linked("/w"))
    assert "in /w (really /out/w)" in shown["title"]


def test_3_8_a_patch_of_the_first_protocol_shows_where_its_files_lead_and_what_is_lost() -> None:
    moved = {"type": "update", "unified_diff": "", "move_path": "/w/b"}
    changes = {
        "/w/a": moved,
        "/w/new": {"type": "add", "content": "x"},
        "/w/old": {"type": "delete", "content": "x"},
        "/w/odd": {"type": "fold"},
    }
    asked = request("applyPatchApproval", fileChanges=changes, grantRoot="/r")
    paths = ["/w/a", "/w/b", "/w/new", "/w/old", "/w/odd", "/r"]
    assert sorted(named_paths(approval_of(asked))) == sorted(paths)
    looks = {path: there(path, "x") for path in paths} | linked("/w/old", "/r")
    shown, _ = sent(asked, looks=looks)
    assert shown["title"] == (
        "Change 4 files: /w/a moved to /w/b, replacing it, /w/new (replaced), "
        "/w/old (deleted; really /out/w/old), /w/odd, "
        "and from now on write below /r (really /out/r)"
    )
    assert shown["rawInput"]["replaces"] == ["/w/new", "/w/b"]


def test_3_8_in_a_question_a_file_with_the_same_text_is_replaced_all_the_same() -> None:
    same = {"/w/a": there("/w/a", "text")}
    shown, announced = sent(file_change(), file_item(change("/w/a", "text")), looks=same)
    assert shown["title"] == "Replace /w/a"
    assert announced["content"][0]["oldText"] == "text"


def test_3_8_a_long_list_of_files_is_counted_and_says_that_it_is_cut() -> None:
    changes = [change(f"/w/{n}{'x' * 100}", "@@ -1 +1 @@\n-a\n+b\n", "update") for n in range(99)]
    shown, _ = sent(file_change(), file_item(*changes), looks=linked(changes[98]["path"]))
    assert shown["title"].startswith(f"Edit 99 files: {changes[98]['path']} (really /out/w/98")
    assert shown["title"].endswith(" more")


@pytest.mark.parametrize(
    ("asked", "items", "before", "after", "same"),
    [
        (file_change(), [file_item()], linked("/w/a"), {"/w/a": nothing("/w/a")}, False),
        (file_change(), [file_item()], linked("/w/a"), linked("/w/a"), True),
        (file_change(), [file_item()], linked("/w/a"), {}, False),
        (file_change(), [file_item()], {"/w/a": nothing("/w/a")}, looks_of({"/w/a": "x"}), False),
        (file_change(), [file_item()], not_looked_at(["/w/a"]), linked("/w/a"), True),
        (file_change(), [file_item()], {"/w/a": PathLook(problem="?")}, linked("/w/a"), False),
        (permissions(), [], {"/out": nothing("/out")}, looks_of({"/out": "x"}), True),
        (command(), [], linked("/w"), {"/w": nothing("/w")}, False),
    ],
    ids=[
        "a link that leads elsewhere", "the same link", "a disk that is gone",
        "a file that has come to be", "what was not looked at in time",
        "a circle that leads somewhere by now", "a directory that was made", "a working directory",
    ],
)  # fmt: skip
def test_3_2_where_paths_lead_must_be_what_was_shown(
    asked: Any, items: list[dict[str, Any]], before: Looks, after: Looks, same: bool
) -> None:
    approval = approval_of(asked, *items)
    shown = digest_of(approval, before)
    reply = accepting_reply(
        Once(), (Once(),), shown, approval, comparable_looks(before, after), running=True
    )
    assert isinstance(reply, NotGranted) is not same
