"""SDK and adapter between the Agent Client Protocol and the Codex app-server.

Importing this package loads nothing heavy. The stable API is in the subpackages
``codex_acp.codex`` (and ``codex_acp.codex.sync``), ``codex_acp.runtime``, ``codex_acp.fleet``,
``codex_acp.acp``, ``codex_acp.testing``, ``codex_acp.transcript`` and ``codex_acp.errors``.
"""

from codex_acp._version import __version__

__all__ = ["__version__"]
