"""PURE: what an agent of version 2 says, in the models of version 1.

For a program that is written once and drives agents of either version. What version 1 has no
place for is an `UnknownVariant` with all of it. Knows no session, no connection and no clock.
"""
