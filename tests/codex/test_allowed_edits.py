"""`allow_edits`: files below one directory, wherever their names seem to lead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codex_acp.codex import Allow, ApprovalQuestion, FileChangeApproval, Once, Session, allow_edits
from codex_acp.codex._generated.methods import MODELS
from codex_acp.codex._generated.server_requests import ItemFileChangeRequestApproval
from codex_acp.codex.approvals.actions import changes_of, named_paths
from codex_acp.codex.approvals.real_paths import look_at
from codex_acp.codex.approvals.running_items import created_paths

ADD, UPDATE, DELETE = ({"type": kind} for kind in ("add", "update", "delete"))


def question(*changes: tuple[str, dict[str, Any]], **more: Any) -> ApprovalQuestion:
    params = {"threadId": "t", "turnId": "u", "itemId": "i", "startedAtMs": 1, **more}
    asked: Any = MODELS.decode("FileChangeRequestApprovalParams", params, "test")
    item: Any = MODELS.decode(
        "FileChangeThreadItem",
        {
            "type": "fileChange", "id": "i", "status": "inProgress",
            "changes": [{"path": path, "kind": kind, "diff": ""} for path, kind in changes],
        },
        "test",
    )  # fmt: skip
    approval = FileChangeApproval(ItemFileChangeRequestApproval(0, asked), item)
    looks = look_at(named_paths(approval))
    made = created_paths(changes_of(approval))
    return ApprovalQuestion(
        approval,
        {},
        (Once(), Session()),
        "t",
        "t",
        "u",
        "i",
        "digest",
        {path: look.real or None for path, look in looks.items()},
        tuple(path for path in made if looks[path].exists),
    )


async def is_allowed(asked: ApprovalQuestion, within: Path) -> bool:
    decision = await allow_edits(within=within).decide(asked)
    assert decision in (None, Allow(Once()))
    return decision is not None


async def test_changes_below_the_directory_are_allowed_once(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    changes = [(str(tmp_path / "new" / "a"), ADD), (str(tmp_path / "old"), UPDATE)]
    assert await is_allowed(question(*changes, (str(tmp_path / "gone"), DELETE)), tmp_path)


@pytest.mark.attack("model")
@pytest.mark.parametrize(
    "path",
    [
        "../beside", "../{name}-beside/a", "link/a", ".git/hooks/pre-commit", "sub/.GIT/config",
        ".codex/config.toml", ".agents/skills/x", "/etc/passwd",
    ],
)  # fmt: skip
async def test_one_path_elsewhere_or_among_what_decides_what_runs_forbids_all(
    tmp_path: Path, path: str
) -> None:
    within = tmp_path / "within"
    within.mkdir()
    (within / "link").symlink_to(tmp_path)
    bad = str(within / path.format(name=within.name))
    assert not await is_allowed(question((str(within / "a"), ADD), (bad, UPDATE)), within)
    assert not await is_allowed(question((bad, ADD)), within)
    moved = {"type": "update", "move_path": bad}
    assert not await is_allowed(question((str(within / "a"), moved)), within)


async def test_what_would_be_lost_or_reach_further_is_not_allowed(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    assert not await is_allowed(question((str(tmp_path / "there"), ADD)), tmp_path)
    root = question((str(tmp_path / "a"), ADD), grantRoot=str(tmp_path))
    assert not await is_allowed(root, tmp_path)
    assert not await is_allowed(question((str(tmp_path / "a"), {"type": "chmod"})), tmp_path)
    assert not await is_allowed(question(), tmp_path)
