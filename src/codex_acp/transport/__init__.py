"""The IO edge: links that carry bytes, and the connection that pumps JSON-RPC through one.

Knows neither ACP nor Codex. Import from the submodules ``link``, ``connection``, ``stdio`` and
``child``; this module loads nothing, because ``child`` must start a process before asyncio is
imported.
"""
