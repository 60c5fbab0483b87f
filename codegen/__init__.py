"""The generator: pinned schemas in, models and tables out.

Runs from a checkout with ``python -m codegen``; nothing in ``src`` imports it.
"""
