"""The content of a prompt as a message for Codex; reads the images that the prompt names."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codex_acp._files import read_regular
from codex_acp.adapter.prompts.turn_calls import start_refused
from codex_acp.codex._generated import models
from codex_acp.codex.connection.calls import all_pages
from codex_acp.errors import CodexAcpError, RpcError
from codex_acp.mapping.prompt import MAX_MEDIA_BYTES, has_audio, user_input, wanted_images
from codex_acp.transport.shielding import in_worker_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.mapping.content import Block

MAX_FILES: Final = 64
"""Files that one `read_files` reads."""


async def prompt_message(
    codex: AppServerConnection, session_id: str, prompt: Sequence[Block]
) -> list[models.UserInput]:
    """Return the message for a prompt. Raises RpcError -32602 for content that cannot be sent."""
    files = await read_files(wanted_images(prompt), MAX_MEDIA_BYTES)
    no_audio = None
    if has_audio(prompt):
        try:
            no_audio = await why_no_audio(codex, session_id)
        except CodexAcpError as error:
            failure = start_refused(error)
            raise RpcError(failure.code, failure.message, failure.data) from error
    return user_input(prompt, files, no_audio)


async def read_files(paths: Iterable[str], limit: int) -> dict[str, bytes]:
    """Return the content of each readable file of at most ``limit`` bytes, read in a thread."""
    wanted = list(paths)[:MAX_FILES]

    def read_all() -> dict[str, bytes]:
        contents: dict[str, bytes] = {}
        for path in wanted:
            with suppress(OSError, ValueError):
                contents[path] = read_regular(path, limit)
        return contents

    return await in_worker_thread(read_all) if wanted else {}


async def why_no_audio(codex: AppServerConnection, thread_id: str) -> str | None:
    """Return why audio cannot be sent in this thread, or None: Codex would leave the audio out, and
    report that only to the model. Raises CodexAcpError."""
    name = (await codex.thread_read(models.ThreadReadParams(thread_id=thread_id))).thread.model
    listed = await all_pages(codex.model_list, models.ModelListParams(include_hidden=True))
    found = next((m for m in listed if name in (m.model, m.id)), None)
    if found is not None and "audio" in found.input_modalities:
        return None
    return f"the model {name or 'of this session'} takes no audio; choose another, or send text"
