"""Searches, images, pauses, and what the schema does not know, as tool calls.

Source: Codex schema ``WebSearchThreadItem``, ``ImageViewThreadItem``,
``ImageGenerationThreadItem`` (or one that names a file), ``SleepThreadItem``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from codex_acp._json import text_at
from codex_acp.codex._generated import models
from codex_acp.mapping.calls.call import Call, Ending, Phase, ending, structured
from codex_acp.mapping.events.content import CallContent, ImageBlock, Location
from codex_acp.mapping.events.session_events import tool_call_id
from codex_acp.mapping.prompt.content_blocks import block_content, file_link, json_content, link
from codex_acp.routing.content import text_content
from codex_acp.routing.display import inline
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from codex_acp.mapping.events.session_events import CallKind

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
    title, kind = _searched(item)
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
        content.append(text_content(_failure(item.failure)))
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


def _searched(item: models.WebSearchThreadItem) -> tuple[str, CallKind]:
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
    return text_content(f"Image: {inline(result, _SHOWN_OF_A_REFERENCE)}")


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
