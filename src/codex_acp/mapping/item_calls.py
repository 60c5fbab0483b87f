"""The tool call of each item that is one: a function of the item alone.

Only looks at files, and what streamed of an output that the item lacks, come from outside. So an
item that is replayed shows what it showed when it was live.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from codex_acp._json import text_at
from codex_acp._record import replace
from codex_acp.codex._generated import models
from codex_acp.codex.approvals.actions import created_paths, move_target
from codex_acp.mapping.call import (
    UNFINISHED,
    Call,
    Ending,
    Phase,
    cut_off_list,
    ending,
    named,
    structured,
)
from codex_acp.mapping.content import CallContent, ImageBlock, Location, TerminalContent, TextBlock
from codex_acp.mapping.events import (
    CallKind,
    Severity,
    TerminalExit,
    TerminalState,
    ToolCallChanged,
    tool_call_id,
)
from codex_acp.mapping.prompt import (
    block_content,
    file_link,
    json_content,
    link,
    mcp_content,
    output_block,
    output_content,
    without_data,
)
from codex_acp.routing.changes import (
    CONTENT_LIMIT,
    Change,
    changes_title,
    code_content,
    patch_of,
    real_paths,
    shown_path,
)
from codex_acp.routing.display import TITLE_LIMIT, inline, listed, visible
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codex_acp.mapping.call import Phase, ToolItem
    from codex_acp.mapping.content import CallContent
    from codex_acp.mapping.state import SessionState
    from codex_acp.routing.changes import Looks


def call_of(state: SessionState, item: ToolItem, phase: Phase, streamed: str | None = None) -> Call:
    """The tool call of an item. Of ``state`` only the inputs are read.

    Raw output stands for an end, and is left out before: a later update could not take it back.
    """
    call = _call_of(state, item, phase, streamed)
    return call if phase == "over" else replace(call, raw_output=None)


def last_phase(item: ToolItem) -> Phase:
    """Where an item stands of which nothing more is told."""
    return "cut_off" if status_of(item) == "inProgress" else "over"


def _call_of(state: SessionState, item: ToolItem, phase: Phase, streamed: str | None) -> Call:
    match item:
        case models.CommandExecutionThreadItem():
            terminal = state.client.shows_terminals
            return command_call(
                item,
                phase,
                looks_of(state, tool_call_id(item.id)),
                terminal=terminal,
                streamed=streamed,
            )
        case models.FileChangeThreadItem():
            return file_change_call(item, phase, looks_of(state, tool_call_id(item.id)))
        case models.McpToolCallThreadItem():
            return mcp_call(item, phase)
        case models.DynamicToolCallThreadItem():
            return dynamic_call(item, phase)
        case models.FunctionCallOutputThreadItem():
            return function_output_call(item, phase)
        case models.CollabAgentToolCallThreadItem() | models.SubAgentActivityThreadItem():
            return agent_call(item, phase)
        case models.WebSearchThreadItem():
            return web_search_call(item, phase)
        case models.ImageViewThreadItem():
            return image_view_call(item, phase)
        case models.ImageGenerationThreadItem() | models.FileIdImageGenerationThreadItem():
            return image_generation_call(item, phase)
        case models.SleepThreadItem():
            return sleep_call(item, phase)
        case UnknownVariant():
            return unknown_call(item, phase)
        case _:
            assert_never(item)


def looks_of(state: SessionState, call_id: str) -> Looks:
    """Return how the disk has the paths of an item, as far as that was kept from its start."""
    open_call = state.open_calls.get(call_id)
    return state.looks if open_call is None else {**state.looks, **open_call.looks}


def looks_kept(item: ToolItem, looks: Looks) -> Looks:
    """Return the looks to be kept from an item's start: a later one may be behind what it does."""
    kept: list[str] = []
    if isinstance(item, models.FileChangeThreadItem):
        moved = [change.path for change in item.changes if move_target(change) is not None]
        kept = [*created_paths(item.changes), *moved]
    elif isinstance(item, models.CommandExecutionThreadItem):
        kept = [item.cwd]
    return {path: looks[path] for path in kept if path in looks}


def id_of(item: ToolItem) -> str:
    """The id of its tool call."""
    return tool_call_id(unknown_item_id(item) if isinstance(item, UnknownVariant) else item.id)


def status_of(item: models.ThreadItem) -> str | None:
    """How an item stands by its own word; None of one whose type has none."""
    status = item.wire().get("status") if isinstance(item, UnknownVariant) else None
    status = getattr(item, "status", status)
    return status if isinstance(status, str) else None


# Map Codex's work with its sub-agents to tool calls in a person's words.

