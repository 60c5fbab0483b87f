"""Map each kind of item that is a tool call to the announcement of the call.

The announcement depends only on the item, on where its paths lead on the disk, and on streamed
output that the item lacks. So a replayed item shows what it showed when it was live.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final, assert_never

from codex_acp._json import text_at
from codex_acp.codex._generated import models
from codex_acp.codex.approvals.running_items import created_paths, move_target, server_of
from codex_acp.mapping import prompt
from codex_acp.mapping.call import UNFINISHED, ShownStatus, first_names, known_fields, shown_status
from codex_acp.mapping.content import ImageBlock, Location, TerminalContent, TextBlock
from codex_acp.mapping.events import ToolCallAnnounced, tool_call_id
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
    from collections.abc import Collection, Mapping, Sequence

    from codex_acp.mapping.call import Phase, ToolItem
    from codex_acp.mapping.content import CallContent
    from codex_acp.mapping.events import CallKind
    from codex_acp.mapping.state import SessionState
    from codex_acp.routing.changes import Looks


def call_of(
    state: SessionState, item: ToolItem, phase: Phase, streamed: str | None = None
) -> ToolCallAnnounced:
    """Return the tool call of an item; ``streamed`` is the output of a command whose item has none.
    Of ``state``, reads only the fields that the caller sets, and the looks of open calls. Only an
    item that is over shows raw output, because no later update could remove raw output."""
    shown = shown_status(None, phase)  # status of the call, and a line about it, by the phase alone
    match item:
        case models.CommandExecutionThreadItem():
            call = _command_call(item, phase, state, streamed)
        case models.FileChangeThreadItem():
            call = file_change_call(item, phase, looks_for_call(state, tool_call_id(item.id)))
        case models.McpToolCallThreadItem():
            call = _mcp_call(item, phase)
        case models.DynamicToolCallThreadItem():
            call = _dynamic_call(item, phase)
        case models.FunctionCallOutputThreadItem():
            call = _function_output_call(item, shown)
        case models.CollabAgentToolCallThreadItem() | models.SubAgentActivityThreadItem():
            call = _agents_call(item, phase)
        case models.WebSearchThreadItem():
            call = _web_search_call(item, shown)
        case models.ImageViewThreadItem():
            title = f"View image {inline(item.path.rstrip('/').rsplit('/', 1)[-1] or item.path)}"
            content, places = [prompt.file_link(item.path)], [Location(item.path)]
            raw_input = {"path": item.path}
            call = _call(item.id, shown, title, content, raw_input, kind="read", locations=places)
        case models.ImageGenerationThreadItem() | models.FileIdImageGenerationThreadItem():
            call = _image_call(item, phase)
        case models.SleepThreadItem():
            title = f"Wait {item.duration_ms / 1000:g} s"
            call = _call(item.id, shown, title, [], {"durationMs": item.duration_ms})
        case UnknownVariant():  # a kind of a newer Codex
            wire = item.wire()
            shown = shown_status(text_at(wire, "status"), phase)
            title = inline(str(wire.get("type")))
            call = _call(_unknown_item_id(item), shown, title, [], plain(wire))
        case _:
            assert_never(item)
    call.raw_output = call.raw_output if phase == "over" else None
    return call


def over_or_cut_off(item: ToolItem) -> Phase:
    """Return the phase of an item about which Codex reports nothing more."""
    return "cut_off" if status_of(item) == "inProgress" else "over"


def _call(
    item_id: str,
    shown: ShownStatus,
    title: str,
    content: Sequence[CallContent],
    raw_input: object,
    *,
    kind: CallKind = "other",
    raw_output: object = None,
    locations: Sequence[Location] = (),
    name: str | None = None,
) -> ToolCallAnnounced:
    """Return a tool call with the line of ``shown`` after its content."""
    return ToolCallAnnounced(
        id=tool_call_id(item_id),
        title=title,
        kind=kind,
        status=shown.status,
        content=[*content, *shown.content],
        raw_input=raw_input,
        raw_output=raw_output,
        locations=locations,
        name=name,
    )


def looks_for_call(state: SessionState, call_id: str) -> Looks:
    """Return `SessionState.looks`; a look from the start of the call's item takes precedence."""
    open_call = state.open_calls.get(call_id)
    return state.looks if open_call is None else {**state.looks, **open_call.looks}


