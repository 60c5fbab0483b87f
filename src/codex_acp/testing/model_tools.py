"""Calls of the tools that Codex offers its model, by name.

Owns the argument names of those tools; each function only builds a step. The names and
arguments are those of Codex with a model that has classic tools (``gpt-5.5``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from codex_acp.testing.model_steps import CustomToolCall, ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def exec_command(
    cmd: str,
    *,
    justification: str | None = None,
    workdir: str | None = None,
    yield_time_ms: int | None = None,
    tty: bool | None = None,
    call_id: str | None = None,
) -> ToolCall:
    """Run a shell command. With a ``justification`` it asks to leave the sandbox, so that
    Codex requests an approval under the policy ``on-request``; without one it runs inside it.
    """
    arguments: dict[str, object] = {"cmd": cmd}
    if justification is not None:
        arguments["sandbox_permissions"] = "require_escalated"
        arguments["justification"] = justification
    optional = {"workdir": workdir, "yield_time_ms": yield_time_ms, "tty": tty}
    arguments.update({key: value for key, value in optional.items() if value is not None})
    return ToolCall("exec_command", arguments, call_id=call_id)


def write_stdin(
    session_id: int,
    chars: str = "",
    *,
    yield_time_ms: int | None = None,
    call_id: str | None = None,
) -> ToolCall:
    """Write to, or with no ``chars`` only poll, a command that is still running."""
    arguments: dict[str, object] = {"session_id": session_id, "chars": chars}
    if yield_time_ms is not None:
        arguments["yield_time_ms"] = yield_time_ms
    return ToolCall("write_stdin", arguments, call_id=call_id)


def apply_patch(patch: str, *, call_id: str | None = None) -> CustomToolCall:
    """Change files; ``patch`` runs from ``*** Begin Patch`` to ``*** End Patch``."""
    return CustomToolCall("apply_patch", patch, call_id=call_id)


def add_file(path: str, content: str, *, call_id: str | None = None) -> CustomToolCall:
    """An :func:`apply_patch` that adds one file; ``path`` is relative to the working directory."""
    added = "".join(f"+{line}\n" for line in content.splitlines())
    return apply_patch(
        f"*** Begin Patch\n*** Add File: {path}\n{added}*** End Patch\n", call_id=call_id
    )


def update_plan(
    *steps: tuple[str, Literal["pending", "in_progress", "completed"]],
    explanation: str | None = None,
    call_id: str | None = None,
) -> ToolCall:
    """Set the plan; each step is its text and its status."""
    arguments: dict[str, object] = {
        "plan": [{"step": step, "status": status} for step, status in steps]
    }
    if explanation is not None:
        arguments["explanation"] = explanation
    return ToolCall("update_plan", arguments, call_id=call_id)


def view_image(path: str, *, call_id: str | None = None) -> ToolCall:
    """Look at an image file."""
    return ToolCall("view_image", {"path": path}, call_id=call_id)


def request_user_input(*questions: Mapping[str, object], call_id: str | None = None) -> ToolCall:
    """Ask the user. A question has ``id``, ``header``, ``question`` and
    ``options`` (``[{label, description}]``); needs the feature ``default_mode_request_user_input``.
    """
    return ToolCall("request_user_input", {"questions": list(questions)}, call_id=call_id)


def request_permissions(
    reason: str, *, network: bool = False, write: Sequence[str] = (), call_id: str | None = None
) -> ToolCall:
    """Ask for network access or for directories to write.

    Needs the feature ``request_permissions_tool``.
    """
    permissions: dict[str, object] = {}
    if network:
        permissions["network"] = {"enabled": True}
    if write:
        permissions["file_system"] = {"write": list(write)}
    arguments = {"reason": reason, "permissions": permissions}
    return ToolCall("request_permissions", arguments, call_id=call_id)


def mcp_call(
    server: str,
    tool: str,
    arguments: Mapping[str, object] | None = None,
    *,
    call_id: str | None = None,
) -> ToolCall:
    """Call ``tool`` of the MCP server that the configuration calls ``server``."""
    return ToolCall(tool, dict(arguments or {}), namespace=f"mcp__{server}", call_id=call_id)
