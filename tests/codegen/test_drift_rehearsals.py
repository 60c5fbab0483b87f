"""Upgrades that really happened, rehearsed on the real bundles of older binaries.

Each is judged by a source tree as it would have been at the old version: what the new one brings
must be named there as undecided, line by line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from codegen import codex, coverage, render
from codegen.bundles import EXPERIMENTAL, STABLE, read_schema_set
from codegen.drift import main, schema_set
from codegen.drift_judge import drift
from codegen.drift_model import Judged, Report, SchemaSet, Verdict
from codegen.drift_ours import read_ours
from codegen.drift_render import as_json, markdown, terminal
from codegen.naming import Namer
from codegen.overrides import codex as overrides
from codegen.pinned import ROOT
from tests.support.source_as_of import write_as_of

FIXTURES = Path(__file__).parent / "fixtures"


@cache
def version(name: str) -> SchemaSet:
    return schema_set(read_schema_set(FIXTURES / f"{name}.json.xz"))


@cache
def today() -> SchemaSet:
    return schema_set(read_schema_set(ROOT / "schema"))


@dataclass(frozen=True)
class Rehearsal:
    """An upgrade, judged by the tree of the old version."""

    report: Report
    lines: list[str]
    """What ``nox -s regen`` would print."""

    @property
    def undecided(self) -> set[tuple[str, str]]:
        """(area, name) of what the tables must decide."""
        tables = ("server request", "notification", "item", "elicitation mode", "decision")
        return {
            (j.change.area, j.change.name)
            for j in self.report.judged
            if j.verdict is Verdict.DECISION and j.change.area in tables
        }

    def of(self, area: str, name: str) -> Judged:
        (found,) = (j for j in self.report.judged if (j.change.area, j.change.name) == (area, name))
        return found


@contextmanager
def without(table: dict[str, Any], keys: set[str]) -> Iterator[None]:
    """The table without some rows, and afterwards as it was, in the same order."""
    whole = dict(table)
    for key in keys:
        del table[key]
    try:
        yield
    finally:
        table.clear()
        table.update(whole)


@contextmanager
def generator_as_of(before: str) -> Iterator[None]:
    """Without those overrides that nothing in the old bundle uses."""
    made: list[Namer] = []

    def namer(*args: Any, **more: Any) -> Namer:
        made.append(Namer(*args, **more))
        return made[-1]

    files = read_schema_set(FIXTURES / f"{before}.json.xz").files
    with pytest.MonkeyPatch.context() as spy:
        spy.setattr(codex, "Namer", namer)
        old = codex.load(files[EXPERIMENTAL], files[STABLE], strict=False)
    unused = set(made[0].overrides) - made[0].used
    known = {m.wire for rows in old.methods.values() for m in rows}
    definitions = codex.flat_definitions(files[EXPERIMENTAL]).keys()
    with (
        without(overrides.NAMES, unused),
        without(overrides.RESULTS, overrides.RESULTS.keys() - known),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(overrides, "CLOSED_ENUMS", overrides.CLOSED_ENUMS & definitions)
        yield


Rehearse: TypeAlias = Callable[[str, str], Rehearsal]


@pytest.fixture(scope="module")
def rehearse(tmp_path_factory: pytest.TempPathFactory) -> Rehearse:
    @cache
    def run(before: str, after: str) -> Rehearsal:
        root = tmp_path_factory.mktemp(f"as-of-{before}")
        old = version(before)
        write_as_of(old, today(), root)
        with generator_as_of(before):
            source = read_schema_set(FIXTURES / f"{after}.json.xz")
            new = schema_set(source, is_strict=True)
            protocol = new.protocols["codex"]
            gone = render.DISCRIMINATORS.keys() - protocol.definitions.keys()
            with without(render.DISCRIMINATORS, gone):
                report = drift(old, new, read_ours(root, {}))
                lines = coverage.missing(protocol, root)
        return Rehearsal(report, [str(line) for line in lines])

    return run


def test_from_0_133_to_0_147_the_clock_is_named_unrouted(rehearse: Rehearse) -> None:
    found = rehearse("0.133.0", "0.147.0")
    clock = found.of("server request", "currentTime/read")
    assert clock.verdict is Verdict.DECISION
    assert clock.meaning.startswith("UNROUTED")
    assert found.undecided == {
        ("server request", "currentTime/read"),
        ("notification", "externalAgentConfig/import/progress"),
        ("notification", "model/safetyBuffering/updated"),
        ("notification", "thread/deleted"),
        ("notification", "thread/environment/connected"),
        ("notification", "thread/environment/disconnected"),
        ("notification", "turn/moderationMetadata"),
        ("item", "sleep"),
        ("item", "subAgentActivity"),
        ("elicitation mode", "openai/form"),
        ("decision", "denied"),  # was a text, and carries a reason since
    }
    assert int(found.report.verdict) == 4


def test_from_0_147_to_0_163_everything_new_is_named(rehearse: Rehearse) -> None:
    found = rehearse("0.147.0", "0.163.0")
    assert found.undecided >= {
        ("notification", "thread/reverted"),
        ("notification", "autoApprovalReview/strictReviewRequired"),
        ("notification", "modelProvider/authRecoveryStarted"),
        ("item", "functionCallOutput"),
        ("elicitation mode", "openai/userVerification"),
        ("elicitation mode", "openaiForm"),
        ("decision", "approved_mcp_policy_amendment"),
    }
    assert len([area for area, _ in found.undecided if area == "notification"]) == 15
    assert int(found.report.verdict) == 4


def test_from_0_163_to_0_169_a_new_kind_and_what_is_gone_are_named(rehearse: Rehearse) -> None:
    found = rehearse("0.163.0", "0.169.0")
    assert found.undecided == {
        ("notification", "thread/section/changed"),
        ("item", "imageGeneration"),
        ("decision", "humanCommand"),
    }
    stop = found.report.judged[0]
    assert stop.change.area == "generator"
    assert "'accountSession/list': '…Response'," in stop.meaning
    assert found.of("member", "audio").meaning == "closed matches lack it"
    assert "src/codex_acp/codex/threads/options.py" in found.of("type", "AudioUserInput").places
    assert int(found.report.verdict) == 4


def test_from_0_169_to_0_171_a_notification_and_a_call_without_a_known_result_are_named(
    rehearse: Rehearse,
) -> None:
    found = rehearse("0.169.0", "0.171.0")
    assert found.undecided == {
        ("notification", "thread/search/partial"),
        (
            "server request",
            "currentTime/read",
        ),  # gone; stays if `older` still has a version with it
    }
    assert "'modelProvider/default/set': '…Response'," in found.report.judged[0].meaning
    assert int(found.report.verdict) == 4


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        (("0.133.0", "0.147.0"), "routing/table.py", ),
        (("0.133.0", "0.147.0"), "codex/approvals/refusals.py"),
        (("0.147.0", "0.163.0"), "mapping/notifications.py"),
        (("0.163.0", "0.169.0"), "codex/approvals/classify.py"),
    ],
)  # fmt: skip
def test_regen_prints_the_very_line_to_add(
    rehearse: Rehearse, steps: tuple[str, str], wanted: str
) -> None:
    found = rehearse(*steps)
    lines = [line for line in found.lines if line.startswith(f"src/codex_acp/{wanted}:")]
    rows = {
        "routing/table.py": 'add to SERVER_REQUEST_ROUTES:\n    "currentTime/read": Row(',
        "codex/approvals/refusals.py": 'add to REFUSALS:\n    "currentTime/read": _',
        "mapping/notifications.py": 'NOTIFICATION_HANDLERS:\n    "thread/reverted": Ignored(',
        "codex/approvals/classify.py": 'add before this line:\n        case "humanCommand":\n',
    }
    assert any(rows[wanted] in line for line in lines), found.lines


@pytest.mark.parametrize(
    ("before", "after"), [*pairwise(("0.133.0", "0.147.0", "0.163.0", "0.169.0", "0.171.0"))]
)
def test_today_everything_new_in_these_versions_is_decided(before: str, after: str) -> None:
    report = drift(version(before), version(after), read_ours(ROOT, {}))
    new = tuple(j for j in report.judged if j.change.kind == "added")
    assert Rehearsal(replace(report, judged=new), []).undecided == set()


def test_the_same_version_is_nothing_new() -> None:
    report = drift(version("0.163.0"), version("0.163.0"), read_ours(ROOT, {}))
    assert (report.judged, int(report.verdict)) == ((), 0)
    assert "Nothing new." in terminal(report)


def test_all_three_forms_name_the_decision(rehearse: Rehearse) -> None:
    report = rehearse("0.133.0", "0.147.0").report
    assert "+ server request currentTime/read (experimental): UNROUTED" in terminal(report)
    text = markdown(report)
    assert text.startswith("## Codex app-server 0.133.0 → 0.147.0\n")
    assert "### Server requests\n\n- + `currentTime/read` (experimental): UNROUTED" in text
    body = json.loads(as_json(report))
    (clock,) = (c for c in body["changes"] if c["name"] == "currentTime/read")
    assert body["exit_code"] == 4
    assert (clock["area"], clock["kind"], clock["verdict"], clock["experimental"]) == (
        "server request", "added", "decision", True,
    )  # fmt: skip


def test_the_command_exits_with_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    old, new = (str(FIXTURES / f"{name}.json.xz") for name in ("0.147.0", "0.163.0"))
    assert main([old, old]) == 0
    assert main([old, new, "--format", "json"]) == 4
    out = capsys.readouterr().out
    assert json.loads(out[out.index("{") :])["new"] == {"codex": "0.163.0"}


def test_what_the_generator_would_stop_at_is_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(overrides.RESULTS, "no/such/method", "NoResponse")
    source = read_schema_set(FIXTURES / "0.169.0.json.xz")
    new = schema_set(source, is_strict=True)
    report = drift(version("0.163.0"), new, read_ours(ROOT, {}))
    assert report.judged[0].change.area == "generator"
    assert "no/such/method" in report.judged[0].meaning
    assert int(report.verdict) == 4
