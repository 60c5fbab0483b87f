"""The page of a transcript: what it holds, what belongs together, and that nothing in it acts."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import tracemalloc
from importlib.resources import files
from pathlib import Path
from typing import Any
from unicodedata import category

import pytest

from codex_acp._glyphs import has_glyph
from codex_acp.cli.main import main
from codex_acp.cli.transcript_command import PageData, page_data, page_text
from codex_acp.cli.transcript_lines import Selection, read_line
from codex_acp.transcript import TranscriptEvent
from tests.support.transcript_samples import HOSTILE, lines, many, of_every_kind, with_wire

ELEMENT = re.compile(
    r"<script( type=\"application/json\" id=\"([a-z-]+)\")?>(.*?)</script>", re.DOTALL
)


def data_of(events: list[TranscriptEvent], selection: Selection | None = None) -> PageData:
    read = [read_line(line.rstrip("\n").encode()) for line in lines(events)]
    return page_data(read, selection or Selection())


def embedded(page: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows and details, as the script of the page reads them."""
    found = {name: text for _, name, text in ELEMENT.findall(page) if name}
    assert found.keys() == {"data-rows", "data-details"}
    return json.loads(found["data-rows"]), [
        json.loads(line) for line in found["data-details"].split("\n")
    ]


def test_every_kind_of_event_has_a_row_with_words_of_its_own() -> None:
    rows = data_of(of_every_kind()).rows
    told = [(row["kind"], row["verb"], row["from"], row["to"], row["tone"]) for row in rows]
    assert told == [
        ("session", "opened", "client", "codex", "plain"),
        ("prompt", "started", "client", "codex", "plain"),
        ("approval", "asked", "codex", "client", "open"),
        ("approval", "accepted", "client", "codex", "good"),
        ("approval", "answer refused", "client", "adapter", "bad"),
        ("approval", "asked", "codex", "client", "open"),
        ("approval", "rejected", "client", "codex", "bad"),
        ("elicitation", "asked", "codex", "client", "open"),
        ("elicitation", "answered", "client", "codex", "good"),
        ("elicitation", "asked", "codex", "client", "open"),
        ("elicitation", "turned down", "client", "codex", "bad"),
        ("decline", "declined", "codex", "adapter", "bad"),
        ("prompt", "ended", "codex", "client", "plain"),
        ("session", "opened", "client", "codex", "plain"),
        ("prompt", "started", "client", "codex", "plain"),
        ("prompt", "failed", "adapter", "client", "bad"),
        ("approval", "accepted", "client", "adapter", "good"),
        ("session", "closed", "client", "codex", "plain"),
    ]


def test_questions_and_answers_know_each_other_and_how_long_it_took() -> None:
    rows = data_of(of_every_kind()).rows
    pairs = {at: (row["pair"], row.get("took")) for at, row in enumerate(rows) if "pair" in row}
    assert pairs == {
        1: (12, None), 12: (1, 2750), 2: (3, None), 3: (2, 250), 4: (2, 500), 5: (6, None),
        6: (5, 250), 7: (8, None), 8: (7, 250), 9: (10, None), 10: (9, 250), 14: (15, None),
        15: (14, 250),
    }  # fmt: skip


def test_the_wire_behind_an_event_is_found_though_ids_come_again() -> None:
    events = with_wire()
    rows = data_of(events).rows
    behind = {
        at: [(rows[n]["from"], rows[n]["to"], rows[n]["about"]) for n in row["wire"]]  # type: ignore[index,union-attr]
        for at, row in enumerate(rows)
        if "wire" in row
    }
    approval = [
        ("codex", "adapter", "item/commandExecution/requestApproval"),
        ("adapter", "client", "session/request_permission"),
        ("client", "adapter", "session/request_permission"),
        ("adapter", "codex", "item/commandExecution/requestApproval"),
    ]
    prompt = [("client", "adapter", "session/prompt"), ("adapter", "client", "session/prompt")]
    kinds = [(row["kind"], row["verb"]) for row in rows]
    asked, decided = kinds.index(("approval", "asked")), kinds.index(("approval", "accepted"))
    assert behind == {
        kinds.index(("prompt", "started")): prompt,
        asked: approval,
        decided: approval,
    }
    assert rows[asked]["title"] == rows[decided]["title"] == "Run: touch made"


def test_what_is_chosen_keeps_the_wire_behind_it() -> None:
    data = data_of(with_wire(), Selection(kinds=("approval",)))
    assert {row["kind"] for row in data.rows} == {"approval", "wire"}
    asked = next(row for row in data.rows if row["verb"] == "asked")
    assert len(asked["wire"]) == 4  # type: ignore[arg-type]


@pytest.mark.attack(by="MCP server")
@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_a_transcript_holds_is_markup(text: str) -> None:
    page = page_text(f"/tmp/{text}", data_of(of_every_kind(text)))
    plain = page_text("/tmp/name", data_of(of_every_kind()))
    # The same elements, whatever the texts are.
    assert re.findall(r"<[a-zA-Z!/][^>\s]*", page) == re.findall(r"<[a-zA-Z!/][^>\s]*", plain)
    rows, details = embedded(page)
    assert any(text in str(row["about"]) for row in rows)
    assert details[4]["reason"] == text
    head = page.partition("</head>")[0]
    assert not re.search("[\u202e\u2066\u200b\ufeff\u2028\x00\x1b]", head)


