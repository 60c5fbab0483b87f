"""``codex-acp-sdk transcript``: a transcript in the terminal, or as one page."""
