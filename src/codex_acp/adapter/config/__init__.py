"""Options and modes that a person sets, told to Codex and shown as Codex reports them."""
