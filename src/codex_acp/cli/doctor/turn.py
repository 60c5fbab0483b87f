"""A whole turn: ACP client → adapter → the real Codex → a scripted model, in a throw-away home."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Final

from codex_acp.cli.doctor.finding import Finding, problem
from codex_acp.cli.loopback import BRING_IT_UP, NO_LOOPBACK, has_loopback
from codex_acp.errors import CodexAcpError
from codex_acp.runtime import AgentRuntime, AgentSpec
from codex_acp.testing import CodexHome, ScriptedModel, Text, exec_command

if TYPE_CHECKING:
    from codex_acp.cli.doctor.limits import Deadline
    from codex_acp.runtime import PromptResult

TURN_SECONDS: Final = 60.0
"""For all of it; it takes two, and twenty on a slow disk."""

TEXT: Final = "There is one file."
FILE: Final = "a-file-of-the-doctor"
SCRIPT: Final = ((exec_command("ls"),), (Text(TEXT),))


async def look_at_turn(codex: str, deadline: Deadline) -> Finding:
    """Send one prompt, have Codex run ``ls`` in its sandbox, and compare what comes back."""
    if not has_loopback():
        return problem("turn", NO_LOOPBACK, BRING_IT_UP)
    seconds = deadline.left(TURN_SECONDS)
    advice = "codex-acp-sdk demo --yes --wire shows the same turn line by line"
    try:
        with ScriptedModel(SCRIPT) as model, CodexHome(model.base_url) as home:
            (home.workspace / FILE).touch()
            async with asyncio.timeout(seconds):
                result = await _run(codex, home)
            outputs = [text for request in model.requests for text in request.tool_outputs.values()]
    except TimeoutError:
        return problem("turn", f"a turn did not end within {seconds:.3g} s", advice)
    except (CodexAcpError, OSError) as error:
        return problem("turn", f"a turn failed: {error}", advice)
    if result.stop_reason != "end_turn" or TEXT not in result.text:
        text = f"a turn ended with {result.stop_reason} and another text than the model's"
        return problem("turn", text, advice)
    if not any(FILE in text for text in outputs):
        return problem("turn", "a command of a turn did not give its output to the model", advice)
    return Finding("turn", "ok", "a whole turn, with a command in the sandbox, went as scripted")


async def _run(codex: str, home: CodexHome) -> PromptResult:
    # -P: a module that lies in the current directory must not be taken for one of ours.
    command = (sys.executable, "-P", "-m", "codex_acp", "serve", "--codex", codex)
    env = home.env
    if search_path := os.environ.get("PYTHONPATH"):
        env["PYTHONPATH"] = search_path
    spec = AgentSpec(command, name="the adapter", env=env, inherit_env=False)
    async with AgentRuntime() as runtime, runtime.open(spec, cwd=home.workspace) as session:
        return await session.run("What is here?")
