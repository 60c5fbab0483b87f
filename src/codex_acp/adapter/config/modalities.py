"""Whether the model of a thread takes audio, asked of Codex when a prompt has some."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.codex._generated.models import ModelListParams, ThreadReadParams
from codex_acp.codex.connection.pages import all_pages

if TYPE_CHECKING:
    from codex_acp.codex.connection.app_server_connection import AppServerConnection


async def why_no_audio(codex: AppServerConnection, thread_id: str) -> str | None:
    """Why audio cannot be sent in this thread; None: it can. Raises as every call.

    Codex itself would leave the audio out, and tell only the model.
    """
    name = (await codex.thread_read(ThreadReadParams(thread_id=thread_id))).thread.model
    models = await all_pages(codex.model_list, ModelListParams(include_hidden=True))
    found = next((m for m in models if name in (m.model, m.id)), None)
    if found is not None and "audio" in found.input_modalities:
        return None
    return f"the model {name or 'of this session'} takes no audio; choose another, or send text"