def test_the_page_writes_out_each_character_that_has_no_glyph() -> None:
    script = (files("codex_acp.cli") / "transcript_page" / "text.js").read_text()
    hidden = re.search(r"const HIDDEN = /\[(.*)\]/gu;", script)
    assert hidden is not None
    categories = re.findall(r"\\p\{(\w+)\}", hidden[1])
    signs = re.sub(r"\\p\{\w+\}", "", hidden[1])
    ranges = re.sub(r"\\u\{?([0-9a-f]+)\}?", lambda code: chr(int(code[1], 16)), signs)
    listed = re.compile(f"[{ranges}]")
    assert [
        char
        for char in map(chr, range(sys.maxunicode + 1))
        if has_glyph(char) == bool(category(char) in categories or listed.match(char))
    ] == []


def test_the_page_may_load_nothing_and_run_only_its_own_script() -> None:
    page = page_text("x", data_of(of_every_kind()))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    script = next(text for attributes, _, text in ELEMENT.findall(page) if not attributes)
    style = page.partition("<style>")[2].partition("</style>")[0]
    for text, rule in ((script, "script-src"), (style, "style-src")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert "unsafe" not in policy[1]
    # Nor is there anything to load, or a way to make markup of a text.
    assert not re.search(
        r"https?://(?!www\.w3\.org/)|@import|url\(|innerHTML|insertAdjacent|eval\(", script + style
    )


@pytest.mark.parametrize(
    "line",
    [
        b'{"schema_version": 1, "time": "20',
        b"\x00\xff\xfe",
        b"[" * 100_000,
        b'{"schema_version": 3, "type": "later.event"}',
        b'{"a": NaN, "b": 1e400}',
        b"null",
        b"7" * 5000,
    ],
    ids=["unfinished", "bytes", "deep", "later", "no-number", "null", "long-number"],
)
def test_a_line_that_cannot_be_read_is_a_row(line: bytes) -> None:
    data = page_data([read_line(line)], Selection())
    assert data.unread == 1
    rows, details = embedded(page_text("x", data))
    assert rows[0]["kind"] == "unread"
    assert len(details) == 1


def test_long_texts_are_cut_and_numbers_that_are_none_are_words() -> None:
    page = page_text("x", data_of(of_every_kind("x" * 10_000_000)))
    assert len(page) < 1_000_000
    event: dict[str, Any] = json.loads(next(iter(lines(with_wire()))))
    event["message"] = {"a": "INF", "b": ["y" * 1_000_000] * 20}
    line = json.dumps(event).replace('"INF"', "1e999")
    rows, details = embedded(page_text("x", page_data([read_line(line.encode())], Selection())))
    assert rows[0]["kind"] == "wire"
    assert details[0]["message"]["a"] == "inf"


def test_a_large_transcript_is_no_large_page() -> None:
    data = data_of(many(2_000))
    assert len(data.rows) == 2_000
    assert len(page_text("x", data)) < 3_000_000


def test_the_command_writes_the_page_for_its_owner_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, page = tmp_path / "t.jsonl", tmp_path / "page.html"
    source.write_text("".join(lines(of_every_kind())) + '{"torn')
    assert main(["transcript", str(source), "--html", str(page)]) == 1
    assert "18 events" in (told := capsys.readouterr().err)
    assert "1 lines could not be read" in told
    assert page.stat().st_mode & 0o777 == 0o600
    assert page.read_text().startswith("<!doctype html>")
    assert sorted(tmp_path.iterdir()) == [page, source]
    before = source.read_bytes()
    assert main(["transcript", str(source), "--html", str(tmp_path / "." / "t.jsonl")]) == 2
    assert "would take the place of the transcript" in capsys.readouterr().err
    assert source.read_bytes() == before
    assert main(["transcript", str(source), "--html", str(tmp_path / "no" / "page")]) == 2
    assert "cannot be written: No such file" in capsys.readouterr().err


@pytest.mark.attack("model")
@pytest.mark.parametrize("value", ["[]", '""', "0", "{}"])
def test_a_line_of_many_small_values_takes_memory_as_its_text_does(value: str) -> None:
    wire = next(
        line for line in lines(with_wire()) if '"message": {' in line or '"message":{' in line
    )
    entry = json.loads(wire)
    entry["message"]["params"] = {"many": []}
    size = 2_000_000
    text = json.dumps(entry).replace("[]", f"[{','.join([value] * (size // (len(value) + 1)))}]")
    tracemalloc.start()
    try:
        data = page_data([read_line(text.encode())], Selection())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * size
    assert data.unread == 1
    assert "values" in str(data.rows[0]["about"])


def test_a_line_with_a_long_text_is_read_whatever_stands_in_it() -> None:
    wire = next(
        line for line in lines(with_wire()) if '"message": {' in line or '"message":{' in line
    )
    entry = json.loads(wire)
    entry["message"]["params"] = {"text": 'a, [b], {"c"}, ' * 100_000}
    assert read_line(json.dumps(entry).encode()).problem == ""
