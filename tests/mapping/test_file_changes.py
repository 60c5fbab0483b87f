"""A file change shows one diff for each file: whole texts where that is certain, else the patch."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.codex._generated.methods import MODELS
from codex_acp.codex.approvals.running_items import PathLook
from codex_acp.mapping.events import ToolCallAnnounced
from codex_acp.mapping.item_calls import wanted_looks
from codex_acp.mapping.running_calls import announce, due, flush_due
from codex_acp.mapping.state import SessionState
from codex_acp.routing.changes import WHOLE_TEXT_LIMIT, parse_hunks
from tests.support.notification_samples import ITEM
from tests.support.path_looks import behind, nothing, texts, there
from tests.support.tool_call_samples import command, file_change
from tests.support.tool_calls import Folded, Json, complete, item_of, replayed, start, text_of
from tests.support.updates import NONE, step, wired

BEFORE = "one\ntwo\nthree\n"
AFTER = "one\nTWO\nthree\n"
PATCH = "@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n"


def change(path: str, kind: str, diff: str, move: str | None = None) -> Json:
    moved = {"move_path": move} if kind == "update" else {}
    return {"path": path, "kind": {"type": kind, **moved}, "diff": diff}


def shown(item: Json, files: dict[str, str] | None = None) -> Json:
    (call,) = replayed(SessionState(looks=texts(files or {})), item)
    return call


def hunks_of(path: str, patch: str) -> list[Json]:
    return [diff(path, "".join(h.old), "".join(h.new)) for h in parse_hunks(patch) or ()]


def diff(path: str, old: str | None, new: str) -> Json:
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


def as_text(text: str) -> Json:
    return {"type": "content", "content": {"type": "text", "text": text}}


@pytest.mark.parametrize("status", ["inProgress", "completed", "failed"])
@pytest.mark.parametrize("text", [BEFORE, AFTER])
def test_an_edit_shows_the_whole_file_whether_it_was_read_before_or_after(
    text: str, status: str
) -> None:
    call = shown(file_change(change("/w/a", "update", PATCH), status=status), {"/w/a": text})
    assert call["content"][0] == diff("/w/a", BEFORE, AFTER)


def test_a_file_that_fits_both_ways_is_taken_for_what_the_state_says() -> None:
    again = "@@ -1,2 +1,3 @@\n x\n+x\n x\n"
    files = {"/w/a": "x\nx\nx\n"}
    done = shown(file_change(change("/w/a", "update", again)), files)
    declined = shown(file_change(change("/w/a", "update", again), status="declined"), files)

    assert done["content"][0] == diff("/w/a", "x\nx\n", "x\nx\nx\n")
    assert declined["content"][0] == diff("/w/a", "x\nx\nx\n", "x\nx\nx\nx\n")


@pytest.mark.parametrize(
    "files",
    [{}, {"/w/a": "quite another\n"}, {"/w/a": "zero\n" + AFTER}, {"/w/b": BEFORE}],
    ids=["not read", "other text", "moved lines", "another file"],
)
def test_without_a_text_that_fits_each_hunk_is_a_diff_of_its_own(files: dict[str, str]) -> None:
    call = shown(file_change(change("/w/a", "update", PATCH)), files)
    assert call["content"] == hunks_of("/w/a", PATCH)


def test_a_patch_without_hunks_is_shown_as_it_is() -> None:
    call = shown(file_change(change("/w/a", "update", "not a patch\n")), {})
    assert text_of(call) == "/w/a\n```diff\nnot a patch\n```"


def test_a_hidden_character_in_a_hunk_is_written_out_beside_its_diff() -> None:
    patch = "@@ -1 +1 @@\n-a\n+b\u202e\n"
    call = shown(file_change(change("/w/a", "update", patch)), {})
    assert call["content"][0] == diff("/w/a", "a\n", "b\u202e\n")
    assert "⟦U+202E⟧" in text_of(call)


def test_a_huge_file_is_shown_by_its_patch() -> None:
    rest = "x" * WHOLE_TEXT_LIMIT
    call = shown(file_change(change("/w/a", "update", PATCH)), {"/w/a": AFTER + rest})
    assert call["content"] == hunks_of("/w/a", PATCH)


def test_added_and_deleted_files_are_shown_whole_without_reading_any() -> None:
    item = file_change(change("/w/n", "add", "new\n"), change("/w/o", "delete", "old\n"))
    assert shown(item)["content"] == [diff("/w/n", None, "new\n"), diff("/w/o", "old\n", "")]
    assert wanted_looks(item_of(item), ()) == {"/w/n": True, "/w/o": False}


@pytest.mark.parametrize("files", [{"/w/a": BEFORE}, {"/w/b": AFTER}], ids=["before", "after"])
def test_a_moved_file_is_shown_at_its_new_place(files: dict[str, str]) -> None:
    patch = f"{PATCH}\n\nMoved to: /w/b"
    call = shown(file_change(change("/w/a", "update", patch, "/w/b")), files)

    assert call["content"] == [as_text("/w/a moves to /w/b"), diff("/w/b", BEFORE, AFTER)]
    assert call["title"] == "Edit and move a to /w/b"
    assert call["locations"] == [{"path": "/w/a", "line": 2}, {"path": "/w/b", "line": 2}]
    assert call["kind"] == "edit"


@pytest.mark.attack("model")
def test_a_client_of_version_1_reads_which_file_a_move_takes_away() -> None:
    """The title may be cut, and a diff of this version has one path."""
    moved = [
        change(f"/w/{n}{'x' * 99}", "update", f"\n\nMoved to: /b/{n}", f"/b/{n}") for n in range(99)
    ]
    call = shown(file_change(*moved), {one["path"]: "text\n" for one in moved})
    assert "more" in call["title"]
    assert [part for part in call["content"] if part["type"] == "content"] == [
        as_text(f"{one['path']} moves to /b/{n}") for n, one in enumerate(moved)
    ]


def test_a_mere_move_is_a_move() -> None:
    item = file_change(change("/w/a", "update", "\n\nMoved to: /w/b", "/w/b"))
    call = shown(item, {"/w/b": "text\n"})

    assert call["kind"] == "move"
    assert call["title"] == "Move a to /w/b"
    assert call["content"] == [as_text("/w/a moves to /w/b"), diff("/w/b", "text\n", "text\n")]
    assert wanted_looks(item_of(item), ()) == {"/w/a": True, "/w/b": True}


@pytest.mark.parametrize(
    ("changes", "title", "kind"),
    [
        ([change("/w/a.py", "update", PATCH)], "Edit a.py", "edit"),
        ([change("/w/a.py", "add", "x\n")], "Create a.py", "edit"),
        ([change("/w/a.py", "delete", "x\n")], "Delete a.py", "delete"),
        (
            [change("/w/a.py", "delete", "x\n"), change("/w/b.py", "delete", "x\n")],
            "Delete 2 files: a.py, b.py",
            "delete",
        ),
        (
            [change(f"/w/{n}.py", "update", PATCH) for n in range(7)],
            "Edit 7 files: 0.py, 1.py, 2.py, 3.py, 4.py and 2 more",
            "edit",
        ),
        ([change("/w/a\u202e.py", "update", PATCH)], "Edit `a⟦U+202E⟧.py`", "edit"),
    ],
)
def test_the_title_says_what_is_done_to_which_files(
    changes: list[Json], title: str, kind: str
) -> None:
    call = shown(file_change(*changes))
    assert (call["title"], call["kind"]) == (title, kind)


def test_no_file_at_all_is_still_a_tool_call() -> None:
    item = {"type": "fileChange", "id": "item", "status": "completed", "changes": []}
    assert shown(item)["title"] == "Edit files"


def test_what_is_invisible_in_an_edit_is_written_out_beside_its_diff() -> None:
    patch = "@@ -1,1 +1,1 @@\n-a\n+a\u200b\n"
    call = shown(file_change(change("/w/a", "update", patch)), {"/w/a": "a\n"})
    assert call["content"][0] == diff("/w/a", "a\n", "a\u200b\n")
    assert "+a⟦U+200B⟧" in text_of(call)


def test_a_kind_of_change_that_nobody_knows_shows_its_text() -> None:
    call = shown(file_change({"path": "/w/a", "kind": {"type": "fold"}, "diff": "sideways"}))
    assert "sideways" in text_of(call)
    assert call["rawInput"] == {"changes": [{"path": "/w/a", "kind": "fold"}]}


def test_files_are_wanted_for_file_changes_only() -> None:
    assert wanted_looks(item_of(command()), ()) == {}
    assert wanted_looks(item_of(file_change()), ()) == {"/w/a.py": True}


# While the model still writes the patch.


class Written:
    """A file change that started and is being written."""

    def __init__(self) -> None:
        self.state = SessionState()
        self.client = Folded(NONE)
        self.client.take(start(self.state, file_change(status="inProgress")))

    def patch(self, *changes: Json) -> list[Json]:
        params: dict[str, Any] = {**ITEM, "changes": list(changes)}
        updates = step(self.state, "item/fileChange/patchUpdated", params)
        self.client.take(updates)
        return updates


def test_a_patch_that_grows_replaces_diffs_and_locations_and_nothing_else() -> None:
    written = Written()
    (update,) = written.patch(change("/w/n", "add", "x\n"))
    assert sorted(update) == ["content", "locations", "sessionUpdate", "toolCallId"]
    assert update["content"] == [diff("/w/n", None, "x\n")]
    assert update["locations"] == [{"path": "/w/n", "line": 1}]


def test_a_patch_that_grows_fast_is_shown_four_times_a_second() -> None:
    written = Written()
    sent = []
    text = ""
    for _ in range(1000):
        written.state.now += 0.001
        text += "line\n"
        sent += written.patch(change("/w/n", "add", text))
    assert 4 <= len(sent) <= 5

    at = due(written.state)
    assert at is not None
    written.state.now = at
    written.client.take(wired(written.state, flush_due(written.state)))
    assert written.client.calls["item"]["content"] == [diff("/w/n", None, text)]


def test_4_1_before_a_question_refers_to_it_the_latest_diffs_are_sent() -> None:
    written = Written()
    written.patch(change("/w/n", "add", "x\n"))
    assert written.patch(change("/w/n", "add", "x\ny\n")) == []

    asked = ToolCallAnnounced(id="item", title="Change /w/n", status="pending")
    update, pending = wired(written.state, announce(written.state, asked))
    assert pending["status"] == "pending"
    assert update["sessionUpdate"] == "tool_call_update"
    assert update["content"] == [diff("/w/n", None, "x\ny\n")]
    assert announce(written.state, asked) == ()


def test_a_patch_of_a_file_change_that_has_ended_is_dropped() -> None:
    written = Written()
    complete(written.state, file_change())
    assert written.patch(change("/w/n", "add", "x\n")) == []


# Files that are replaced, and files behind links.


def replacing(look: PathLook, status: str = "inProgress") -> Json:
    item = file_change(change("/w/a", "add", "new\n"), status=status)
    (call,) = replayed(SessionState(looks={"/w/a": look}), item)
    return call


def test_an_addition_over_a_file_is_its_replacement_with_the_old_text() -> None:
    call = replacing(there("/w/a", "old\n"))
    assert call["title"] == "Replace a"
    assert call["content"][0] == diff("/w/a", "old\n", "new\n")
    assert call["rawInput"]["changes"] == [{"path": "/w/a", "kind": "add", "replaces": "/w/a"}]


@pytest.mark.parametrize(
    "look",
    [there("/w/a", unread="it is too large"), there("/w/a", "x" * (WHOLE_TEXT_LIMIT + 1))],
    ids=["not read", "too long to show"],
)
def test_that_the_old_text_is_not_shown_is_said(look: PathLook) -> None:
    call = replacing(look)
    assert call["title"] == "Replace a (its old text is not shown: it is too large)"
    assert call["content"][0] == diff("/w/a", "", "new\n"), "null would say that it is new"
    assert text_of(call).startswith("/w/a is replaced: its old text is not shown: it is too large")


@pytest.mark.parametrize(
    ("look", "title"),
    [
        (nothing("/w/a"), "Create a"),
        (there("/w/a", "new\n"), "Write a"),
        (PathLook(problem="its links lead in a circle"), "Write a (its links lead in a circle)"),
    ],
)
def test_a_file_that_may_just_have_been_written_is_neither_new_nor_replaced(
    look: PathLook, title: str
) -> None:
    assert replacing(look)["title"] == title
    assert replacing(look)["content"][0] == diff("/w/a", None, "new\n")


def test_what_was_replaced_is_told_as_it_was_before_also_when_it_is_done() -> None:
    state, client = SessionState(looks={"/w/a": there("/w/a", "old\n")}), Folded(NONE)
    item = change("/w/a", "add", "new\n")
    client.take(start(state, file_change(item, status="inProgress")))
    state.looks = texts({"/w/a": "new\n"})
    client.take(complete(state, file_change(item)))

    call = client.calls["item"]
    assert (call["title"], call["content"]) == ("Replace a", [diff("/w/a", "old\n", "new\n")])


def moving(source: PathLook, target: PathLook, patch: str = PATCH) -> Json:
    item = file_change(change("/w/a", "update", f"{patch}\n\nMoved to: /w/b", "/w/b"))
    (call,) = replayed(SessionState(looks={"/w/a": source, "/w/b": target}), item)
    return call


def test_a_move_onto_a_file_shows_what_is_lost_of_both() -> None:
    call = moving(there("/w/a", BEFORE), there("/w/b", "precious\n"))
    assert call["title"] == "Edit and move a to /w/b, replacing it"
    assert call["content"] == [diff("/w/b", "precious\n", AFTER), diff("/w/a", BEFORE, "")]


def test_a_move_whose_source_was_not_read_still_shows_what_is_replaced() -> None:
    call = moving(there("/w/a", unread="it is too large"), there("/w/b", "precious\n"))
    assert "/w/b is replaced. Its old text:\n```\nprecious\n```" in text_of(call)
    call = moving(there("/w/a", BEFORE), there("/w/b", unread="it is no UTF-8 text"))
    why = "its old text is not shown: it is no UTF-8 text"
    assert call["title"] == f"Edit and move a to /w/b, replacing it ({why})"


def test_a_move_that_is_done_is_not_taken_for_a_replacement() -> None:
    call = moving(nothing("/w/a"), there("/w/b", AFTER))
    assert call["title"] == "Edit and move a to /w/b"
    assert call["content"] == [as_text("/w/a moves to /w/b"), diff("/w/b", BEFORE, AFTER)]


def test_a_file_behind_a_link_is_shown_where_it_really_is() -> None:
    state = SessionState(looks={"/w/a": behind("/w/a", "/out/\u202ea", BEFORE)})
    (call,) = replayed(state, file_change(change("/w/a", "update", PATCH)))
    assert call["title"] == "Edit a (really `/out/⟦U+202E⟧a`)"
    assert call["content"][0] == diff("/w/a", BEFORE, AFTER)
    assert text_of(call) == "/w/a: really `/out/⟦U+202E⟧a`"
    assert [place["path"] for place in call["locations"]] == ["/w/a", "/out/\u202ea"]


def test_a_name_cannot_imitate_a_note() -> None:
    state = SessionState(looks={"/w/a (really x)": behind("/w/a (really x)", "/out/a")})
    (call,) = replayed(state, file_change(change("/w/a (really x)", "add", "")))
    assert call["title"] == "Write `a (really x)` (really /out/a)"


def test_what_has_more_to_it_than_its_name_stands_first_in_a_long_list() -> None:
    changes = [change(f"/w/{n}", "update", PATCH) for n in range(9)]
    state = SessionState(looks={"/w/8": behind("/w/8", "/out/8")})
    (call,) = replayed(state, file_change(*changes))
    assert call["title"] == "Edit 9 files: 8 (really /out/8), 0, 1, 2, 3 and 4 more"


def test_a_command_that_runs_elsewhere_is_looked_at_and_told() -> None:
    params: Any = {**ITEM, "startedAtMs": 1, "item": command(status="inProgress")}
    started = MODELS.decode("ItemStartedNotification", params, "test")
    cwd = params["item"]["cwd"]
    assert wanted_looks(started, (cwd,)) == {}, "what was opened is known"
    assert wanted_looks(started, ()) == {cwd: False}
    state, client = SessionState(looks={cwd: behind(cwd, "/out")}), Folded(NONE)
    client.take(start(state, command(status="inProgress")))
    state.looks = {}
    client.take(complete(state, command()))
    assert client.calls["item"]["rawInput"]["realPaths"] == {cwd: "/out"}
