"""``fs/*``: what is inside the roots can be read and written, and nothing else, however named."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from codex_acp.acp.types import (
    PromptRequest,
    PromptResponse,
    ReadTextFileRequest,
    WriteTextFileRequest,
)
from codex_acp.errors import ErrorReply, RpcError
from codex_acp.runtime import AgentRuntime, AgentSpec, FileAccess, filesystem
from codex_acp.runtime.filesystem import Roots, read_text, write_text
from tests.runtime.scripted_agent import ScriptedAgent

pytestmark = pytest.mark.attack("agent")

LIMIT = 1000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory of the session, beside a secret."""
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_text("one\ntwo\r\nthree\nfour", encoding="utf-8")
    return root


def read(
    root: Path | Roots, path: Path | str, line: int | None = None, limit: int | None = None
) -> str:
    return read_text(opened(root), str(path), line, limit, LIMIT)


def write(root: Path | Roots, path: Path | str, content: str) -> None:
    write_text(opened(root), str(path), content, LIMIT)


def opened(root: Path | Roots) -> Roots:
    return root if isinstance(root, Roots) else Roots([str(root)])


@pytest.mark.parametrize(
    ("line", "limit", "expected"),
    [
        (None, None, "one\ntwo\r\nthree\nfour"),
        (1, 1, "one\n"),
        (0, 1, "one\n"),
        (2, None, "two\r\nthree\nfour"),
        (2, 2, "two\r\nthree\n"),
        (4, 9, "four"),
        (5, None, ""),
        (99, 3, ""),
        (None, 0, ""),
    ],
)
def test_lines_are_counted_from_one(
    root: Path, line: int | None, limit: int | None, expected: str
) -> None:
    assert read(root, root / "a.txt", line, limit) == expected


