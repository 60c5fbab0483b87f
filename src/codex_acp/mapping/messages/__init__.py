"""Map Codex's messages in words to updates of a session."""
