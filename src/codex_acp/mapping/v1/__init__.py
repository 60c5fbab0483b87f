"""Render the events of a session for ACP v1. Imports nothing of another version."""
