"""``python -m tests.page.pictures FOLDER``: pictures of a transcript's page, for the documentation.

A session of the real Codex with a scripted model is recorded, with an approval that is allowed,
one that is rejected, a form, a page and a decline; Chromium shows its page, light and dark.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from codex_acp.cli.main import main as command
from codex_acp.runtime import AgentRuntime, AgentSpec, Form, Permission
from codex_acp.testing import (
    CodexHome,
    McpTool,
    ScriptedMcpServer,
    ScriptedModel,
    Step,
    Text,
    apply_patch,
    exec_command,
    form_elicitation,
    mcp_call,
    request_user_input,
    url_elicitation,
)
from tests.page.chromium import Chromium

SIZE = (1200, 780)

PATCH = """\
*** Begin Patch
*** Add File: release.md
+# Release 2.1
*** End Patch"""

QUESTION = {
    "id": "token", "header": "Token", "question": "Which deploy token shall be used?",
    "isOther": True, "isSecret": True, "options": [{"label": "None", "description": ""}],
}  # fmt: skip

SCRIPT: list[list[Step]] = [
    [exec_command("make test > results.txt", justification="May the results be written?")],
    [exec_command("git push --force", justification="May I push?")],
    [apply_patch(PATCH)],
    [mcp_call("deploy", "start", {"version": "2.1"})],
    [mcp_call("deploy", "ask", {})],
    [request_user_input(QUESTION)],
    [Text("The release ", "is prepared.")],
]


def tools() -> list[McpTool]:
    """Of the server ``deploy``."""
    where = {"city": {"type": "string", "title": "City"}}
    forms = [
        form_elicitation("Where shall it be deployed?", where, required=["city"]),
        url_elicitation("Please confirm the deployment", "https://deploy.example/confirm"),
    ]
    return [
        McpTool("start", read_only=False, destructive=True),
        McpTool("ask", read_only=True, elicitations=forms),
    ]


def allow_all_but_the_push(permission: Permission) -> str | None:
    """What the person of the pictures answers."""
    asked = permission.tool_call.title or ""
    option = permission.option("reject_once" if "push" in asked else "allow_once")
    return None if option is None else option.option_id


async def fill_in(_form: Form) -> dict[str, str]:
    """A person takes a moment."""
    await asyncio.sleep(0.8)
    return {"city": "Lisbon"}


async def record(folder: Path, path: Path) -> None:
    """One session, with the wire."""
    server = ScriptedMcpServer(folder, tools(), name="deploy")
    features = {"features": {"default_mode_request_user_input": True}}
    with (
        ScriptedModel(SCRIPT) as model,
        CodexHome(model.base_url, mcp_servers={"deploy": server.config}, config=features) as home,
    ):
        arguments = ("--transcript", str(path), "--transcript-wire")
        argv = (sys.executable, "-P", "-m", "codex_acp", *arguments)
        spec = AgentSpec(argv, env=home.env, inherit_env=False)
        runtime = AgentRuntime(
            permissions=allow_all_but_the_push, on_form=fill_in, on_url=lambda _url: "accept"
        )
        async with runtime, runtime.open(spec, cwd=home.workspace) as session:
            await session.run("Prepare the release.")


def take(page: Path, folder: Path) -> None:
    """``transcript-light.png``, and ``transcript-dark.png`` with what is behind an approval."""
    with Chromium() as chromium:
        chromium.size(*SIZE)
        chromium.open(page)
        chromium.press("j")
        chromium.screenshot(folder / "transcript-light.png")
        chromium.size(*SIZE, "dark")
        chromium.run("document.querySelector('.row.approval').click()")
        chromium.settle()
        chromium.screenshot(folder / "transcript-dark.png")


def main() -> int:
    """Record, make the page, take the pictures."""
    folder = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "session.jsonl")
        asyncio.run(record(Path(name), path))
        page = Path(name, "page.html")
        code = command(["transcript", str(path), "--html", str(page)])
        take(page, folder)
    return code


if __name__ == "__main__":
    sys.exit(main())
