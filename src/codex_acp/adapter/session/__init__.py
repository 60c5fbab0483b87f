"""Decide what a session does, in any order of events, in one place.

`machine` handles one event at a time and returns effects, without IO, clock or task. `driver`
makes events of messages and timers, and carries the effects out in the order given. `events` and
`states` have their plain values; `record` writes events to a file and plays them again.
"""
