"""ACP v2: how it writes what a session tells. Imports nothing of another version."""
