"""Give generated models their base class, their reading rules, and encode and decode.

Knows JSON values and pydantic; knows no protocol, no method and no transport.
Import the modules directly: this package itself loads nothing.
"""
