"""Pure functions between Codex and ACP: no IO, no clock, no async. Its import loads no models."""
