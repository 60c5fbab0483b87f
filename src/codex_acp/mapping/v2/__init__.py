"""Render the events of a session for ACP v2. Imports nothing of another version."""
