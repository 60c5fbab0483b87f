"""Logins: of the account, and of MCP servers."""
