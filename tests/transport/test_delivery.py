"""What is sent for the messages of one read is one write, behind the last of them."""

from __future__ import annotations

import logging

import pytest

from codex_acp.jsonrpc import Notification
from codex_acp.transport.connection import Connection
from codex_acp.transport.link import Receiver
from tests.transport.recording import Recorder, settle

READ = b'{"method":"one"}\n{"method":"two"}\n'


class Told:
    """A connection, and its link, which notes at once what is written to it."""

    def __init__(self, *, breaks: bool = False) -> None:
        self.written: list[bytes] = []
        self.breaks = breaks
        self.connection = Connection(self, name="peer", version=False)

    def start(self, receiver: Receiver) -> None:
        """Nothing comes but what the test delivers."""

    def write(self, data: bytes) -> None:
        if self.breaks:
            message = "no"
            raise ValueError(message)
        self.written.append(data)

    def pause_reading(self) -> None:
        """It does not read."""

    resume_reading = pause_reading

    async def aclose(self) -> None:
        """It has nothing."""


class Relay(Recorder):
    """Sends to every connection what it hears, and once more at the end of the read."""

    def __init__(self, *to: Connection) -> None:
        super().__init__()
        self.to = to

    def on_notification(self, notification: Notification) -> None:
        for connection in self.to:
            connection.notify(notification.method, None)

    def on_batch_end(self) -> None:
        for connection in self.to:
            connection.outbox.hold(lambda: None)


async def test_each_connection_writes_once_before_the_loop_goes_on() -> None:
    told = [Told(), Told(), Told()]
    told[0].connection.start(Relay(*(each.connection for each in told)))
    for each in told[1:]:
        each.connection.start(Recorder())

    told[0].connection.data_received(READ)

    assert [each.written for each in told] == [[READ]] * 3
    await settle()
    assert [each.written for each in told] == [[READ]] * 3


async def test_what_is_sent_otherwise_waits_for_the_end_of_the_iteration() -> None:
    told = Told()
    told.connection.start(Recorder())
    told.connection.notify("one", None)
    told.connection.data_received(b'{"method":"heard"}\n')
    told.connection.notify("two", None)
    assert told.written == []
    await settle()
    assert told.written == [READ]


async def test_one_that_cannot_write_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    broken, whole = Told(breaks=True), Told()
    whole.connection.start(Relay(broken.connection, whole.connection))
    broken.connection.start(Recorder())
    with caplog.at_level(logging.ERROR):
        whole.connection.data_received(READ)
    assert whole.written == [READ]
    assert "could not be written" in caplog.text


async def test_what_is_held_and_cannot_be_written_silences_nobody() -> None:
    told = Told()
    told.connection.start(Recorder())

    def fails() -> None:
        message = "no"
        raise ValueError(message)

    class Holds(Recorder):
        def on_notification(self, notification: Notification) -> None:
            told.connection.notify(notification.method, None)
            told.connection.outbox.hold(fails)

    heard = Told()
    heard.connection.start(Holds())
    heard.connection.data_received(b'{"method":"one"}\n')
    heard.connection.data_received(b'{"method":"two"}\n')
    await settle()
    assert b"".join(told.written) == READ
