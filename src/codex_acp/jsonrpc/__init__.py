"""JSON-RPC 2.0 without IO: messages, encoding, framing of lines, correlation of ids.

Knows neither ACP nor Codex, neither asyncio nor pydantic. Import from the submodules
``message``, ``framing`` and ``correlation``; this module loads nothing.
"""
