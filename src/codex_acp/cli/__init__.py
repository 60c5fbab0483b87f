"""The command ``codex-acp-sdk``. Loads nothing by itself."""
