"""Decide what a session does, in any order of events, in one place.

`machine` handles one event at a time and returns effects; it does no IO, reads no clock and starts
no task. `driver` is the only part with a loop: it turns what arrives into events and carries the
effects out in the order given. `events` and `states` are the plain values of both.
"""
