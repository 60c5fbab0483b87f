"""Generate models and types of tables from the pinned schemas.

Runs from a checkout with ``python -m codegen``; nothing in ``src`` imports this package.
"""
