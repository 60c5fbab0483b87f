"""The version of this distribution, read by hatchling and by ``codex-acp-sdk --version``."""

__version__ = "0.1.0"
