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
from codex_acp.mapping import prompt as blocks
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
    """Return the tool call of an item. Of ``state`` only the inputs are read.

    Raw output stands for an end, and is left out before: a later update could not take it back.
    """
    call = _call_of(state, item, phase, streamed)
    return call if phase == "over" else replace(call, raw_output=None)


def last_phase(item: ToolItem) -> Phase:
    """Return where an item stands of which nothing more is told."""
    return "cut_off" if status_of(item) == "inProgress" else "over"


def _call_of(state: SessionState, item: ToolItem, phase: Phase, streamed: str | None) -> Call:
    end = ending(None, phase)  # of those whose type has no status
    match item:
        case models.CommandExecutionThreadItem():
            return _command(item, phase, state, streamed)
        case models.FileChangeThreadItem():
            return file_change_call(item, phase, looks_of(state, tool_call_id(item.id)))
        case models.McpToolCallThreadItem():
            return _mcp_call(item, phase)
        case models.DynamicToolCallThreadItem():
            return _dynamic_call(item, phase)
        case models.FunctionCallOutputThreadItem():
            return _function_output(item, end)
        case models.CollabAgentToolCallThreadItem() | models.SubAgentActivityThreadItem():
            return _agents_call(item, phase)
        case models.WebSearchThreadItem():
            return _web_search(item, end)
        case models.ImageViewThreadItem():
            title = f"View image {inline(item.path.rstrip('/').rsplit('/', 1)[-1] or item.path)}"
            content, places = [blocks.file_link(item.path)], [Location(item.path)]
            raw_input = {"path": item.path}
            return _call(item.id, end, title, content, raw_input, kind="read", locations=places)
        case models.ImageGenerationThreadItem() | models.FileIdImageGenerationThreadItem():
            return _image_generation(item, phase)
        case models.SleepThreadItem():
            title = f"Wait {item.duration_ms / 1000:g} s"
            return _call(item.id, end, title, [], {"durationMs": item.duration_ms})
        case UnknownVariant():  # of a newer Codex: whole, under the name of its type
            whole = item.wire()
            end = ending(text_at(whole, "status"), phase)
            title = inline(str(whole.get("type")))
            return _call(unknown_item_id(item), end, title, [], plain(whole))
        case _:
            assert_never(item)


def _call(
    item_id: str,
    end: Ending,
    title: str,
    content: Sequence[CallContent],
    raw_input: object,
    *,
    kind: CallKind = "other",
    raw_output: object = None,
    locations: Sequence[Location] = (),
    name: str | None = None,
) -> Call:
    """Make the tool call of an item whose content is followed by the line of its ``end``."""
    return Call(
        id=tool_call_id(item_id),
        title=title,
        kind=kind,
        status=end.status,
        content=[*content, *end.content],
        raw_input=raw_input,
        raw_output=raw_output,
        locations=locations,
        name=name,
    )


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
    """Return the id of an item's tool call."""
    return tool_call_id(unknown_item_id(item) if isinstance(item, UnknownVariant) else item.id)


def status_of(item: models.ThreadItem) -> str | None:
    """Return the status that an item gives itself; None of one whose type has none."""
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


def _agents_call(
    item: models.CollabAgentToolCallThreadItem | models.SubAgentActivityThreadItem, phase: Phase
) -> Call:
    """Show that a sub-agent is started, written to, waited for: the prompt, and how all stand."""
    raw_input = {"model": item.model, "reasoningEffort": item.reasoning_effort}
    if isinstance(item, models.SubAgentActivityThreadItem):
        activity = _ACTIVITIES.get(item.kind) or inline(item.kind)
        return _call(
            item.id,
            ending(None, phase),
            f"Sub-agent {inline(item.agent_path)} {activity}",
            [],
            structured(
                kind=item.kind,
                agentPath=item.agent_path,
                agentThreadId=item.agent_thread_id,
                **raw_input,
            ),
        )
    content: list[CallContent] = [code_content(item.prompt)] if item.prompt else []
    states = [
        f"- {inline(thread)}: {_STATES.get(state.status) or inline(state.status)}"
        + (f" ({inline(state.message)})" if state.message else "")
        for thread, state in item.agents_states.items()
    ]
    if states:
        content.append(TextBlock("\n".join(["Sub-agents:", *states])))
    title = _TOOLS.get(item.tool)
    if title is None:
        title = f"Sub-agents: {inline(item.tool)}"
    elif item.tool not in _ALONE:
        count = len(item.receiver_thread_ids)
        title += " a sub-agent" if count == 1 else f" {count or 'the'} sub-agents"
    return _call(
        item.id,
        ending(item.status, phase),
        title,
        content,
        structured(
            tool=item.tool,
            receiverThreadIds=item.receiver_thread_ids,
            prompt=item.prompt,
            **raw_input,
        ),
        raw_output={"agentsStates": plain(item.agents_states)} if item.agents_states else None,
        name=str(item.tool),
    )


# A command as a tool call: what ran, its output, its exit code.

