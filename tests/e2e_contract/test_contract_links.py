"""What is shown of links, of moves and of files that are replaced, on the real Codex (3.8)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from codex_acp.testing import Step, Text, ToolCall, apply_patch, exec_command
from tests.e2e_contract.contract_bench import ContractBench, Scenes

pytestmark = [pytest.mark.e2e, pytest.mark.attack("model")]

SCENES = Scenes()
DONE: list[Step] = [Text("Done.")]


def patch(call: str, *lines: str) -> list[Step]:
    """One patch."""
    text = "\n".join(("*** Begin Patch", *lines, "*** End Patch", ""))
    return [apply_patch(text, call_id=call)]


def edit(path: str, *move: str) -> tuple[str, ...]:
    """Lines that replace ``old`` by ``new``."""
    moved = [f"*** Move to: {target}" for target in move]
    return (f"*** Update File: {path}", *moved, "@@", "-old", "+new")


def permissions(call: str, **files: list[str]) -> list[Step]:
    arguments = {"reason": "to build", "permissions": {"file_system": files}}
    return [ToolCall("request_permissions", arguments, call_id=call)]


ADD = SCENES.add("add", patch("add", "*** Add File: add/docs/keys", "+mine"), DONE)
DELETE = SCENES.add("delete", patch("delete", "*** Delete File: delete/docs/keys"), DONE)
LINK = SCENES.add("link", patch("link", "*** Delete File: link/keys"), DONE)
CIRCLE = SCENES.add("circle", patch("circle", "*** Add File: circle/docs/keys", "+mine"), DONE)
PROC = SCENES.add("proc", patch("proc", "*** Add File: proc/docs/keys", "+mine"), DONE)
SWAPPED = SCENES.add("swapped", patch("swapped", "*** Add File: swapped/docs/keys", "+mine"), DONE)
OPENED = SCENES.add(
    "opened", patch("opened", "*** Add File: plain", "+x", "*** Add File: docs/keys", "+x"), DONE
)
MADE = SCENES.add("made", patch("made", "*** Add File: made/thesis.md", "+short"), DONE)
REPLACE = SCENES.add("replace", patch("replace", "*** Add File: replace/thesis.md", "+short"), DONE)
LARGE = SCENES.add("large", patch("large", "*** Add File: large/thesis.md", "+short"), DONE)
MOVE = SCENES.add("move", patch("move", *edit("move/a", "move/b")), DONE)
SEVERAL = SCENES.add(
    "several",
    patch("several", "*** Add File: several/a", "+a", *edit("several/b"), *edit("several/docs/c")),
    DONE,
)
ONTO_ITSELF = {
    name: SCENES.add(f"onto {name}", patch(f"onto-{name}", *edit("onto/a", f"onto/{name}")), DONE)
    for name in ("a", "link")
}
MEET = {
    f"meet-{number}": SCENES.add(f"meet {number}", patch(f"meet-{number}", *lines), DONE)
    for number, lines in enumerate(
        [
            (*edit("meet-0/a", "meet-0/c"), *edit("meet-0/b", "meet-0/c")),
            (*edit("meet-1/a", "meet-1/b"), *edit("meet-1/b")),
            ("*** Add File: meet-2/c", "+new", *edit("meet-2/a", "meet-2/c")),
            (*edit("meet-3/a"), *edit("meet-3/link")),
            (*edit("meet-4/link", "meet-4/c"), *edit("meet-4/a")),
        ]
    )
}
APART = SCENES.add(
    "apart", patch("apart", "*** Delete File: apart/link", *edit("apart/a"), *edit("apart/b")), DONE
)
REWRITTEN = SCENES.add(
    "rewritten", patch("rewritten", *edit("rewritten/a", "rewritten/docs/a")), DONE
)
GRANT = SCENES.add(
    "grant",
    permissions("grant", write=["grant/docs"]),
    [exec_command("touch grant/docs/made", call_id="grant-use")],
    DONE,
)
REGRANT = SCENES.add(
    "regrant",
    permissions("regrant", write=["regrant/docs"]),
    [exec_command("touch regrant/docs/made", call_id="regrant-use")],
    DONE,
)
COMMAND = SCENES.add(
    "command",
    [exec_command("touch made", justification="?", workdir="command/docs", call_id="command")],
    DONE,
)


class Place:
    """A directory of the workspace with ``docs``, a link to a directory outside of it."""

    def __init__(self, bench: ContractBench, name: str) -> None:
        self.inside = bench.path(name)
        self.outside = bench.home.workspace.parent / f"outside-{name}"
        for directory in (self.inside, self.outside):
            directory.mkdir()
        self.docs = self.inside / "docs"
        self.docs.symlink_to(self.outside)

    def lead(self, target: Path) -> None:
        """Have ``docs`` lead elsewhere."""
        self.docs.unlink()
        self.docs.symlink_to(target)


async def test_3_8_a_new_file_behind_a_link_is_shown_where_it_really_is(
    bench: ContractBench,
) -> None:
    place = Place(bench, "add")
    session = await bench.new_session()
    prompt = bench.prompt(session, ADD)
    asked = await bench.asks.next_permission()
    named, real = str(place.docs / "keys"), str(place.outside / "keys")
    assert f"really {real}" in asked.title.replace("`", "")
    assert asked.raw_input["realPaths"] == {named: real}
    assert [where["path"] for where in asked.seen["locations"]] == [named, real]
    assert any(real in json.dumps(part) for part in asked.seen["content"])
    asked.choose("allow_once")

    assert await prompt.end() == "end_turn"
    assert (place.outside / "keys").read_text() == "mine\n"
    assert real in bench.call(session, "add")["title"], "also when it is done"


async def test_3_8_a_file_that_is_deleted_behind_a_link_is_shown_where_it_really_is(
    bench: ContractBench,
) -> None:
    place = Place(bench, "delete")
    (place.outside / "keys").write_text("precious\n")
    session = await bench.new_session()
    prompt = bench.prompt(session, DELETE)
    asked = await bench.asks.next_permission()
    assert asked.title.startswith("Delete ")
    assert f"(really {place.outside / 'keys'})" in asked.title.replace("`", "")
    asked.choose("allow_once")

    assert await prompt.end() == "end_turn"
    assert not (place.outside / "keys").exists()


async def test_3_8_of_a_link_that_is_deleted_only_the_link_goes_and_that_is_shown(
    bench: ContractBench,
) -> None:
    place = Place(bench, "link")
    kept = place.outside / "keys"
    kept.write_text("precious\n")
    (place.inside / "keys").symlink_to(kept)
    session = await bench.new_session()
    prompt = bench.prompt(session, LINK)
    asked = await bench.asks.next_permission()
    assert f"(only the link to {kept})" in asked.title.replace("`", "")
    asked.choose("allow_once")

    assert await prompt.end() == "end_turn"
    assert kept.read_text() == "precious\n"
    assert not (place.inside / "keys").is_symlink()


async def test_3_8_the_link_to_the_directory_of_the_session_itself_is_no_news(
    bench: ContractBench,
) -> None:
    place, opened = Place(bench, "opened"), bench.home.workspace.parent / "opened-link"
    opened.symlink_to(place.inside)
    session = await bench.new_session(cwd=str(opened))
    prompt = bench.prompt(session, OPENED)
    asked = await bench.asks.next_permission()
    title = asked.title.replace("`", "")
    assert f"really {place.outside / 'keys'})" in title
    assert title.count("really") == 1
    asked.choose("reject_once")

    assert await prompt.end() == "end_turn"


async def test_3_8_a_circle_of_links_is_said(bench: ContractBench) -> None:
    place = Place(bench, "circle")
    place.lead(place.docs)
    session = await bench.new_session()
    prompt = bench.prompt(session, CIRCLE)
    asked = await bench.asks.next_permission()
    assert asked.title.endswith("(its links lead in a circle or are too many)")
    asked.choose("allow_once")

    assert await prompt.end() == "end_turn"
    assert bench.statuses(session, "circle")[-1] == "failed"


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
async def test_3_8_an_edit_of_a_file_that_each_process_sees_otherwise_is_not_asked_about(
    bench: ContractBench,
) -> None:
    place = Place(bench, "proc")
    place.lead(Path("/proc/self/cwd"))
    session = await bench.new_session()
    assert await bench.prompt(session, PROC).end() == "end_turn"
    assert bench.replies(session) == [{"decision": "decline"}]
    assert "leads to different files in different processes" in bench.said(session)


async def test_3_2_and_3_8_a_link_that_changes_while_it_is_asked_lets_nothing_run(
    bench: ContractBench,
) -> None:
    place, other = Place(bench, "swapped"), bench.home.workspace.parent / "other"
    other.mkdir(exist_ok=True)
    session = await bench.new_session()
    prompt = bench.prompt(session, SWAPPED)
    asked = await bench.asks.next_permission()
    place.lead(other)
    asked.choose("allow_once")

    assert await prompt.end() == "end_turn"
    assert [*other.iterdir(), *place.outside.iterdir()] == []
    assert bench.replies(session) == [{"decision": "decline"}]
    assert "no longer what was shown" in bench.said(session)
    assert "approval.refused" in bench.event_types(session)


async def test_3_2_a_file_that_comes_to_be_while_it_is_asked_is_not_replaced(
    bench: ContractBench,
) -> None:
    thesis = Place(bench, "made").inside / "thesis.md"
    session = await bench.new_session()
    prompt = bench.prompt(session, MADE)
    asked = await bench.asks.next_permission()
    assert asked.title.startswith("Create ")
    thesis.write_text("precious\n")
    asked.choose("allow_once")

    assert await prompt.end() == "end_turn"
    assert thesis.read_text() == "precious\n"


async def test_3_8_an_addition_over_a_file_is_shown_as_its_replacement(
    bench: ContractBench,
) -> None:
    thesis = Place(bench, "replace").inside / "thesis.md"
    thesis.write_text("a long one\n")
    session = await bench.new_session()
    prompt = bench.prompt(session, REPLACE)
    asked = await bench.asks.next_permission()
    assert asked.title.startswith("Replace ")
    assert asked.raw_input["replaces"] == [str(thesis)]
    asked.choose("allow_once")

    assert await prompt.end() == "end_turn"
    call = bench.call(session, "replace")
    assert call["title"] == "Replace thesis.md"
    assert "a long one" in json.dumps(call["content"])
    assert bench.diffs(session, "replace") == {str(thesis): "short\n"}
    assert '"add"' not in json.dumps(call["content"])


async def test_3_8_that_the_old_text_of_what_is_replaced_is_not_shown_is_said(
    bench: ContractBench,
) -> None:
    thesis = Place(bench, "large").inside / "thesis.md"
    thesis.write_bytes(b"\xff" * 100)
    session = await bench.new_session()
    prompt = bench.prompt(session, LARGE)
    asked = await bench.asks.next_permission()
    assert asked.title.endswith("(its old text is not shown: it is no UTF-8 text)")
    assert asked.title.startswith("Replace ")
    asked.choose("reject_once")

    assert await prompt.end() == "end_turn"
    assert "it is no UTF-8 text" in json.dumps(bench.call(session, "large")["content"])


async def test_3_8_a_move_onto_a_file_says_what_is_lost(bench: ContractBench) -> None:
    place = Place(bench, "move").inside
    (place / "a").write_text("old\n")
    (place / "b").write_text("precious\n")
    session = await bench.new_session()
    prompt = bench.prompt(session, MOVE)
    asked = await bench.asks.next_permission()
    assert asked.title.startswith("Edit and move ")
    assert asked.title.replace("`", "").endswith("b, replacing it")
    shown = json.dumps(asked.seen["content"])
    assert "precious" in shown
    asked.choose("allow_once")

    assert await prompt.end() == "end_turn"
    assert [(file.name, file.read_text()) for file in place.glob("[ab]")] == [("b", "new\n")]
    assert "replacing it" in bench.call(session, "move")["title"]
    assert bench.diffs(session, "move") == {str(place / "b"): "new\n", str(place / "a"): ""}


def files(bench: ContractBench, name: str) -> Path:
    """A directory with the files ``a`` and ``b``, and ``link``, which leads to ``a``."""
    place = bench.path(name)
    place.mkdir(exist_ok=True)
    for file in ("a", "b"):
        (place / file).write_text("old\n")
    if not (place / "link").is_symlink():
        (place / "link").symlink_to("a")
    return place


@pytest.mark.parametrize("target", ONTO_ITSELF)
async def test_3_8_a_move_of_a_file_onto_itself_is_shown_as_its_deletion(
    bench: ContractBench, target: str
) -> None:
    place = files(bench, "onto")
    session = await bench.new_session()
    prompt = bench.prompt(session, ONTO_ITSELF[target])
    asked = await bench.asks.next_permission()
    named = f"moved to its own place, {place / target}, which removes it"
    assert asked.title.replace("`", "") == f"Delete {place / 'a'} ({named})"
    assert bench.diffs(session, f"onto-{target}") == {str(place / "a"): ""}
    asked.choose("allow_once")

    assert await prompt.end() == "end_turn"
    assert not (place / "a").exists()
    assert bench.call(session, f"onto-{target}")["title"].startswith("Delete a ")
    assert bench.diffs(session, f"onto-{target}") == {str(place / "a"): ""}


@pytest.mark.parametrize("name", MEET)
async def test_3_8_changes_that_meet_in_one_file_are_not_asked_about(
    bench: ContractBench, name: str
) -> None:
    place = files(bench, name)
    session = await bench.new_session()
    assert await bench.prompt(session, MEET[name]).end() == "end_turn"
    assert bench.replies(session) == [{"decision": "decline"}]
    assert f"several of its changes meet in {place}" in bench.said(session).replace("`", "")
    assert {file.read_text() for file in place.iterdir()} == {"old\n"}


async def test_3_8_changes_that_do_not_meet_are_asked_about(bench: ContractBench) -> None:
    place = files(bench, "apart")
    session = await bench.new_session()
    prompt = bench.prompt(session, APART)
    (await bench.asks.next_permission()).choose("allow_once")

    assert await prompt.end() == "end_turn"
    assert [file.read_text() for file in sorted(place.iterdir())] == ["new\n", "new\n"]


async def test_3_2_a_moved_file_with_another_text_by_now_stays(bench: ContractBench) -> None:
    place = Place(bench, "rewritten")
    source = place.inside / "a"
    source.write_text("harmless\nold\n")
    session = await bench.new_session()
    prompt = bench.prompt(session, REWRITTEN)
    asked = await bench.asks.next_permission()
    source.write_text("harmful!\nold\n")
    asked.choose("allow_once")

    assert await prompt.end() == "end_turn"
    assert [*place.outside.iterdir()] == []
    assert "no longer what was shown" in bench.said(session)


async def test_3_8_several_files_are_counted_and_those_behind_links_stand_first(
    bench: ContractBench,
) -> None:
    place = Place(bench, "several")
    (place.inside / "b").write_text("old\n")
    (place.outside / "c").write_text("old\n")
    session = await bench.new_session()
    prompt = bench.prompt(session, SEVERAL)
    asked = await bench.asks.next_permission()
    title = asked.title.replace("`", "")
    first = f"Change 3 files: {place.docs / 'c'} (really {place.outside / 'c'}), "
    assert title == f"{first}{place.inside / 'a'} (new), {place.inside / 'b'}"
    asked.choose("reject_once")

    assert await prompt.end() == "end_turn"


async def test_3_8_a_directory_that_permissions_name_is_shown_where_it_really_is(
    bench: ContractBench,
) -> None:
    place = Place(bench, "grant")
    session = await bench.new_session()
    prompt = bench.prompt(session, GRANT)
    asked = await bench.asks.next_permission()
    assert f"write {place.docs} (really {place.outside})" in asked.title.replace("`", "")
    assert asked.raw_input["realPaths"] == {str(place.docs): str(place.outside)}
    asked.choose("allow_once")

    assert await prompt.end() == "end_turn"
    assert (place.outside / "made").exists()


async def test_3_2_permissions_for_a_directory_that_leads_elsewhere_by_now_are_not_given(
    bench: ContractBench,
) -> None:
    place, other = Place(bench, "regrant"), bench.home.workspace.parent / "elsewhere"
    other.mkdir(exist_ok=True)
    session = await bench.new_session()
    prompt = bench.prompt(session, REGRANT)
    asked = await bench.asks.next_permission()
    place.lead(other)
    asked.choose("allow_once")

    assert await prompt.end() == "end_turn"
    assert bench.replies(session) == [{"permissions": {}, "scope": "turn"}]
    assert list(other.iterdir()) == []


async def test_3_8_a_working_directory_behind_a_link_is_shown_where_it_really_is(
    bench: ContractBench,
) -> None:
    place = Place(bench, "command")
    session = await bench.new_session()
    prompt = bench.prompt(session, COMMAND)
    asked = await bench.asks.next_permission()
    assert f", in {place.docs} (really {place.outside})" in asked.title.replace("`", "")
    assert asked.raw_input["realPaths"] == {str(place.docs): str(place.outside)}
    asked.choose("allow_once")

    assert await prompt.end() == "end_turn"
    assert (place.outside / "made").exists()
    assert str(place.outside) in json.dumps(bench.call(session, "command")["rawInput"])