_TOOLS: Final = {
    "spawnAgent": "Start a sub-agent",
    "sendInput": "Give input to",
    "sendMessage": "Send a message to",
    "resumeAgent": "Resume",
    "wait": "Wait for",
    "closeAgent": "Close",
    "followupTask": "Give another task to",
    "interruptAgent": "Interrupt",
    "listAgents": "List the sub-agents",
}
"""Tool of the schema → what it does; those in `_ALONE` name no sub-agent."""
_ALONE: Final = frozenset({"spawnAgent", "listAgents"})
_STATES: Final = {
    "pendingInit": "starting",
    "running": "running",
    "interrupted": "interrupted",
    "completed": "done",
    "errored": "failed",
    "shutdown": "closed",
    "notFound": "not found",
}
_ACTIVITIES: Final = {
    "started": "started",
    "interacted": "was written to",
    "interrupted": "was interrupted",
    "completed": "is done",
}


def agent_call(
    item: models.CollabAgentToolCallThreadItem | models.SubAgentActivityThreadItem, phase: Phase
) -> Call:
    """The tool call of an item that is about sub-agents."""
    if isinstance(item, models.SubAgentActivityThreadItem):
        return _activity(item, phase)
    return _collab(item, phase)


def _collab(item: models.CollabAgentToolCallThreadItem, phase: Phase) -> Call:
    """A sub-agent is started, written to, waited for: the prompt, and how all of them are."""
    end = ending(item.status, phase)
    content: list[CallContent] = []
    if item.prompt:
        content.append(code_content(item.prompt))
    states = [
        f"- {inline(thread)}: {_STATES.get(state.status) or inline(state.status)}"
        + (f" ({inline(state.message)})" if state.message else "")
        for thread, state in item.agents_states.items()
    ]
    if states:
        content.append(TextBlock("\n".join(["Sub-agents:", *states])))
    return Call(
        id=tool_call_id(item.id),
        title=_title(item),
        kind="other",
        status=end.status,
        content=[*content, *end.content],
        raw_input=structured(
            tool=item.tool,
            receiverThreadIds=item.receiver_thread_ids,
            prompt=item.prompt,
            model=item.model,
            reasoningEffort=item.reasoning_effort,
        ),
        raw_output={"agentsStates": plain(item.agents_states)} if item.agents_states else None,
        name=str(item.tool),
    )


def _activity(item: models.SubAgentActivityThreadItem, phase: Phase) -> Call:
    """Something happened to a sub-agent."""
    activity = _ACTIVITIES.get(item.kind) or inline(item.kind)
    end = ending(None, phase)
    return Call(
        id=tool_call_id(item.id),
        title=f"Sub-agent {inline(item.agent_path)} {activity}",
        kind="other",
        status=end.status,
        content=end.content,
        raw_input=structured(
            kind=item.kind,
            agentPath=item.agent_path,
            agentThreadId=item.agent_thread_id,
            model=item.model,
            reasoningEffort=item.reasoning_effort,
        ),
    )


def _title(item: models.CollabAgentToolCallThreadItem) -> str:
    words = _TOOLS.get(item.tool)
    if words is None:
        return f"Sub-agents: {inline(item.tool)}"
    if item.tool in _ALONE:
        return words
    count = len(item.receiver_thread_ids)
    return f"{words} a sub-agent" if count == 1 else f"{words} {count or 'the'} sub-agents"


# A command as a tool call: what ran, its output, its exit code.

_IN_A_SHELL: Final = re.compile(r"(?:/[\w./+-]*/)?(?:ba|da|fi|k|z)?sh -(?:l|i|li)?c ", re.ASCII)
"""How a command begins that Codex runs in a shell."""
_UNQUOTED_LIMIT: Final = 16 * 1024
"""Characters; `shlex` needs a second and a half for a megabyte."""


def command_call(
    item: models.CommandExecutionThreadItem,
    phase: Phase,
    looks: Looks,
    *,
    terminal: bool = False,
    streamed: str | None = None,
) -> Call:
    """The tool call of a command. ``looks``: how the disk has where it runs, if it was looked at.

    ``streamed`` stands in for the output of an item that has none; ``terminal``: the client shows
    the output in a terminal of its own.
    """
    whole = item.aggregated_output
    output = streamed if whole is None else whole
    end = _ending(item, phase)
    content = command_content(item, terminal=terminal)
    if output and not terminal:
        content.append(output_block(output))
    if phase != "running":
        content += [] if terminal else _exit_line(item)
        content += end.content
    return Call(
        id=tool_call_id(item.id),
        title=_wording(item) or _shown(script_of(item.command)),
        kind=_kind(item.command_actions),
        status=end.status,
        content=content,
        locations=[Location(path) for path in _paths(item)],
        raw_input={
            "command": item.command,
            "cwd": item.cwd,
            "source": item.source,
            **_real_cwd(item, looks),
        },
        raw_output=structured(exitCode=item.exit_code, durationMs=item.duration_ms),
    )


