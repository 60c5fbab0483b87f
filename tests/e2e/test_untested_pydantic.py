"""A pydantic that is newer than those that were tested: all works, and the log says that it loads
more slowly."""

from __future__ import annotations

from pathlib import Path

import anyio

from codex_acp.runtime import AgentRuntime, AgentSpec
from codex_acp.testing import CodexHome, ModelResponse, ScriptedModel, Text, exec_command

NEWER = """
import pydantic, pydantic.version
pydantic.VERSION = pydantic.version.VERSION = "9.1.0"
"""
"""Python runs it before the adapter, as ``sitecustomize``."""


async def test_the_adapter_works_with_a_pydantic_to_come_and_says_so_once(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(NEWER, encoding="utf-8")
    script = [
        ModelResponse(
            exec_command("echo made > made.txt", justification="to make it", call_id="c")
        ),
        ModelResponse(Text("Done.")),
    ]
    with ScriptedModel(script) as model, CodexHome(model.base_url) as home:
        env = {**home.env, "PYTHONPATH": str(tmp_path)}
        spec = AgentSpec.codex(env=env, inherit_env=False)
        with anyio.fail_after(60):
            async with (
                AgentRuntime(permissions=lambda asked: asked.option("allow_once")) as runtime,
                runtime.open(spec, cwd=home.workspace) as session,
            ):
                assert (await session.run("Make it.")).text.endswith("Done.")
                assert (home.workspace / "made.txt").read_text() == "made\n"
                log = session._process.stderr_tail
    assert log.count("pydantic 9.1.0 was not tested with this version of codex-acp-sdk") == 1
