"""Services of this program for its agents; it advertises exactly their capabilities.

Must not know how a request is answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codex_acp._version import __version__
from codex_acp.acp import PROTOCOL_VERSION, types
from codex_acp.runtime.permissions import PermissionPolicy, reject_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.runtime.filesystem import FileAccess
    from codex_acp.runtime.permissions import FormCallback, UrlCallback
    from codex_acp.runtime.terminals import TerminalAccess

NAME: Final = "codex-acp-sdk"
"""Name of this client."""


@dataclass(frozen=True, slots=True)
class Services:
    """Arguments of `AgentRuntime` that say what is done for agents."""

    permissions: PermissionPolicy = reject_all
    on_form: FormCallback | None = None
    on_url: UrlCallback | None = None
    on_url_done: Callable[[str], None] | None = None
    files: FileAccess | None = None
    terminals: TerminalAccess | None = None

    def introduction(self) -> types.InitializeRequest:
        """Return the ``initialize`` of this program, in the words of version 1."""
        return types.InitializeRequest(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=self.capabilities(),
            client_info=types.Implementation(name=NAME, version=__version__),
        )

    def capabilities(self) -> types.ClientCapabilities:
        """Return the capabilities that ``initialize`` names. Boolean options, notices and
        compaction are always understood: they are updates and options like others."""
        capabilities = types.ClientCapabilities(
            session=types.ClientSessionCapabilities(
                config_options=types.SessionConfigOptionsCapabilities(
                    boolean=types.BooleanConfigOptionCapabilities()
                ),
                notices=types.NoticeCapabilities(),
                compaction=types.CompactionCapabilities(),
            )
        )
        files = self.files
        if files is not None and (files.read or files.write):
            capabilities.fs = types.FileSystemCapabilities(
                read_text_file=files.read, write_text_file=files.write
            )
        if self.terminals is not None:
            capabilities.terminal = True
        if self.on_form is not None or self.on_url is not None:
            elicitation = types.ElicitationCapabilities()
            if self.on_form is not None:
                elicitation.form = types.ElicitationFormCapabilities()
            if self.on_url is not None:
                elicitation.url = types.ElicitationUrlCapabilities()
            capabilities.elicitation = elicitation
        return capabilities
