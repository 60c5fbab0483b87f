"""What this program does for its agents, and so which capabilities it advertises: exactly these.

Must not know how a request is answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codex_acp._version import __version__
from codex_acp.acp import PROTOCOL_VERSION
from codex_acp.acp.types import (
    BooleanConfigOptionCapabilities,
    ClientCapabilities,
    ClientSessionCapabilities,
    CompactionCapabilities,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    ElicitationUrlCapabilities,
    FileSystemCapabilities,
    Implementation,
    InitializeRequest,
    NoticeCapabilities,
    SessionConfigOptionsCapabilities,
)
from codex_acp.runtime.permissions import reject_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.runtime.elicitations import FormCallback, UrlCallback
    from codex_acp.runtime.filesystem import FileAccess
    from codex_acp.runtime.permissions import PermissionPolicy
    from codex_acp.runtime.terminals import TerminalAccess

NAME: Final = "codex-acp-sdk"
"""Who this client is."""


@dataclass(frozen=True, slots=True)
class Services:
    """See `AgentRuntime`, which takes these as arguments."""

    permissions: PermissionPolicy = reject_all
    on_form: FormCallback | None = None
    on_url: UrlCallback | None = None
    on_url_done: Callable[[str], None] | None = None
    files: FileAccess | None = None
    terminals: TerminalAccess | None = None

    def introduction(self) -> InitializeRequest:
        """What ``initialize`` tells an agent of version 1."""
        return InitializeRequest(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=self.capabilities(),
            client_info=Implementation(name=NAME, version=__version__),
        )

    def introduction_v2(self) -> dict[str, JsonValue]:
        """What it tells one of version 2, as plain JSON: nothing of that version is loaded for an
        agent that does not speak it."""
        modes: dict[str, JsonValue] = {}
        if self.on_form is not None:
            modes["form"] = {}
        if self.on_url is not None:
            modes["url"] = {}
        return {
            "protocolVersion": 2,
            "info": {"name": NAME, "version": __version__},
            "capabilities": {"elicitation": modes} if modes else {},
        }

    def capabilities(self) -> ClientCapabilities:
        """What ``initialize`` tells the agent. Boolean options, notices and compaction are always
        understood: they are updates and options like others."""
        capabilities = ClientCapabilities(
            session=ClientSessionCapabilities(
                config_options=SessionConfigOptionsCapabilities(
                    boolean=BooleanConfigOptionCapabilities()
                ),
                notices=NoticeCapabilities(),
                compaction=CompactionCapabilities(),
            )
        )
        files = self.files
        if files is not None and (files.read or files.write):
            capabilities.fs = FileSystemCapabilities(
                read_text_file=files.read, write_text_file=files.write
            )
        if self.terminals is not None:
            capabilities.terminal = True
        if self.on_form is not None or self.on_url is not None:
            elicitation = ElicitationCapabilities()
            if self.on_form is not None:
                elicitation.form = ElicitationFormCapabilities()
            if self.on_url is not None:
                elicitation.url = ElicitationUrlCapabilities()
            capabilities.elicitation = elicitation
        return capabilities
