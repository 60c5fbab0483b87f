"""Server requests of Codex: given to the routing, asked of the person, answered once."""