def looks_to_keep(item: ToolItem, looks: Looks) -> Looks:
    """Return the looks of paths that may lead elsewhere once the item has begun to act."""
    kept: list[str] = []
    if isinstance(item, models.FileChangeThreadItem):
        moved = [change.path for change in item.changes if move_target(change) is not None]
        kept = [*created_paths(item.changes), *moved]
    elif isinstance(item, models.CommandExecutionThreadItem):
        kept = [item.cwd]
    return {path: looks[path] for path in kept if path in looks}


def id_of(item: ToolItem) -> str:
    """Return the id of an item's tool call."""
    return tool_call_id(_unknown_item_id(item) if isinstance(item, UnknownVariant) else item.id)


def _unknown_item_id(item: UnknownVariant) -> str:
    """Return the id of an unknown item; without an id, one that all items of its type share."""
    wire = item.wire()
    item_id = text_at(wire, "id")
    return f"item {wire.get('type')}" if item_id is None else item_id


def status_of(item: models.ThreadItem) -> str | None:
    """Return the item's own status; None if its type has no status."""
    if isinstance(item, UnknownVariant):
        return text_at(item.wire(), "status")
    status = getattr(item, "status", None)
    return status if isinstance(status, str) else None


# Work with sub-agents.

_TOOL_TITLES: Final = {
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
"""Tool of Codex → its title; "a sub-agent" follows, except after a tool in `_WITHOUT_RECEIVER`."""
_WITHOUT_RECEIVER: Final = frozenset({"spawnAgent", "listAgents"})
_AGENT_STATES: Final = {
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


def _agents_call(
    item: models.CollabAgentToolCallThreadItem | models.SubAgentActivityThreadItem, phase: Phase
) -> ToolCallAnnounced:
    """Show a call of a sub-agent tool with its prompt and the states of the sub-agents, or a report
    on one sub-agent."""
    settings = {"model": item.model, "reasoningEffort": item.reasoning_effort}
    if isinstance(item, models.SubAgentActivityThreadItem):
        activity = _ACTIVITIES.get(item.kind) or inline(item.kind)
        title = f"Sub-agent {inline(item.agent_path)} {activity}"
        agent = {"agentPath": item.agent_path, "agentThreadId": item.agent_thread_id}
        raw_input = known_fields(kind=item.kind, **agent, **settings)
        return _call(item.id, shown_status(None, phase), title, [], raw_input)
    content: list[CallContent] = [code_content(item.prompt)] if item.prompt else []
    states = [
        f"- {inline(thread)}: {_AGENT_STATES.get(state.status) or inline(state.status)}"
        + (f" ({inline(state.message)})" if state.message else "")
        for thread, state in item.agents_states.items()
    ]
    if states:
        content.append(TextBlock("\n".join(["Sub-agents:", *states])))
    receivers = item.receiver_thread_ids
    title = _TOOL_TITLES.get(item.tool) or f"Sub-agents: {inline(item.tool)}"
    if item.tool in _TOOL_TITLES and item.tool not in _WITHOUT_RECEIVER:
        count = len(receivers)
        title += " a sub-agent" if count == 1 else f" {count or 'the'} sub-agents"
    shown = shown_status(item.status, phase)
    raw_input = known_fields(
        tool=item.tool, receiverThreadIds=receivers, prompt=item.prompt, **settings
    )
    output = {"agentsStates": plain(item.agents_states)} if item.agents_states else None
    name = str(item.tool)
    return _call(item.id, shown, title, content, raw_input, raw_output=output, name=name)


# Commands.

_SHELL_PREFIX: Final = re.compile(r"(?:/[\w./+-]*/)?(?:ba|da|fi|k|z)?sh -(?:l|i|li)?c ", re.ASCII)
"""Start of a command that Codex runs in a shell: ``/bin/bash -lc ``."""
_NAME_LIMIT: Final = 500
"""Characters of one name in a title; the name of a file has at most 255."""
_UNQUOTED_LIMIT: Final = 16 * 1024
"""Characters of a command that `shlex` may unquote: it takes 1.5 seconds for a megabyte."""


def _command_call(
    item: models.CommandExecutionThreadItem, phase: Phase, state: SessionState, streamed: str | None
) -> ToolCallAnnounced:
    """Show a command; `call_of` explains ``streamed``."""
    terminal, looks = state.features.shows_terminals, looks_for_call(state, tool_call_id(item.id))
    output = streamed if item.aggregated_output is None else item.aggregated_output
    shown = shown_status(item.status, phase)
    if shown.line == UNFINISHED:  # Codex does not end the process of an interrupted command
        process = "" if item.process_id is None else f" (process {inline(item.process_id)})"
        line = f"{UNFINISHED} Its process may still run as a background terminal{process}."
        shown = ShownStatus(shown.status, line)
    content = command_content(item, terminal=terminal)
    if output and not terminal:
        content.append(prompt.output_block(output))
    if phase != "running":
        if not terminal and item.exit_code is not None:
            content.append(TextBlock(f"Exit code: {item.exit_code}"))
        content += shown.content
    read_paths: list[str] = []
    for action in item.command_actions:
        if not isinstance(action, models.UnknownCommandAction | UnknownVariant) and action.path:
            path = action.path
            read_paths.append(path if path.startswith("/") else f"{item.cwd.rstrip('/')}/{path}")
    raw_input = {"command": item.command, "cwd": item.cwd, "source": item.source}
    real = real_paths({item.cwd: looks[item.cwd]}) if item.cwd in looks else {}
    return ToolCallAnnounced(
        id=tool_call_id(item.id),
        title=_reading_title(item) or inline(script_of(item.command)) or "(no command given)",
        kind=_command_kind(item.command_actions),
        status=shown.status,
        content=content,
        locations=[Location(path) for path in dict.fromkeys(read_paths)],
        raw_input={**raw_input, "realPaths": real} if real else raw_input,
        raw_output=known_fields(exitCode=item.exit_code, durationMs=item.duration_ms),
    )


def command_content(
    item: models.CommandExecutionThreadItem, *, terminal: bool = False, limit: int = CONTENT_LIMIT
) -> list[CallContent]:
    """Return the content above the output: the terminal, or the command, cut after ``limit``
    characters; nothing if the title is the whole command."""
    if terminal:
        return [TerminalContent(tool_call_id(item.id))]
    script = script_of(item.command)
    if _reading_title(item) is None and visible(script) == script and len(script) <= TITLE_LIMIT:
        return []
    return [code_content(script, "sh", limit=limit)]


def script_of(command: str) -> str:
    """Return the command without the shell (``/bin/bash -lc '…'``) that Codex puts around it."""
    shell = _SHELL_PREFIX.match(command)
    if shell is None:
        return command
    quoted = command[shell.end() :]
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


def _command_kind(actions: Sequence[models.CommandAction]) -> CallKind:
    if actions and all(isinstance(action, models.ReadCommandAction) for action in actions):
        return "read"
    if actions and all(
        isinstance(action, models.SearchCommandAction | models.ListFilesCommandAction)
        for action in actions
    ):
        return "search"
    return "execute"


def _reading_title(item: models.CommandExecutionThreadItem) -> str | None:
    """Return a title such as ``Read a.py``; None unless the command only reads or only searches."""
    actions = item.command_actions
    if _command_kind(actions) == "execute":
        return None
    read_actions = (each for each in actions if isinstance(each, models.ReadCommandAction))
    reads = list(dict.fromkeys(action.name for action in read_actions))
    if reads:
        names = first_names([inline(name, _NAME_LIMIT) for name in reads])
        return f"Read {names}" if len(reads) == 1 else f"Read {len(reads)} files: {names}"
    searches: dict[str, None] = {}  # each title once, in order
    for action in actions:
        path = getattr(action, "path", None)
        place = f" in {inline(path)}" if path else ""
        if isinstance(action, models.SearchCommandAction):
            query = f" for {inline(action.query)}" if action.query else ""
            searches[f"Search{query}{place}"] = None
        else:
            searches[f"List files{place}"] = None
    return listed([*searches])


# File changes: one diff for each file.

_NOT_DONE: Final = frozenset({"inProgress", "failed", "declined"})
"""Statuses of a change that was not made: the files should still have the old text."""


def file_change_call(
    item: models.FileChangeThreadItem, phase: Phase, looks: Looks
) -> ToolCallAnnounced:
    """Show a file change; ``looks`` has where its paths lead, and the texts of the files."""
    changes, kinds = file_changes(item, looks), [change.kind for change in item.changes]
    kind: CallKind = "edit"
    if kinds and all(isinstance(change, models.DeletePatchChangeKind) for change in kinds):
        kind = "delete"
    elif kinds and all(move_target(change) and not patch_of(change) for change in item.changes):
        kind = "move"
    shown = shown_status(item.status, phase)
    title = changes_title(
        changes, lambda path: shown_path(path.rsplit("/", 1)[-1] or path), first_names
    )
    content = [part for change in changes for part in change.content()]
    raw_input = {"changes": [change.summary() for change in changes]}
    places = [place for change in changes for place in change.locations()]
    return _call(item.id, shown, title, content, raw_input, kind=kind, locations=places)


def file_changes(item: models.FileChangeThreadItem, looks: Looks) -> list[Change]:
    """Return the change of each file of an item."""
    not_done = item.status in _NOT_DONE
    return [Change(change, looks, not_done=not_done, waiting=False) for change in item.changes]


def wanted_looks(params: object, roots: Collection[str]) -> Mapping[str, bool]:
    """Return the paths to look at before ``params`` are shown: path → whether the file's text is
    needed. ``params`` are an item, or the params of a notification. ``roots`` are the directories
    of the session, which need no look."""
    match params:
        case models.ItemStartedNotification(item=models.CommandExecutionThreadItem(cwd=cwd)):
            return {} if cwd in roots else {cwd: False}
        case models.ItemStartedNotification() | models.ItemCompletedNotification():
            return wanted_looks(params.item, roots)
        case models.FileChangeThreadItem() | models.FileChangePatchUpdatedNotification():
            return wanted_of_changes(params.changes)
    return {}


def wanted_of_changes(changes: Sequence[models.FileUpdateChange]) -> dict[str, bool]:
    """Return the paths of the changes: path → whether the file's text is needed. The change of a
    deleted file already has the text."""
    wanted = {
        change.path: not isinstance(change.kind, models.DeletePatchChangeKind) for change in changes
    }
    return wanted | dict.fromkeys(filter(None, map(move_target, changes)), True)


# Calls of MCP tools, and of dynamic tools, which a program has registered with Codex.


def _mcp_call(item: models.McpToolCallThreadItem, phase: Phase) -> ToolCallAnnounced:
    """Show a call of an MCP tool: its arguments, and the blocks of its result or its error."""
    content = arguments_content(item.arguments)
    server = server_of(item)
    result: object = None
    if item.result is not None:
        content += [prompt.mcp_content(block) for block in item.result.content]
        result = prompt.without_data(plain(item.result.structured_content))
        if result is not None and not item.result.content:
            content.append(prompt.json_content(result))
    if item.error is not None:
        content.append(code_content(item.error.message, heading="Error:"))
    title = f"{inline(server)}: {inline(item.tool)}"
    raw_input = {"server": server, "tool": item.tool, "arguments": plain(item.arguments)}
    kind: CallKind = "read" if item.read_only_hint else "other"
    output = known_fields(structuredContent=result, durationMs=item.duration_ms)
    shown = shown_status(item.status, phase)
    name = item.tool
    return _call(item.id, shown, title, content, raw_input, kind=kind, raw_output=output, name=name)


def arguments_content(arguments: object, limit: int = CONTENT_LIMIT) -> list[CallContent]:
    """Show at most ``limit`` characters of the arguments of a call, if it has arguments."""
    if arguments in (None, {}):
        return []
    return [prompt.json_content(arguments, "Arguments:", limit)]


def _dynamic_call(item: models.DynamicToolCallThreadItem, phase: Phase) -> ToolCallAnnounced:
    """Show a call of a dynamic tool."""
    shown = shown_status(item.status, phase)
    if shown.status == "completed" and item.success is False:
        shown = ShownStatus("failed")
    content = arguments_content(item.arguments)
    content += [prompt.output_content(part) for part in item.content_items or ()]
    title = _tool_name(item.namespace, item.tool)
    tool = {"namespace": item.namespace, "tool": item.tool}
    raw_input = {**tool, "arguments": plain(item.arguments)}
    output = known_fields(success=item.success, durationMs=item.duration_ms)
    return _call(item.id, shown, title, content, raw_input, raw_output=output, name=item.tool)


def _function_output_call(
    item: models.FunctionCallOutputThreadItem, shown: ShownStatus
) -> ToolCallAnnounced:
    """Show the output of a function; Codex keeps no item for the call of the function."""
    if isinstance(item.output, str):
        content: list[CallContent] = [prompt.output_block(item.output)] if item.output else []
    else:
        content = [prompt.output_content(part) for part in item.output]
    title = _tool_name(item.namespace, item.name)
    raw_input = {"namespace": item.namespace, "name": item.name}
    return _call(item.id, shown, title, content, raw_input, name=item.name)


def _tool_name(namespace: str | None, name: str) -> str:
    return inline(name) if namespace is None else f"{inline(namespace)}: {inline(name)}"


# Web searches and images.

_IMAGE_TYPES: Final = {
    "iVBOR": "image/png",
    "/9j/": "image/jpeg",
    "UklGR": "image/webp",
    "R0lGOD": "image/gif",
}
"""Start of an image in base64 → its type."""
_REFERENCE_LIMIT: Final = 200
"""Characters of an image's result that are shown if the result is not an image in base64."""


def _web_search_call(item: models.WebSearchThreadItem, shown: ShownStatus) -> ToolCallAnnounced:
    """Show a web search with its results as links, or an opened page."""
    action = item.action
    kind: CallKind = "fetch"
    match action:
        case models.OpenPageWebSearchAction():
            title = f"Open {inline(action.url or item.query or 'a page')}"
        case models.FindInPageWebSearchAction():
            pattern = f"{inline(action.pattern)} " if action.pattern else ""
            title = f"Find {pattern}in {inline(action.url or 'the page')}"
        case (
            models.SearchWebSearchAction() | models.OtherWebSearchAction() | UnknownVariant() | None
        ):
            query = item.query
            if isinstance(action, models.SearchWebSearchAction):
                query = action.query or ", ".join(action.queries or [query])
            title = f"Search the web: {inline(query)}" if query else "Search the web"
            kind = "search"
        case _:
            assert_never(action)
    content: list[CallContent] = []
    for result in item.results or ():
        url = text_at(result, "url")
        if url is None:
            content.append(prompt.json_content(result))
        else:
            name, snippet = text_at(result, "title") or url, text_at(result, "snippet")
            content.append(prompt.untrusted_link(name, url, snippet))
    raw_input = {"query": item.query, "action": plain(item.action)}
    output = {"results": plain(item.results)} if item.results else None
    return _call(item.id, shown, title, content, raw_input, kind=kind, raw_output=output)


def _image_call(
    item: models.ImageGenerationThreadItem | models.FileIdImageGenerationThreadItem, phase: Phase
) -> ToolCallAnnounced:
    """Show the generation of an image: the image, its file, or why it was not generated."""
    if isinstance(item, models.FileIdImageGenerationThreadItem):  # since Codex 0.169
        result = item.file_id
    else:
        result = item.result
    # The status may be any word (some models leave it at ``generating``), so the result decides.
    if phase == "running":
        shown = shown_status(None, phase)
    elif item.failure is not None or item.status == "failed":
        shown = ShownStatus("failed")
    elif result or item.saved_path or item.status == "completed":
        shown = ShownStatus("completed")
    else:
        shown = shown_status(None, "cut_off")
    saved_path = item.saved_path
    content: list[CallContent] = [prompt.file_link(saved_path)] if saved_path else []
    if result:
        types = (type_ for start, type_ in _IMAGE_TYPES.items() if result.startswith(start))
        image_type = next(types, None)
        if image_type is None:
            content.append(TextBlock(f"Image: {inline(result, _REFERENCE_LIMIT)}"))
        else:
            content.append(prompt.bounded_block(ImageBlock(result, image_type)))
    match item.failure:
        case models.UsageLimitExceededImageGenerationFailure(limit_id=limit_id):
            text = f"No image: the usage limit {inline(limit_id)} is exceeded."
            content.append(TextBlock(text))
        case UnknownVariant() as failure:
            content.append(TextBlock(f"No image: {inline(str(failure.wire().get('type')))}."))
        case None:
            pass
        case _:
            assert_never(item.failure)
    title, raw_input = "Generate image", {"revisedPrompt": item.revised_prompt}
    output = known_fields(status=item.status or None, savedPath=saved_path)
    places = [Location(saved_path)] if saved_path else []
    return _call(item.id, shown, title, content, raw_input, raw_output=output, locations=places)
