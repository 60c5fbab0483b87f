"""What a person sets: options and modes, told to Codex and shown as Codex reports them."""