def test_lines_are_found_whatever_the_size_of_a_read(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size in range(1, 8):
        monkeypatch.setattr(filesystem, "READ_SIZE", size)
        assert read(root, root / "a.txt", 2, 2) == "two\r\nthree\n"
        assert read(root, root / "a.txt") == "one\ntwo\r\nthree\nfour"


def test_of_a_file_above_the_limit_a_part_can_be_read(root: Path) -> None:
    big = root / "big.txt"
    big.write_text("x" * 90 + "\n", encoding="utf-8")
    big.write_text(big.read_text(encoding="utf-8") * 100, encoding="utf-8")
    with pytest.raises(RpcError, match="use line and limit") as refused:
        read(root, big)
    assert refused.value.code == -32602
    assert read(root, big, 50, 2) == ("x" * 90 + "\n") * 2


def test_a_file_that_is_not_there_is_a_resource_that_is_not_found(root: Path) -> None:
    with pytest.raises(RpcError) as refused:
        read(root, root / "none.txt")
    assert refused.value.code == -32002


def test_what_is_no_text_or_no_file_is_refused(root: Path) -> None:
    (root / "b").write_bytes(b"\xff\xfe")
    os.mkfifo(root / "fifo")
    for path in (root / "b", root / "sub", root / "fifo", root, "a.txt", "", f"{root}/a\0b"):
        with pytest.raises(RpcError):
            read(root, path)
    with pytest.raises(RpcError):
        write(root, root / "fifo", "x")
    with pytest.raises(RpcError):
        write(root, root / "sub", "x")


@pytest.mark.parametrize(
    "way", ["x/" * 3000, f"{'d' * 200}/" * 30, "x/../" * 300, "x/" * 150], ids=len
)
def test_a_path_that_is_too_long_or_too_deep_is_refused_before_anything_is_made(
    root: Path, way: str
) -> None:
    path = f"{root}/new/{way}f"
    with pytest.raises(RpcError, match=r"limit of 4096|more than 100") as refused:
        write(root, path, "x")
    assert refused.value.code == -32602
    assert len(refused.value.message) < 5000
    with pytest.raises(RpcError, match=r"limit of 4096|more than 100"):
        read(root, path)
    assert not (root / "new").exists()


def test_links_that_lengthen_a_path_are_bounded_as_well(root: Path) -> None:
    (root / "l").symlink_to("sub/" + "y/" * 60)
    with pytest.raises(RpcError, match="more than 100"):
        write(root, f"{root}/l/{'z/' * 60}f", "x")
    write(root, f"{root}/l/{'z/' * 30}f", "x")
    assert read(root, f"{root}/l/{'z/' * 30}f") == "x"


def outside(root: Path, how: str) -> str:
    """The path of a file outside, as an agent might name it."""
    secret = root.parent / "secret.txt"
    if how == "plain":
        return str(secret)
    if how == "dots":
        return f"{root}/../secret.txt"
    if how == "dots below":
        return f"{root}/sub/../../secret.txt"
    if how == "prefix":
        twin = root.with_name("root2")
        twin.mkdir()
        (twin / "secret.txt").write_text("secret", encoding="utf-8")
        return str(twin / "secret.txt")
    if how == "link":
        (root / "link").symlink_to(secret)
        return str(root / "link")
    if how == "relative link":
        (root / "link").symlink_to("../secret.txt")
        return str(root / "link")
    if how == "link to link":
        (root / "one").symlink_to(root / "two")
        (root / "two").symlink_to(secret)
        return str(root / "one")
    if how == "directory link":
        (root / "up").symlink_to(root.parent)
        return str(root / "up" / "secret.txt")
    if how == "directory link to root":
        (root / "up").symlink_to(root.parent)
        return str(root / "up" / "root" / ".." / "secret.txt")
    assert how == "process"
    return f"/proc/self/root{secret}"


WAYS = [
    "plain", "dots", "dots below", "prefix", "link", "relative link", "link to link",
    "directory link", "directory link to root", "process",
]  # fmt: skip


@pytest.mark.parametrize("how", WAYS)
def test_a_file_outside_is_neither_read_nor_written(root: Path, how: str) -> None:
    path = outside(root, how)
    with pytest.raises(RpcError, match="outside the directories") as refused:
        read(root, path)
    assert refused.value.code == -32602
    with pytest.raises(RpcError, match="outside the directories"):
        write(root, path, "changed")
    assert (root.parent / "secret.txt").read_text(encoding="utf-8") == "secret"


def test_whether_a_file_outside_is_there_cannot_be_found_out(root: Path) -> None:
    for name in ("secret.txt", "none.txt"):
        with pytest.raises(RpcError, match="outside the directories"):
            read(root, root.parent / name)


def test_a_new_file_behind_a_link_to_outside_is_not_made(root: Path) -> None:
    (root / "up").symlink_to(root.parent)
    (root / "dangling").symlink_to(root.parent / "new.txt")
    for path in (root / "up" / "new.txt", root / "dangling", root / "up" / "d" / "new.txt"):
        with pytest.raises(RpcError, match="outside the directories"):
            write(root, path, "x")
    assert sorted(p.name for p in root.parent.iterdir()) == ["root", "secret.txt"]


def test_links_that_stay_inside_are_followed(root: Path) -> None:
    (root / "link").symlink_to("a.txt")
    (root / "dir").symlink_to(root / "sub")
    assert read(root, root / "link", 1, 1) == "one\n"
    write(root, root / "link", "new")
    assert (root / "link").is_symlink()
    assert (root / "a.txt").read_text(encoding="utf-8") == "new"
    write(root, root / "dir" / "b.txt", "b")
    assert (root / "sub" / "b.txt").read_text(encoding="utf-8") == "b"


def test_a_root_that_is_a_link_itself_is_its_target(root: Path) -> None:
    link = root.with_name("link")
    link.symlink_to(root)
    assert read(link, link / "a.txt", 1, 1) == "one\n"
    assert read(link, root / "a.txt", 1, 1) == "one\n"


def test_what_is_not_looked_at_has_a_limit_and_is_said(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystem, "LOOK_LIMIT", 1_000_000)
    with (root / "hole").open("wb") as file:
        file.truncate(8 << 40)
    for line, limit in ((2, None), (2, 1), (10**12, 1)):
        with pytest.raises(RpcError, match="only its first 1000000 bytes"):
            read(root, root / "hole", line, limit)
    with pytest.raises(RpcError, match="above the limit of 1000 bytes"):
        read(root, root / "hole", 1, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_a_file_that_the_kernel_makes_up_is_no_file() -> None:
    for path in ("/proc/self/environ", "/proc/kmsg", "/sys/kernel/uevent_seqnum", "/dev/null"):
        with pytest.raises(RpcError):
            read(Roots(["/"]), path)
    with pytest.raises(RpcError, match="not a regular file"):
        read(Roots(["/proc/self"]), "/proc/self/environ")


def test_a_file_that_grows_while_it_is_read_has_an_end(root: Path) -> None:
    file = root / "log"
    file.write_text("x" * 100, encoding="utf-8")

    def grow() -> None:
        with file.open("a", encoding="utf-8") as log:
            log.write("x" * 100)

    text = read_text(Roots([str(root)]), str(file), None, None, LIMIT, grow)
    assert text == "x" * 100


def test_what_nobody_waits_for_any_more_does_not_take_effect(root: Path) -> None:
    def gone() -> None:
        raise RpcError(-32603, "gone")

    with pytest.raises(RpcError, match="gone"):
        write_text(Roots([str(root)]), str(root / "a.txt"), "new", LIMIT, gone)
    assert read(root, root / "a.txt", 1, 1) == "one\n"
    assert sorted(p.name for p in root.iterdir()) == ["a.txt", "sub"]


def test_a_file_is_replaced_as_a_whole_and_keeps_its_permissions(root: Path) -> None:
    script = root / "run.sh"
    script.write_text("old", encoding="utf-8")
    script.chmod(0o750)
    write(root, script, "neu ⟦")
    assert script.read_text(encoding="utf-8") == "neu ⟦"
    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    assert sorted(p.name for p in root.iterdir()) == ["a.txt", "run.sh", "sub"]


@pytest.mark.attack("agent")
def test_a_program_with_the_rights_of_others_loses_them_when_an_agent_writes_it(root: Path) -> None:
    script = root / "run.sh"
    script.write_text("old", encoding="utf-8")
    script.chmod(0o7755)
    write(root, script, "new")
    assert stat.S_IMODE(script.stat().st_mode) == 0o755


def test_missing_directories_are_made(root: Path) -> None:
    write(root, root / "x" / "y" / "z.txt", "z")
    assert (root / "x" / "y" / "z.txt").read_text(encoding="utf-8") == "z"


def test_content_above_the_limit_or_that_is_no_text_is_refused(root: Path) -> None:
    for content in ("x" * (LIMIT + 1), "\ud800"):
        with pytest.raises(RpcError):
            write(root, root / "a.txt", content)
    assert read(root, root / "a.txt", 1, 1) == "one\n"


class FileAgent(ScriptedAgent):
    """Reads and writes in its prompt what the prompt says; ``read`` is what it was given."""

    read = ""

    async def on_prompt(self, request: PromptRequest) -> PromptResponse:
        path = request.prompt[0].text  # type: ignore[union-attr] # the tests send text
        session_id = request.session_id
        reading = ReadTextFileRequest(session_id=session_id, path=path)
        self.read = (await self.side.fs_read_text_file(reading)).content
        writing = WriteTextFileRequest(session_id=session_id, path=path, content="written")
        await self.side.fs_write_text_file(writing)
        return PromptResponse(stop_reason="end_turn")


async def test_an_agent_reads_and_writes_in_the_sessions_directories(root: Path) -> None:
    agent = FileAgent(session={"additionalDirectories": {}})
    more = root.with_name("more")
    more.mkdir()
    (more / "b.txt").write_text("more", encoding="utf-8")
    access = FileAccess(write=True)
    async with (
        AgentRuntime(files=access) as runtime,
        runtime.open(agent.spec(), cwd=root, additional_directories=[more]) as session,
    ):
        await session.run(str(root / "a.txt"))
        await session.run(str(more / "b.txt"))
        with pytest.raises(ErrorReply, match="outside the directories"):
            await session.run(str(root.parent / "secret.txt"))
    assert agent.read == "more"
    assert (root / "a.txt").read_text(encoding="utf-8") == "written"


READER = """
import anyio
from codex_acp.acp import run_agent, types

async def answer(turn):
    reading = types.ReadTextFileRequest(session_id=turn.request.session_id, path=turn.text)
    turn.say((await turn.side.fs_read_text_file(reading)).content)

anyio.run(lambda: run_agent(answer, name="reader"))
"""


async def test_an_agent_of_both_versions_reads_files_because_version_1_is_spoken(
    root: Path,
) -> None:
    spec = AgentSpec([sys.executable, "-c", READER])
    async with (
        AgentRuntime(files=FileAccess()) as runtime,
        runtime.open(spec, cwd=root) as session,
    ):
        answer = await session.run(str(root / "a.txt"))
        assert answer.text.split() == (root / "a.txt").read_text(encoding="utf-8").split()


@pytest.mark.parametrize(
    ("access", "fs"),
    [
        (None, None),
        (FileAccess(), (True, False)),
        (FileAccess(read=False, write=True), (False, True)),
        (FileAccess(write=True), (True, True)),
        (FileAccess(read=False), None),
    ],
)
async def test_exactly_what_is_allowed_is_advertised_and_answered(
    root: Path, access: FileAccess | None, fs: tuple[bool, bool] | None
) -> None:
    agent = FileAgent()
    async with (
        AgentRuntime(files=access) as runtime,
        runtime.open(agent.spec(), cwd=root) as session,
    ):
        capabilities = agent.initialized_with[0].client_capabilities
        assert capabilities is not None
        told = capabilities.fs
        assert fs == (None if told is None else (told.read_text_file, told.write_text_file))
        if fs != (True, True):
            with pytest.raises(ErrorReply, match="not offered"):
                await session.run(str(root / "a.txt"))