def command_content(
    item: models.CommandExecutionThreadItem, *, terminal: bool = False, limit: int = CONTENT_LIMIT
) -> list[CallContent]:
    """Return the content before the output: the command, unless the title is just that.

    At most ``limit`` characters of it.
    """
    if terminal:
        return [TerminalContent(tool_call_id(item.id))]
    script = script_of(item.command)
    if _wording(item) is None and visible(script) == script and len(script) <= TITLE_LIMIT:
        return []
    return [code_content(script, "sh", limit=limit)]


def script_of(command: str) -> str:
    """The command without the shell that Codex starts for it (``/bin/bash -lc '…'``)."""
    found = _IN_A_SHELL.match(command)
    if found is None:
        return command
    quoted = command[found.end() :]
    inner = quoted[1:-1]
    if len(quoted) > 1 and quoted[0] == quoted[-1] == "'" and "'" not in inner:
        return inner if inner.strip() else command
    if len(quoted) > _UNQUOTED_LIMIT:
        return command
    try:
        words = shlex.split(quoted)
    except ValueError:
        return command
    return words[0] if len(words) == 1 and words[0].strip() else command


def terminal_state(
    item: models.CommandExecutionThreadItem,
    *,
    begins: bool = False,
    output: str | None = None,
    ended: bool = False,
) -> TerminalState | None:
    """Return the change of the command's terminal, which has the tool call's id; None: none.

    With an output, also an empty one, where it ``begins`` a client has none of before.
    """
    if not (begins or output or ended):
        return None
    return TerminalState(
        tool_call_id(item.id),
        cwd=item.cwd if begins else None,
        command=visible(item.command, multiline=True) if begins else None,
        output=output if begins else output or None,
        exit=TerminalExit(item.exit_code) if ended else None,
    )


def runs_on(item: models.CommandExecutionThreadItem) -> str:
    """Return the note that a command outlives its turn, and what the person can do about it."""
    process = inline(item.process_id or "")
    return f"Runs on in the background. `/ps` lists what does, `/stop {process}` ends it."


def ended_in_background(item: models.CommandExecutionThreadItem) -> tuple[str, Severity, str]:
    """Return the note that a background command ended: title, severity and command."""
    how = "" if item.exit_code is None else f" with exit code {item.exit_code}"
    return f"A command in the background has ended{how}", "info", script_of(item.command)


def _real_cwd(item: models.CommandExecutionThreadItem, looks: Looks) -> dict[str, object]:
    places = real_paths({item.cwd: looks[item.cwd]}) if item.cwd in looks else {}
    return {"realPaths": places} if places else {}


def _ending(item: models.CommandExecutionThreadItem, phase: Phase) -> Ending:
    end = ending(item.status, phase)
    if end.line != UNFINISHED:
        return end
    # Codex lets the process of an interrupted command live on.
    process = "" if item.process_id is None else f" (process {inline(item.process_id)})"
    return Ending(
        end.status, f"{UNFINISHED} Its process may still run as a background terminal{process}."
    )


def _exit_line(item: models.CommandExecutionThreadItem) -> list[CallContent]:
    return [] if item.exit_code is None else [TextBlock(f"Exit code: {item.exit_code}")]


def _shown(script: str) -> str:
    return inline(script) or "(no command given)"


def _kind(actions: Sequence[models.CommandAction]) -> CallKind:
    if actions and all(isinstance(action, models.ReadCommandAction) for action in actions):
        return "read"
    if actions and all(
        isinstance(action, models.SearchCommandAction | models.ListFilesCommandAction)
        for action in actions
    ):
        return "search"
    return "execute"


def _wording(item: models.CommandExecutionThreadItem) -> str | None:
    """Return a command's work in words, if it only reads or only searches."""
    actions = item.command_actions
    if _kind(actions) == "execute":
        return None
    reads = [action.name for action in actions if isinstance(action, models.ReadCommandAction)]
    if reads:
        return named("Read", list(dict.fromkeys(reads)), "files")
    return listed(list(dict.fromkeys(_searched(action) for action in actions)))


def _searched(action: models.CommandAction) -> str:
    where = getattr(action, "path", None)
    place = f" in {inline(where)}" if where else ""
    if isinstance(action, models.SearchCommandAction):
        what = f" for {inline(action.query)}" if action.query else ""
        return f"Search{what}{place}"
    return f"List files{place}"


