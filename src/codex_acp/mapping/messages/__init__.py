"""What Codex tells in words, as updates of a session."""
