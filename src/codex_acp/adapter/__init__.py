"""The ACP agent: one ACP connection joined to one Codex app-server.

Loads nothing by itself; ``adapter.serve`` is the way in.
"""