def _paths(item: models.CommandExecutionThreadItem) -> list[str]:
    """Absolute paths that the command reads or searches."""
    paths: list[str] = []
    for action in item.command_actions:
        if isinstance(action, models.UnknownCommandAction | UnknownVariant) or not action.path:
            continue
        path = action.path
        paths.append(path if path.startswith("/") else f"{item.cwd.rstrip('/')}/{path}")
    return list(dict.fromkeys(paths))


# A file change as a tool call: one diff for each file.


_UNDONE: Final = frozenset({"inProgress", "failed", "declined"})
"""States in which the files should still be as before."""


def file_change_call(item: models.FileChangeThreadItem, phase: Phase, looks: Looks) -> Call:
    """The tool call of a file change. ``looks``: how the disk has the paths that were looked at."""
    end = ending(item.status, phase)
    changes = _changes(item, looks)
    return Call(
        id=tool_call_id(item.id),
        title=changes_title(changes, lambda path: shown_path(_change_base(path)), cut_off_list),
        kind=_change_kind(item.changes),
        status=end.status,
        content=[part for change in changes for part in change.content()] + end.content,
        locations=[place for change in changes for place in change.locations()],
        raw_input={"changes": [change.summary() for change in changes]},
    )


def changes_update(
    call_id: str,
    item: models.FileChangeThreadItem,
    content: Sequence[CallContent],
    looks: Looks,
) -> ToolCallChanged:
    """The diffs of a file change that is being written, and nothing else of it."""
    places = [place for change in _changes(item, looks) for place in change.locations()]
    return ToolCallChanged(id=call_id, content=list(content), locations=places)


def _changes(item: models.FileChangeThreadItem, looks: Looks) -> list[Change]:
    undone = item.status in _UNDONE
    return [Change(change, looks, undone=undone, waiting=False) for change in item.changes]


def wanted_looks(told: object, roots: Sequence[str]) -> Mapping[str, bool]:
    """Return the paths to look at before ``told`` is shown, and whether their texts are wanted.

    ``told`` is an item, or the params of a notification; of most it is none. ``roots`` are the
    session's directories.
    """
    match told:
        case models.ItemStartedNotification(item=models.CommandExecutionThreadItem(cwd=cwd)):
            return {} if cwd in roots else {cwd: False}
        case models.ItemStartedNotification() | models.ItemCompletedNotification():
            return wanted_looks(told.item, roots)
        case models.FileChangeThreadItem() | models.FileChangePatchUpdatedNotification():
            return wanted_of_changes(told.changes)
    return {}


def wanted_of_changes(changes: Sequence[models.FileUpdateChange]) -> dict[str, bool]:
    """Return the paths of changes, and whether their texts are wanted: a deletion comes with it."""
    wanted = {
        change.path: not isinstance(change.kind, models.DeletePatchChangeKind) for change in changes
    }
    return wanted | dict.fromkeys(filter(None, map(move_target, changes)), True)


def _change_kind(changes: Sequence[models.FileUpdateChange]) -> CallKind:
    if changes and all(isinstance(change.kind, models.DeletePatchChangeKind) for change in changes):
        return "delete"
    if changes and all(move_target(change) and not patch_of(change) for change in changes):
        return "move"
    return "edit"


def _change_base(path: str) -> str:
    return path.rsplit("/", 1)[-1] or path


# A call of an MCP server's tool, or of a tool that the client gave, as a tool call.


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


# Searches, images, pauses, and what the schema does not know, as tool calls.

if TYPE_CHECKING:
    from codex_acp.mapping.events import CallKind

    _ImageGeneration: TypeAlias = (
        models.ImageGenerationThreadItem | models.FileIdImageGenerationThreadItem
    )
_IMAGE_TYPES: Final = {
    "iVBOR": "image/png",
    "/9j/": "image/jpeg",
    "UklGR": "image/webp",
    "R0lGOD": "image/gif",
}
"""How base64 of an image begins → its type."""
_SHOWN_OF_A_REFERENCE: Final = 200
"""Characters of an image's result that is no image data."""


def web_search_call(item: models.WebSearchThreadItem, phase: Phase) -> Call:
    """A search of the web, or a page of it: results as links."""
    title, kind = _web_searched(item)
    end = ending(None, phase)
    results = item.results or []
    return Call(
        id=tool_call_id(item.id),
        title=title,
        kind=kind,
        status=end.status,
        content=[*(_result(result) for result in results), *end.content],
        raw_input={"query": item.query, "action": plain(item.action)},
        raw_output=structured(results=plain(results) if results else None),
    )


