"""The base of generated models: their base class, reading rules, encode and decode.

Knows JSON values and pydantic, but no protocol, method or transport. Import the modules directly:
this package itself loads nothing.
"""
