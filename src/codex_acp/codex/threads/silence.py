"""Watching running turns for silence: one watchdog per client and time, whoever runs the turns.

Owns the sharing: a watchdog hears every notification of its client, so a hundred turns must not
have a hundred of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.codex.threads.watchdog import ROUNDS, SilentTurn, TurnWatchdog

if TYPE_CHECKING:
    from codex_acp.codex.connection.app_server_connection import AppServerConnection

WARN_AFTER_SECONDS: Final = 120.0
"""After this a silent turn is a warning in the log, unless the program set a time of its own."""


class Watches:
    """The watches of one client, by their time."""

    def __init__(self, client: AppServerConnection) -> None:
        self._client = client
        self._by_time: dict[float, _Shared] = {}

    def watch(self, after: float, thread_id: str, turn_id: str) -> SilenceWatch:
        """Watch a turn from now on; close it. Raises MisuseError for a time that is none."""
        shared = self._by_time.get(after)
        if shared is None:
            shared = self._by_time[after] = _Shared(self._client, after)
        return SilenceWatch(self, shared, thread_id, turn_id)

    def _unused(self, after: float) -> None:
        self._by_time.pop(after).watchdog.close()


class _Shared:
    def __init__(self, client: AppServerConnection, after: float) -> None:
        self.after = after
        self.users = 0
        self.reports: dict[str, SilentTurn] = {}
        self.watchdog: TurnWatchdog = TurnWatchdog(client, after, self._report)

    def _report(self, silent: SilentTurn) -> None:
        self.reports[silent.turn_id] = silent


class SilenceWatch:
    """The watch of one turn; made by `Watches.watch`."""

    def __init__(self, watches: Watches, shared: _Shared, thread_id: str, turn_id: str) -> None:
        self._watches = watches
        self._shared = shared
        self._thread_id = thread_id
        self._turn_id = turn_id
        shared.users += 1
        shared.watchdog.expect(thread_id, turn_id)

    @property
    def look_every(self) -> float:
        """Seconds after which whoever waits for the turn should `check`."""
        return self._shared.after / ROUNDS

    def check(self) -> SilentTurn | None:
        """The report of this turn's silence, once; None while there is none."""
        self._shared.watchdog.check()
        return self._shared.reports.pop(self._turn_id, None)

    def close(self) -> None:
        """Watch no more."""
        shared = self._shared
        shared.watchdog.forget(self._thread_id, self._turn_id)
        shared.reports.pop(self._turn_id, None)
        shared.users -= 1
        if not shared.users:
            self._watches._unused(shared.after)
