"""What every generated model stands on: the base class, reading rules, encode and decode.

Knows JSON values and pydantic; knows no protocol, no method and no transport.
Import the modules directly: this package itself loads nothing.
"""
