"""What is wrong with a schema or the generator stops it with a message; never "up to date"."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from codegen import __main__ as command
from codegen import codex, models, regen
from codegen.bundles import EXPERIMENTAL, STABLE, check_complete, pack, read_schema_set, unpack
from codegen.drift import main as drift_main
from codegen.errors import BrokenSchema, CodegenError, NameCollision, PinMismatch, UnusedOverride
from codegen.overrides import codex as overrides
from tests.support import small_protocol

Schema = dict[str, Any]


@pytest.fixture(autouse=True)
def no_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    """The small protocol needs none of those that the real one needs."""
    for name in ("NAMES", "RESULTS"):
        monkeypatch.setattr(overrides, name, {})
    monkeypatch.setattr(overrides, "CLOSED_ENUMS", frozenset())


def load(edit: Any = None) -> Any:
    files = small_protocol.files(edit).files
    return codex.load(files[EXPERIMENTAL], files[STABLE])


def test_the_small_protocol_is_fine() -> None:
    assert "Thing" in load().definitions


def two_of_one_name(definitions: Schema) -> None:
    definitions["v2"]["CircleMember"] = {"type": "object", "properties": {}}
    definitions["v2"]["Thing"]["properties"]["c"] = {"$ref": "#/definitions/v2/CircleMember"}


def test_two_types_of_one_name_are_an_error_that_names_both_and_the_cure() -> None:
    with pytest.raises(NameCollision, match=r"CircleMember.*Shape\.circle|Shape\.circle.*Circle"):
        load(two_of_one_name)


def test_to_be_compared_they_get_two_names() -> None:
    files = small_protocol.files(two_of_one_name).files
    protocol = codex.load(files[EXPERIMENTAL], files[STABLE], strict=False)
    assert {"CircleMember", "ShapeCircle"} <= set(protocol.definitions)


@pytest.mark.parametrize(
    ("table", "value", "said"),
    [
        ("NAMES", {"Gone.thing": "Thing"}, r"Gone\.thing"),
        ("RESULTS", {"gone/get": "GoneResponse"}, "gone/get"),
        ("CLOSED_ENUMS", frozenset({"GoneEnum"}), "GoneEnum"),
    ],
)
def test_an_override_that_nothing_uses_is_an_error(
    monkeypatch: pytest.MonkeyPatch, table: str, value: object, said: str
) -> None:
    monkeypatch.setattr(overrides, table, value)
    with pytest.raises(UnusedOverride, match=said):
        load()


def test_requests_without_a_response_are_all_named_with_the_row_to_add() -> None:
    def edit(definitions: Schema) -> None:
        for wire in ("new/get", "new/put"):
            rows = definitions["ClientRequest"]["oneOf"]
            rows.append(small_protocol.method(wire, "Thing"))

    with pytest.raises(CodegenError, match=r"(?s)'new/get': '…Response',\n.*'new/put': '…Resp"):
        load(edit)


@pytest.mark.parametrize("length", [0, 10, 200])
def test_a_packed_bundle_that_is_cut_off_is_an_error(length: int) -> None:
    with pytest.raises(BrokenSchema, match=r"one\.json\.xz is no packed schema, or is cut off"):
        unpack(pack(small_protocol.files())[:length], "one.json.xz")


def test_a_packed_bundle_is_the_same_bytes_each_time() -> None:
    files = small_protocol.files()
    packed = pack(files)
    assert pack(unpack(packed, "x")) == packed == pack(files)


def test_a_bundle_that_lacks_a_reference_is_an_error() -> None:
    schema = small_protocol.bundle()
    del schema["definitions"]["v2"]["Color"]
    with pytest.raises(BrokenSchema, match="Color, which it lacks"):
        check_complete(EXPERIMENTAL, schema)


def test_a_folder_without_pins_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BrokenSchema, match="neither a schema folder"):
        read_schema_set(tmp_path)
    assert drift_main([str(tmp_path), str(tmp_path)]) == 2


@pytest.mark.parametrize("arguments", [[], ["--check"]])
@pytest.mark.parametrize(
    "error", [CodegenError("the generator failed:\nboom"), PinMismatch("boom"), KeyError("boom")]
)
def test_a_crash_is_never_up_to_date(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    error: Exception,
) -> None:
    def crash(_: object) -> str:
        raise error

    monkeypatch.setattr(models, "_run", crash)
    monkeypatch.setattr(regen, "load_codex", lambda _: load())
    monkeypatch.setattr(regen, "CODEX_HOT", {})
    monkeypatch.setattr(sys, "argv", ["codegen", *arguments])
    assert command.main() == 2
    captured = capsys.readouterr()
    assert "boom" in captured.err
    assert captured.out == ""
