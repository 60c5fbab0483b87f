"""The generated tree is what the generator makes of the pinned schemas, and the check can fail."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from codegen import models, regen
from codegen.errors import CodegenError, PinMismatch
from codegen.fitting import check_schemas
from codegen.ir import ClassDef, FieldDef
from codegen.pinned import SCHEMA_DIR, read_pins
from codegen.words import function_of


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    """The generated tree as it stands; that it is what would be generated is the first test."""
    return regen.current_files()


def test_regenerating_changes_nothing() -> None:
    diffs = regen.check()
    assert not diffs, "run `nox -s regen`:\n" + "".join(diffs)[:4000]


def test_one_changed_byte_is_a_difference(generated: dict[str, str]) -> None:
    present = regen.current_files()
    name = "src/codex_acp/codex/_generated/models/turn.py"
    present[name] = present[name].replace("a", "b", 1)
    (diff,) = regen.differences(generated, present)
    assert f"--- tree/{name}" in diff


def test_a_missing_and_a_stale_file_are_differences(generated: dict[str, str]) -> None:
    present = regen.current_files()
    del present["src/codex_acp/codex/_generated/methods.py"]
    present["src/codex_acp/codex/_generated/left_over.py"] = "x = 1\n"
    assert len(regen.differences(generated, present)) == 2


def test_every_generated_file_says_how_it_was_made(generated: dict[str, str]) -> None:
    pins = read_pins()
    for name, text in generated.items():
        first, second = text.splitlines()[:2]
        assert "`nox -s regen` from schema/" in first, name
        assert any(pin.sha256[:16] in first for pin in pins.values()), name
        assert "Do not edit" in second, name


@pytest.fixture
def schema_copy(tmp_path: Path) -> Path:
    shutil.copytree(SCHEMA_DIR, tmp_path / "schema")
    return tmp_path / "schema"


def test_a_schema_that_is_not_the_pinned_one_stops_the_run(schema_copy: Path) -> None:
    file = schema_copy / "acp" / "v1.json"
    file.write_bytes(file.read_bytes() + b"\n")
    with pytest.raises(PinMismatch, match=r"acp/v1\.json has sha256"):
        regen.render_all(schema_copy)


def test_a_missing_schema_stops_the_run(schema_copy: Path) -> None:
    (schema_copy / "codex" / "stable.json").unlink()
    with pytest.raises(PinMismatch, match="missing"):
        regen.render_all(schema_copy)


def test_a_crash_of_the_model_generator_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 1, "", "Traceback: boom")

    monkeypatch.setattr(subprocess, "run", crash)
    monkeypatch.setattr(models, "_WRITTEN", {})
    with pytest.raises(CodegenError, match="boom"):
        regen.render_all()


def test_a_generator_that_drops_a_class_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_run", lambda _: "class Other: pass\n")
    monkeypatch.setattr(models, "_WRITTEN", {})
    with pytest.raises(CodegenError, match="dropped"):
        regen.render_all()


@pytest.mark.parametrize(
    ("word", "other", "problem"),
    [
        ('integer(ge=0), "lineEnd"', 'integer(ge="none")', "MemoryCitationEntry does not fit"),
        ("required(BOOL)", "required(ref('Nowhere'))", "Nowhere does not fit"),
        ("required(BOOL)", "required({'type': 'boolean'})", "AgentMessageModeration does not fit"),
    ],
)
def test_a_word_that_pydantic_core_refuses_stops_the_run(
    generated: dict[str, str], word: str, other: str, problem: str
) -> None:
    path = "src/codex_acp/codex/_generated/schemas/turn.py"
    files = {k: text for k, text in generated.items() if "/codex/_generated/schemas/" in k}
    check_schemas(files)
    with pytest.raises(CodegenError, match=problem):
        check_schemas(files | {path: files[path].replace(word, other, 1)})


def test_a_type_that_there_is_no_word_for_stops_the_run() -> None:
    field = FieldDef("when", {"type": "moment"}, required=True)
    odd = ClassDef("Odd", (field,))
    with pytest.raises(CodegenError, match=r"Odd needs a word that .* does not have: 'moment'"):
        function_of(odd, {"Odd": {"when": field}})


def test_pins_name_package_version_and_command() -> None:
    raw = json.loads((SCHEMA_DIR / "PINNED.json").read_text())
    for source in raw["sources"]:
        assert source.keys() - {"integrity"} == {"package", "version", "command", "files"}
