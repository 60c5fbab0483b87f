"""The content of a prompt as a message for Codex: what it names on this machine is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.adapter.files import read_files
from codex_acp.adapter.prompts.turn_calls import start_refused
from codex_acp.errors import CodexAcpError, RpcError
from codex_acp.mapping.prompt.media import MAX_MEDIA_BYTES
from codex_acp.mapping.prompt.message import has_audio, user_input, wanted_images

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.codex._generated.models import UserInput
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.mapping.events.content import Block


async def prompt_message(
    codex: AppServerConnection, session_id: str, prompt: Sequence[Block]
) -> list[UserInput]:
    """The message. Raises RpcError -32602 for content that cannot be sent."""
    files = await read_files(wanted_images(prompt), MAX_MEDIA_BYTES)
    no_audio = None
    if has_audio(prompt):
        from codex_acp.adapter.config.modalities import why_no_audio  # with models of its own

        try:
            no_audio = await why_no_audio(codex, session_id)
        except CodexAcpError as error:
            raise refused(error) from error
    return user_input(prompt, files, no_audio)


def refused(error: CodexAcpError) -> RpcError:
    """What the client is answered when Codex did not take a call for it."""
    failure = start_refused(error)
    return RpcError(failure.code, failure.message, failure.data)
