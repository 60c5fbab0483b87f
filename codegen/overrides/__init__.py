"""Decide what the schemas leave open, in tables. An entry that nothing uses stops the run."""
