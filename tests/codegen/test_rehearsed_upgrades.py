"""Upgrades that are likely to come, rehearsed on schemas that are changed here: what regen says of
each, and that what an older Codex sends is still read and routed.

The whole of it, with the lines of regen pasted into a copy of the tree, is `nox -s rehearse`.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from codegen import acp, codex, coverage, regen
from codegen.bundles import ACP_FILES, ACP_SCHEMAS, CODEX_FILES, SchemaFiles
from codegen.drift import schema_set
from codegen.drift_judge import drift
from codegen.drift_model import Verdict
from codegen.drift_ours import read_ours
from codegen.errors import CodegenError
from codegen.ir import Protocol
from codegen.older import readable
from codegen.pinned import ROOT, SCHEMA_DIR
from codegen.render import discriminators
from tests.codegen import test_nets as nets

Schema: TypeAlias = dict[str, Any]
Edit: TypeAlias = Callable[[Schema], None]

OF_VERSION_1 = (
    "tests/acp/test_v2_to_v1.py", "tests/acp/test_client_side.py",
    "tests/acp/test_agent_side_requests.py",
)  # fmt: skip
"""Tests of both sides of version 1."""

FIRST_GENERATION = ("applyPatchApproval", "execCommandApproval")


def no_first_generation(definitions: Schema) -> None:
    """Codex removes the approvals of its first protocol, and the types that only they have."""
    asked = definitions["ServerRequest"]["oneOf"]
    asked[:] = [m for m in asked if m["properties"]["method"]["enum"][0] not in FIRST_GENERATION]
    for name in ("ApplyPatchApproval", "ExecCommandApproval"):
        del definitions[f"{name}Params"], definitions[f"{name}Response"]
    del definitions["ReviewDecision"], definitions["ParsedCommand"]


def renamed_kind(definitions: Schema) -> None:
    """A kind of command approval gets another name."""
    definitions["CommandExecutionApprovalKind"]["oneOf"][0]["enum"] = ["command", "terminalInput"]


def renamed_mode(definitions: Schema) -> None:
    """A mode of an elicitation gets another name."""
    for mode in definitions["McpServerElicitationRequestParams"]["oneOf"]:
        if mode["properties"]["mode"]["enum"] == ["openaiForm"]:
            mode["properties"]["mode"]["enum"] = ["openai/card"]


def renamed_decision(definitions: Schema) -> None:
    """What allows a change of files gets another name."""
    definitions["FileChangeApprovalDecision"]["oneOf"][0]["enum"] = ["approve"]


def no_untrusted(definitions: Schema) -> None:
    """The approval policy that asks before all but harmless commands goes."""
    nested: Schema = definitions["v2"]
    where = nested if "AskForApproval" in nested else definitions
    where["AskForApproval"]["oneOf"][0]["enum"].remove("untrusted")


@cache
def bundles() -> dict[str, Schema]:
    keys = (*CODEX_FILES, *ACP_FILES)
    return {key: json.loads((SCHEMA_DIR / key).read_text("utf-8")) for key in keys}


@cache
def after(edit: Edit | None = None) -> SchemaFiles:
    files = {key: copy.deepcopy(bundles()[key]) for key in CODEX_FILES}
    if edit is not None:
        for key in CODEX_FILES:
            edit(files[key]["definitions"])
    return SchemaFiles({"codex": "0.172.0" if edit else "0.171.0"}, files)


@cache
def older() -> tuple[dict[str, Protocol], set[str]]:
    """The pinned older versions, and the newest as one of them."""
    protocols, used = regen.older_protocols()
    newest = codex.load(*after().files.values(), strict=False, used=used)
    return {**protocols, "0.171.0": newest}, used


def generated(edit: Edit) -> Protocol:
    """The protocol that models would be made of."""
    protocols, used = older()
    return readable(codex.load(*after(edit).files.values(), used=set(used)), protocols)


def said(edit: Edit) -> list[str]:
    """What regen says of the tree as it is."""
    return [str(problem) for problem in coverage.missing(generated(edit), ROOT)]


def reported(edit: Edit) -> Iterator[tuple[str, Verdict, str]]:
    """(name, verdict, meaning) of each change in the drift report."""
    old = schema_set(after())
    new = schema_set(after(edit), is_strict=True, older=older())
    for judged in drift(old, new, read_ours(ROOT, new.protocols)).judged:
        yield judged.change.name or judged.change.area, judged.verdict, judged.meaning


def test_1_2_a_request_that_only_an_older_codex_sends_is_still_routed() -> None:
    protocol = generated(no_first_generation)
    wires = [method.wire for method in protocol.methods["server_requests"]]
    assert set(wires) == {
        *FIRST_GENERATION,
        *(m.wire for m in regen.load_codex().methods["server_requests"]),
    }
    assert said(no_first_generation) == []
    reviews = next(values for name, values, _ in discriminators(protocol) if "REVIEW" in name)
    assert "approved" in reviews
    found = list(reported(no_first_generation))
    assert all(verdict is not Verdict.DECISION for _, verdict, _ in found), found
    stays = "older versions still send it, so it stays"
    assert {(name, meaning) for name, _, meaning in found} >= {
        (name, stays) for name in FIRST_GENERATION
    }


def test_a_request_that_no_version_sends_any_more_stops_regen_at_what_only_it_has() -> None:
    """Behind ``refresh_schema -- --oldest``, when the last version that has it is given up."""
    _, used = older()
    newest = codex.load(*after(no_first_generation).files.values(), used=set(used))
    with pytest.raises(CodegenError, match="ReviewDecision is gone; mend DISCRIMINATORS"):
        coverage.missing(newest, ROOT)


@pytest.mark.parametrize(
    ("edit", "table", "old", "new"),
    [
        (renamed_kind, "COMMAND_KINDS", "writeStdin", "terminalInput"),
        (renamed_mode, "ELICITATION_MODES", "openaiForm", "openai/card"),
    ],
)
def test_a_value_that_is_renamed_needs_a_row_and_the_old_one_keeps_its_own(
    edit: Edit, table: str, old: str, new: str
) -> None:
    values = {name: found for name, found, _ in discriminators(generated(edit))}[table]
    assert {old, new} <= set(values)
    lines = said(edit)
    assert any(f"{table}: the value {new} is undecided" in line for line in lines)
    assert any("classify.py" in line and "add before this line" in line for line in lines)
    assert not any("is gone" in line for line in lines), lines


def test_a_decision_that_is_renamed_is_named_both_ways_since_this_side_sends_it() -> None:
    lines = said(renamed_decision)
    assert any("FILE_CHANGE_DECISIONS: the value approve is undecided" in line for line in lines)
    assert any("accept is gone from the schema; remove its row" in line for line in lines)


def test_a_setting_that_goes_is_a_decision_that_names_where_it_is_used() -> None:
    found = {name: verdict for name, verdict, _ in reported(no_untrusted)}
    assert found["untrusted"] is Verdict.DECISION
    policy = generated(no_untrusted).definitions["AskForApproval"]
    assert "untrusted" in getattr(policy, "literals", ()), "an older Codex still answers with it"


def after_acp(change: Callable[[dict[str, Schema]], None]) -> list[str]:
    """What regen says after a change of ACP's schemas."""
    files = {key: copy.deepcopy(bundles()[key]) for key in ACP_FILES}
    change(files)
    protocols = {
        name: acp.load(name, files[whole], files[stable], strict=False)
        for name, (whole, stable) in ACP_SCHEMAS.items()
    }
    return [str(found) for found in coverage.missing(regen.load_codex(), ROOT, protocols)]