def image_view_call(item: models.ImageViewThreadItem, phase: Phase) -> Call:
    """The model looks at an image file."""
    end = ending(None, phase)
    return Call(
        id=tool_call_id(item.id),
        title=f"View image {inline(_base(item.path))}",
        kind="read",
        status=end.status,
        content=[file_link(item.path), *end.content],
        locations=[Location(item.path)],
        raw_input={"path": item.path},
    )


def image_generation_call(item: _ImageGeneration, phase: Phase) -> Call:
    """An image is made: itself, where it was saved, or why there is none."""
    end = _image_ending(item, phase)
    content: list[CallContent] = [file_link(item.saved_path)] if item.saved_path else []
    result = _result_of(item)
    if result:
        content.append(_image(result))
    if item.failure is not None:
        content.append(TextBlock(_failure(item.failure)))
    return Call(
        id=tool_call_id(item.id),
        title="Generate image",
        kind="other",
        status=end.status,
        content=[*content, *end.content],
        locations=[Location(item.saved_path)] if item.saved_path else [],
        raw_input={"revisedPrompt": item.revised_prompt},
        raw_output=structured(status=item.status or None, savedPath=item.saved_path),
    )


def sleep_call(item: models.SleepThreadItem, phase: Phase) -> Call:
    """The model waits."""
    end = ending(None, phase)
    return Call(
        id=tool_call_id(item.id),
        title=f"Wait {item.duration_ms / 1000:g} s",
        kind="other",
        status=end.status,
        content=end.content,
        raw_input={"durationMs": item.duration_ms},
    )


def unknown_call(item: UnknownVariant, phase: Phase) -> Call:
    """An item of a newer Codex: whole, under the name of its type."""
    whole = item.wire()
    end = ending(text_at(whole, "status"), phase)
    return Call(
        id=tool_call_id(unknown_item_id(item)),
        title=inline(str(whole.get("type"))),
        kind="other",
        status=end.status,
        content=end.content,
        raw_input=plain(whole),
    )


def unknown_item_id(item: UnknownVariant) -> str:
    """Its id; all of a type that has none are one."""
    whole = item.wire()
    item_id = text_at(whole, "id")
    return f"item {whole.get('type')}" if item_id is None else item_id


def _web_searched(item: models.WebSearchThreadItem) -> tuple[str, CallKind]:
    action = item.action
    match action:
        case models.OpenPageWebSearchAction():
            return f"Open {inline(action.url or item.query or 'a page')}", "fetch"
        case models.FindInPageWebSearchAction():
            page = inline(action.url or "the page")
            what = f"{inline(action.pattern)} in " if action.pattern else "in "
            return f"Find {what}{page}", "fetch"
        case models.SearchWebSearchAction():
            asked = [action.query] if action.query else (action.queries or [item.query])
            return _search_title(", ".join(asked)), "search"
        case models.OtherWebSearchAction() | UnknownVariant() | None:
            return _search_title(item.query), "search"
        case _:
            assert_never(action)


def _search_title(query: str) -> str:
    return f"Search the web: {inline(query)}" if query else "Search the web"


def _result(result: object) -> CallContent:
    """A result as a link, if it has an address; else as JSON."""
    url = text_at(result, "url")
    if url is None:
        return json_content(result)
    return link(text_at(result, "title") or url, url, text_at(result, "snippet"))


def _result_of(item: _ImageGeneration) -> str:
    """The image itself, or where it is; since Codex 0.169 that may be the id of a file."""
    return item.file_id if isinstance(item, models.FileIdImageGenerationThreadItem) else item.result


def _image_ending(item: _ImageGeneration, phase: Phase) -> Ending:
    """Its status is any word (some models leave it at ``generating``): what came counts."""
    if phase == "running":
        return ending(None, phase)
    if item.failure is not None or item.status == "failed":
        return Ending("failed")
    if _result_of(item) or item.saved_path or item.status == "completed":
        return Ending("completed")
    return ending(None, "cut_off")


def _image(result: str) -> CallContent:
    for beginning, mime_type in _IMAGE_TYPES.items():
        if result.startswith(beginning):
            return block_content(ImageBlock(result, mime_type))
    return TextBlock(f"Image: {inline(result, _SHOWN_OF_A_REFERENCE)}")


def _failure(failure: models.ImageGenerationFailure) -> str:
    match failure:
        case models.UsageLimitExceededImageGenerationFailure():
            return f"No image: the usage limit {inline(failure.limit_id)} is exceeded."
        case UnknownVariant():
            return f"No image: {inline(str(failure.wire().get('type')))}."
        case _:
            assert_never(failure)


def _base(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1] or path
