"""The content blocks of a prompt → the input of a Codex turn.

Source: ACP page "Content", Codex schema ``UserInput``. ``mapping.capabilities`` says which blocks
a client may send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from codex_acp.acp._generated.v1.models import (
    AudioContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    ResourceLinkContentBlock,
    TextContentBlock,
)
from codex_acp.codex._generated.models import TextUserInput
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.acp._generated.v1.models import ContentBlock
    from codex_acp.codex._generated.models import UserInput

__all__ = ["user_input"]


def user_input(blocks: Sequence[ContentBlock]) -> list[UserInput]:
    """One input for each block, in order.

    Raises RpcError -32602 for an empty prompt and for a block that was not advertised, naming it.
    """
    if not blocks:
        raise RpcError(INVALID_PARAMS, "prompt: it has no content")
    return [_input(block, f"prompt.{number}") for number, block in enumerate(blocks)]


def _input(block: ContentBlock, where: str) -> UserInput:
    match block:
        case TextContentBlock():
            return TextUserInput(text=block.text)
        case ResourceLinkContentBlock():
            return TextUserInput(text=f"[{block.title or block.name}]({block.uri})")
        case ImageContentBlock() | AudioContentBlock() | ResourceContentBlock():
            message = f"{where}: {block.type} content is not in this agent's promptCapabilities"
            raise RpcError(INVALID_PARAMS, message)
        case _:
            assert_never(block)