_IN_A_SHELL: Final = re.compile(r"(?:/[\w./+-]*/)?(?:ba|da|fi|k|z)?sh -(?:l|i|li)?c ", re.ASCII)
"""How a command begins that Codex runs in a shell."""
_UNQUOTED_LIMIT: Final = 16 * 1024
"""Characters; `shlex` needs a second and a half for a megabyte."""


def _command(
    item: models.CommandExecutionThreadItem, phase: Phase, state: SessionState, streamed: str | None
) -> Call:
    """Show a command; ``streamed`` stands in for the output of an item that has none."""
    terminal, looks = state.client.shows_terminals, looks_of(state, tool_call_id(item.id))
    whole = item.aggregated_output
    output = streamed if whole is None else whole
    end = ending(item.status, phase)
    if end.line == UNFINISHED:  # Codex lets the process of an interrupted command live on
        process = "" if item.process_id is None else f" (process {inline(item.process_id)})"
        line = f"{UNFINISHED} Its process may still run as a background terminal{process}."
        end = Ending(end.status, line)
    content = command_content(item, terminal=terminal)
    if output and not terminal:
        content.append(blocks.output_block(output))
    if phase != "running":
        if not terminal and item.exit_code is not None:
            content.append(TextBlock(f"Exit code: {item.exit_code}"))
        content += end.content
    paths: list[str] = []  # that it reads or searches
    for action in item.command_actions:
        if not isinstance(action, models.UnknownCommandAction | UnknownVariant) and action.path:
            path = action.path
            paths.append(path if path.startswith("/") else f"{item.cwd.rstrip('/')}/{path}")
    raw_input = {"command": item.command, "cwd": item.cwd, "source": item.source}
    real = real_paths({item.cwd: looks[item.cwd]}) if item.cwd in looks else {}
    return Call(
        id=tool_call_id(item.id),
        title=_wording(item) or inline(script_of(item.command)) or "(no command given)",
        kind=_kind(item.command_actions),
        status=end.status,
        content=content,
        locations=[Location(path) for path in dict.fromkeys(paths)],
        raw_input={**raw_input, "realPaths": real} if real else raw_input,
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
    searches: dict[str, None] = {}
    for action in actions:
        path = getattr(action, "path", None)
        place = f" in {inline(path)}" if path else ""
        if isinstance(action, models.SearchCommandAction):
            what = f" for {inline(action.query)}" if action.query else ""
            searches[f"Search{what}{place}"] = None
        else:
            searches[f"List files{place}"] = None
    return listed([*searches])


# A file change as a tool call: one diff for each file.


_NOT_DONE: Final = frozenset({"inProgress", "failed", "declined"})
"""States in which the files should still be as before."""


def file_change_call(item: models.FileChangeThreadItem, phase: Phase, looks: Looks) -> Call:
    """Show a file change. ``looks``: how the disk has the paths that were looked at."""
    changes, kinds = _changes(item, looks), [change.kind for change in item.changes]
    kind: CallKind = "edit"
    if kinds and all(isinstance(each, models.DeletePatchChangeKind) for each in kinds):
        kind = "delete"
    elif kinds and all(move_target(each) and not patch_of(each) for each in item.changes):
        kind = "move"
    return _call(
        item.id,
        ending(item.status, phase),
        changes_title(
            changes, lambda path: shown_path(path.rsplit("/", 1)[-1] or path), cut_off_list
        ),
        [part for change in changes for part in change.content()],
        {"changes": [change.summary() for change in changes]},
        kind=kind,
        locations=[place for change in changes for place in change.locations()],
    )


def changes_update(
    call_id: str, item: models.FileChangeThreadItem, content: Sequence[CallContent], looks: Looks
) -> ToolCallChanged:
    """The diffs of a file change that is being written, and nothing else of it."""
    places = [place for change in _changes(item, looks) for place in change.locations()]
    return ToolCallChanged(id=call_id, content=list(content), locations=places)


def _changes(item: models.FileChangeThreadItem, looks: Looks) -> list[Change]:
    not_done = item.status in _NOT_DONE
    return [Change(change, looks, not_done=not_done, waiting=False) for change in item.changes]


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


# A call of an MCP server's tool, or of a tool that the client gave, as a tool call.


def _mcp_call(item: models.McpToolCallThreadItem, phase: Phase) -> Call:
    """Show ``server: tool``, its arguments, and the blocks of its result or its error."""
    content = arguments_content(item.arguments)
    result: object = None
    if item.result is not None:
        content += [blocks.mcp_content(block) for block in item.result.content]
        result = blocks.without_data(plain(item.result.structured_content))
        if result is not None and not item.result.content:
            content.append(blocks.json_content(result))
    if item.error is not None:
        content.append(code_content(item.error.message, heading="Error:"))
    return _call(
        item.id,
        ending(item.status, phase),
        f"{inline(item.server)}: {inline(item.tool)}",
        content,
        {"server": item.server, "tool": item.tool, "arguments": plain(item.arguments)},
        kind="read" if item.read_only_hint else "other",
        raw_output=structured(structuredContent=result, durationMs=item.duration_ms),
        name=item.tool,
    )


def arguments_content(arguments: object, limit: int = CONTENT_LIMIT) -> list[CallContent]:
    """Show the arguments of a call, if it has some, at most ``limit`` characters of them."""
    return (
        [blocks.json_content(arguments, "Arguments:", limit)] if arguments not in (None, {}) else []
    )


def _dynamic_call(item: models.DynamicToolCallThreadItem, phase: Phase) -> Call:
    """Show a call of a tool that the program itself registered with Codex."""
    end = ending(item.status, phase)
    if end.status == "completed" and item.success is False:
        end = Ending("failed")
    content = arguments_content(item.arguments)
    content += [blocks.output_content(part) for part in item.content_items or ()]
    return _call(
        item.id,
        end,
        _tool_name(item.namespace, item.tool),
        content,
        {"namespace": item.namespace, "tool": item.tool, "arguments": plain(item.arguments)},
        raw_output=structured(success=item.success, durationMs=item.duration_ms),
        name=item.tool,
    )


def _function_output(item: models.FunctionCallOutputThreadItem, end: Ending) -> Call:
    """Show an output that Codex keeps without its call."""
    if isinstance(item.output, str):
        content: list[CallContent] = [blocks.output_block(item.output)] if item.output else []
    else:
        content = [blocks.output_content(part) for part in item.output]
    title = _tool_name(item.namespace, item.name)
    raw_input = {"namespace": item.namespace, "name": item.name}
    return _call(item.id, end, title, content, raw_input, name=item.name)


def _tool_name(namespace: str | None, name: str) -> str:
    return inline(name) if namespace is None else f"{inline(namespace)}: {inline(name)}"


# Searches of the web, and images, as tool calls.

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


def _web_search(item: models.WebSearchThreadItem, end: Ending) -> Call:
    """Show a search of the web, or a page of it: results as links."""
    action = item.action
    kind: CallKind = "fetch"
    match action:
        case models.OpenPageWebSearchAction():
            title = f"Open {inline(action.url or item.query or 'a page')}"
        case models.FindInPageWebSearchAction():
            page = inline(action.url or "the page")
            title = f"Find {f'{inline(action.pattern)} ' if action.pattern else ''}in {page}"
        case (
            models.SearchWebSearchAction() | models.OtherWebSearchAction() | UnknownVariant() | None
        ):
            query = item.query
            if isinstance(action, models.SearchWebSearchAction):
                query = ", ".join([action.query] if action.query else action.queries or [query])
            title = f"Search the web: {inline(query)}" if query else "Search the web"
            kind = "search"
        case _:
            assert_never(action)
    results, content = item.results or [], []
    for result in results:
        url = text_at(result, "url")
        content.append(
            blocks.json_content(result)
            if url is None
            else blocks.link(text_at(result, "title") or url, url, text_at(result, "snippet"))
        )
    return _call(
        item.id,
        end,
        title,
        content,
        {"query": item.query, "action": plain(item.action)},
        kind=kind,
        raw_output=structured(results=plain(results) if results else None),
    )


def _image_generation(item: _ImageGeneration, phase: Phase) -> Call:
    """Show an image that is made: itself, where it was saved, or why there is none."""
    # Since Codex 0.169 the result may be the id of a file.
    if isinstance(item, models.FileIdImageGenerationThreadItem):
        result = item.file_id
    else:
        result = item.result
    # Its status is any word (some models leave it at ``generating``): what came counts.
    if phase == "running":
        end = ending(None, phase)
    elif item.failure is not None or item.status == "failed":
        end = Ending("failed")
    elif result or item.saved_path or item.status == "completed":
        end = Ending("completed")
    else:
        end = ending(None, "cut_off")
    content: list[CallContent] = [blocks.file_link(item.saved_path)] if item.saved_path else []
    if result:
        types = (kind for beginning, kind in _IMAGE_TYPES.items() if result.startswith(beginning))
        image_type = next(types, None)
        content.append(
            TextBlock(f"Image: {inline(result, _SHOWN_OF_A_REFERENCE)}")
            if image_type is None
            else blocks.block_content(ImageBlock(result, image_type))
        )
    match item.failure:
        case models.UsageLimitExceededImageGenerationFailure(limit_id=limit_id):
            why = f"No image: the usage limit {inline(limit_id)} is exceeded."
            content.append(TextBlock(why))
        case UnknownVariant() as failure:
            content.append(TextBlock(f"No image: {inline(str(failure.wire().get('type')))}."))
        case None:
            pass
        case _:
            assert_never(item.failure)
    return _call(
        item.id,
        end,
        "Generate image",
        content,
        {"revisedPrompt": item.revised_prompt},
        raw_output=structured(status=item.status or None, savedPath=item.saved_path),
        locations=[Location(item.saved_path)] if item.saved_path else [],
    )


def unknown_item_id(item: UnknownVariant) -> str:
    """Return the id of an unknown item; all of a type that has none are one."""
    whole = item.wire()
    item_id = text_at(whole, "id")
    return f"item {whole.get('type')}" if item_id is None else item_id
