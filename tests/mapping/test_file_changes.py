"""A file change shows one diff for each file: whole texts where that is certain, else the patch."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.mapping.calls.file_changes import WHOLE_TEXT_LIMIT, wanted_files
from codex_acp.mapping.calls.running_calls import due, flush_due
from codex_acp.mapping.calls.tool_calls import announce
from codex_acp.mapping.events.session_events import ToolCallAnnounced
from codex_acp.mapping.state import SessionState
from codex_acp.routing.hunks import parse_hunks
from tests.support.notification_samples import ITEM
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
    (call,) = replayed(SessionState(files=files or {}), item)
    return call


def hunks_of(path: str, patch: str) -> list[Json]:
    return [diff(path, "".join(h.old), "".join(h.new)) for h in parse_hunks(patch) or ()]


def diff(path: str, old: str | None, new: str) -> Json:
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


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
    assert wanted_files(item_of(item)) == []


@pytest.mark.parametrize("files", [{"/w/a": BEFORE}, {"/w/b": AFTER}], ids=["before", "after"])
def test_a_moved_file_is_shown_at_its_new_place(files: dict[str, str]) -> None:
    patch = f"{PATCH}\n\nMoved to: /w/b"
    call = shown(file_change(change("/w/a", "update", patch, "/w/b")), files)

    assert call["content"] == [diff("/w/b", BEFORE, AFTER)]
    assert call["title"] == "Edit and move a to /w/b"
    assert call["locations"] == [{"path": "/w/a", "line": 2}, {"path": "/w/b", "line": 2}]
    assert call["kind"] == "edit"


def test_a_mere_move_is_a_move() -> None:
    item = file_change(change("/w/a", "update", "\n\nMoved to: /w/b", "/w/b"))
    call = shown(item, {"/w/b": "text\n"})

    assert call["kind"] == "move"
    assert call["title"] == "Move a to /w/b"
    assert call["content"] == [diff("/w/b", "text\n", "text\n")]
    assert wanted_files(item_of(item)) == ["/w/a", "/w/b"]


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
    assert wanted_files(item_of(command())) == ()
    assert wanted_files(item_of(file_change())) == ["/w/a.py"]


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
