"""Slash commands: which there are, and what each asks of Codex."""
