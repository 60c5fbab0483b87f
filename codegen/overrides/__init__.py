"""Decisions the schemas leave open, one table each. An entry that nothing uses stops the run."""
