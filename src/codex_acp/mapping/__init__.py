"""Pure functions between Codex and ACP: no IO, no clock, no async. Loads no model by itself."""
