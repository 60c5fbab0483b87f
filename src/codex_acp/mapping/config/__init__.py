"""A session's config options and modes, to Codex's settings and back."""