def test_a_discriminator_that_a_draft_of_acp_renames_is_named_wherever_it_is_used() -> None:
    def renamed(files: dict[str, Schema]) -> None:
        for key in ("acp/v2.json", "acp/v2_unstable.json"):
            files[key] = json.loads(_renamed_in(json.dumps(files[key])))

    lines = after_acp(renamed)
    assert {line.split(":")[0] for line in lines} == {"src/codex_acp/acp/call_v2_agent.py"}
    assert all("StateUpdateSessionUpdate is gone from the schema" in line for line in lines)
    assert all("; perhaps it is now " in line for line in lines)


def test_what_a_draft_of_acp_stabilises_needs_its_rows_and_no_other_version_changes() -> None:
    def stabilised(files: dict[str, Schema]) -> None:
        """Sub-agents, plan operations and all else that is unstable."""
        files["acp/v2.json"] = files["acp/v2_unstable.json"]

    lines = after_acp(stabilised)
    assert any('"session/fork": None,  # not offered; or the function' in line for line in lines)
    assert not any("is gone" in line for line in lines)
    assert {Path(line.split(":")[0]).name for line in lines} <= {
        "serve_v2_client.py", "call_v2_agent.py", "agent_v2.py", "tables_v2.py",
    }  # fmt: skip


def _renamed_in(text: str) -> str:
    return text.replace('"const": "state_update"', '"const": "session_state"')


