"""What Codex asks: given to the routing, asked of the person, answered once."""
