"""Whether the model of a thread takes audio, asked of Codex when a prompt has some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.codex._generated.models import ModelListParams, ThreadReadParams

if TYPE_CHECKING:
    from codex_acp.codex._generated.models import Model
    from codex_acp.codex.connection.app_server_connection import AppServerConnection

__all__ = ["why_no_audio"]

MAX_PAGES: Final = 20
"""Of the list of models; a cursor that never ends must not hold a prompt."""


async def why_no_audio(codex: AppServerConnection, thread_id: str) -> str | None:
    """Why audio cannot be sent in this thread; None: it can. Raises as every call.

    Codex itself would leave the audio out, and tell only the model.
    """
    name = (await codex.thread_read(ThreadReadParams(thread_id=thread_id))).thread.model
    found = next((m for m in await _models(codex) if name in (m.model, m.id)), None)
    if found is not None and "audio" in found.input_modalities:
        return None
    return f"the model {name or 'of this session'} takes no audio; choose another, or send text"


async def _models(codex: AppServerConnection) -> list[Model]:
    params = ModelListParams(include_hidden=True)
    models: list[Model] = []
    for _ in range(MAX_PAGES):
        page = await codex.model_list(params)
        models += page.data
        if page.next_cursor is None or page.next_cursor == params.cursor:
            break
        params.cursor = page.next_cursor
    return models