def _stabilised(tree: nets.Tree) -> dict[str, str]:
    """Sub-agents, plan operations and all else that is unstable."""
    return {"acp/v2.json": (tree.root / "schema/acp/v2_unstable.json").read_text("utf-8")}


def _renamed(tree: nets.Tree) -> dict[str, str]:
    keys = ("acp/v2.json", "acp/v2_unstable.json")
    return {key: _renamed_in((tree.root / "schema" / key).read_text("utf-8")) for key in keys}


@pytest.mark.rehearse
@pytest.mark.parametrize("edit", [_stabilised, _renamed])
def test_after_a_draft_of_acp_the_pasted_lines_build_and_version_1_still_works(
    edit: Callable[[nets.Tree], dict[str, str]], tmp_path: Path
) -> None:
    tree = nets.Tree(tmp_path / "tree")
    pins = tree.root / "schema" / "PINNED.json"
    for key, text in edit(tree).items():
        file = tree.root / "schema" / key
        old, new = (hashlib.sha256(t.encode()).hexdigest() for t in (file.read_text("utf-8"), text))
        pins.write_text(pins.read_text().replace(old, new))
        file.write_text(text, "utf-8")
    regen.regenerate(tree.root)
    hints = regen.undecided(tree.root)
    for path in {tree.root / hint.path for hint in hints}:
        of_it = [hint for hint in hints if tree.root / hint.path == path]
        nets._paste(path, [hint for hint in of_it if hint.paste])
        for old, new in re.findall(r"(\w+) is gone .* now (\w+)", "\n".join(map(str, of_it))):
            path.write_text(re.sub(rf"\b{old}\b", new, path.read_text()))
    assert hints
    assert (tree.undecided(), regen.impossible(tree.root)) == ([], "")
    assert tree.type_errors(tmp_path / "mypy", "acp", "adapter", "runtime") == ""
    assert nets._run(tree, *nets.PYTEST, *OF_VERSION_1) == ""


@pytest.mark.rehearse
@pytest.mark.parametrize("edit", [no_first_generation, renamed_kind, renamed_mode])
def test_what_regen_prints_is_pasted_and_older_versions_still_work(
    edit: Edit, tmp_path: Path
) -> None:
    """The tests of the routing have what an older Codex sends; they pass in the changed tree."""
    tree = nets.Tree(tmp_path / "tree").after(edit)
    hints = regen.undecided(tree.root)
    for path in {tree.root / hint.path for hint in hints}:
        nets._paste(path, [hint for hint in hints if tree.root / hint.path == path])
    assert (tree.undecided(), regen.impossible(tree.root), tree.imported()) == ([], "", "")
    assert tree.type_errors(tmp_path / "mypy") == ""
    assert nets._run(tree, *nets.PYTEST, *nets.PASTED_TESTS) == ""
