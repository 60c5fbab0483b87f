"""The sandbox that a new session is given after its start, and the option of trust."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codex_acp.errors import RpcError
from codex_acp.jsonrpc import JsonValue
from codex_acp.mapping.trust import left_out_line, unrestored_line
from codex_acp.testing import Expect
from tests.adapter.config_bench import FULL, LISTS, THREAD, ConfigBench, by_id, taken

GIVEN: dict[str, JsonValue] = {"sandboxPolicy": FULL}
IN_FORCE: dict[str, JsonValue] = {"sandboxPolicy": FULL, "activePermissionProfile": None}


def unrestored(bench: ConfigBench) -> str | None:
    assert bench.opened is not None
    return bench.opened.unrestored


async def test_7_2_what_is_restored_is_what_is_configured() -> None:
    async with ConfigBench(*LISTS, *taken(**IN_FORCE)) as bench:
        answer = await bench.open(restore=GIVEN)
        assert bench.asked("thread/settings/update") == [{"threadId": THREAD, **GIVEN}]
        mode = by_id(answer["configOptions"])["mode"]
        assert mode["currentValue"] == "configured"
        assert "no sandbox" in str(mode)
        assert unrestored(bench) is None


async def test_7_2_what_codex_refuses_is_said_and_nothing_is_widened() -> None:
    error: dict[str, object] = {"code": -32600, "message": "not allowed here"}
    refusal = Expect("thread/settings/update", error=error)
    async with ConfigBench(*LISTS, refusal) as bench:
        answer = await bench.open(restore=GIVEN)
        assert "not allowed here" in str(unrestored(bench))
        assert by_id(answer["configOptions"])["mode"]["currentValue"] != "configured"


def read(**projects: Any) -> Any:
    """An answer of ``config/read``."""
    return {"config": {"projects": projects}, "layers": []}


@pytest.mark.parametrize(("booleans", "value"), [(False, "trusted"), (True, True)])
async def test_trust_is_asked_of_codex_and_then_stays_as_it_is(
    tmp_path: Path, booleans: bool, value: str | bool
) -> None:
    written = Expect("config/batchWrite", {"status": "ok"})
    async with ConfigBench(*LISTS, written, booleans=booleans) as bench:
        directory = bench.config.ask_lists(bench.codex, str(tmp_path), read())
        answer = await bench.open(directory=directory)
        option = by_id(answer["configOptions"])["trust"]
        assert option["type"] == ("boolean" if booleans else "select")
        assert str(tmp_path) in option["description"]

        options = await bench.set("trust", value)
        assert options["trust"]["currentValue"] == (True if booleans else "trusted")
        if booleans:
            with pytest.raises(RpcError, match="take that back"):
                await bench.set("trust", False)
        (asked,) = bench.asked("config/batchWrite")
        assert str(tmp_path) in str(asked["edits"])
        assert asked["reloadUserConfig"] is True


async def test_a_configuration_that_cannot_be_written_leaves_it_undecided(tmp_path: Path) -> None:
    error: dict[str, object] = {"code": -32603, "message": "read-only file"}
    refusal = Expect("config/batchWrite", error=error)
    async with ConfigBench(*LISTS, refusal) as bench:
        directory = bench.config.ask_lists(bench.codex, str(tmp_path), read())
        await bench.open(directory=directory)
        with pytest.raises(RpcError, match="read-only file"):
            await bench.set("trust", "trusted")
        assert "trust" in [option.id for option in bench.config.options(THREAD)]


async def test_what_is_decided_is_no_option(tmp_path: Path) -> None:
    async with ConfigBench(*LISTS) as bench:
        known = read(**{str(tmp_path): {"trust_level": "trusted"}})
        directory = bench.config.ask_lists(bench.codex, str(tmp_path), known)
        assert "trust" not in by_id((await bench.open(directory=directory))["configOptions"])


def test_the_lines_show_what_is_invisible_in_a_name() -> None:
    line = left_out_line([("/a\u202e/.codex", ["hooks"])], "/a\u202e")
    assert "\u202e" not in line
    assert "hooks in /a" in line
    assert "\x1b" not in unrestored_line("\x1b[2J")
