"""A call of an MCP server's tool, or of a tool that the client gave, as a tool call.

Source: Codex schema ``McpToolCallThreadItem``, ``DynamicToolCallThreadItem``,
``FunctionCallOutputThreadItem``. What a tool wrote is shown as code: it is the
tool's words, which a person must not take for the agent's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.mapping.calls.call import Call, Ending, Phase, ending, structured
from codex_acp.mapping.events.session_events import tool_call_id
from codex_acp.mapping.prompt.content_blocks import (
    json_content,
    mcp_content,
    output_block,
    output_content,
    without_data,
)
from codex_acp.routing.content import CONTENT_LIMIT, code_content
from codex_acp.routing.display import inline
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from codex_acp.codex._generated import models
    from codex_acp.mapping.events.content import CallContent


def mcp_call(item: models.McpToolCallThreadItem, phase: Phase) -> Call:
    """``server: tool``, its arguments, and the blocks of its result or its error."""
    end = ending(item.status, phase)
    content = arguments_content(item.arguments)
    result: object = None
    if item.result is not None:
        content += [mcp_content(block) for block in item.result.content]
        result = without_data(plain(item.result.structured_content))
        if result is not None and not item.result.content:
            content.append(json_content(result))
    if item.error is not None:
        content.append(code_content(item.error.message, heading="Error:"))
    return Call(
        id=tool_call_id(item.id),
        title=f"{inline(item.server)}: {inline(item.tool)}",
        kind="read" if item.read_only_hint else "other",
        status=end.status,
        content=[*content, *end.content],
        raw_input={"server": item.server, "tool": item.tool, "arguments": plain(item.arguments)},
        raw_output=structured(structuredContent=result, durationMs=item.duration_ms),
        name=item.tool,
    )


def arguments_content(arguments: object, limit: int = CONTENT_LIMIT) -> list[CallContent]:
    """The arguments of a call, for a client that shows no raw input; nothing if there are none.

    At most ``limit`` characters of them.
    """
    return [json_content(arguments, "Arguments:", limit)] if arguments not in (None, {}) else []


def dynamic_call(item: models.DynamicToolCallThreadItem, phase: Phase) -> Call:
    """A tool that the program itself registered with Codex."""
    end = ending(item.status, phase)
    if end.status == "completed" and item.success is False:
        end = Ending("failed")
    content = arguments_content(item.arguments)
    content += [output_content(part) for part in item.content_items or ()]
    return Call(
        id=tool_call_id(item.id),
        title=_tool_name(item.namespace, item.tool),
        kind="other",
        status=end.status,
        content=[*content, *end.content],
        raw_input={
            "namespace": item.namespace,
            "tool": item.tool,
            "arguments": plain(item.arguments),
        },
        raw_output=structured(success=item.success, durationMs=item.duration_ms),
        name=item.tool,
    )


def function_output_call(item: models.FunctionCallOutputThreadItem, phase: Phase) -> Call:
    """Return the tool call of an output that Codex keeps without its call."""
    end = ending(None, phase)
    output = item.output
    content: list[CallContent]
    if isinstance(output, str):
        content = [output_block(output)] if output else []
    else:
        content = [output_content(part) for part in output]
    return Call(
        id=tool_call_id(item.id),
        title=_tool_name(item.namespace, item.name),
        kind="other",
        status=end.status,
        content=[*content, *end.content],
        raw_input={"namespace": item.namespace, "name": item.name},
        name=item.name,
    )


def _tool_name(namespace: str | None, name: str) -> str:
    return inline(name) if namespace is None else f"{inline(namespace)}: {inline(name)}"
