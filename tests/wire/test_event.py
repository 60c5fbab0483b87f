"""Events: frozen values that match, compare, print, copy and pickle."""

from __future__ import annotations

import copy
import pickle

import pytest

from codex_acp.codex import types
from codex_acp.codex._generated.methods import SERVER_NOTIFICATIONS
from codex_acp.codex._generated.notifications import NOTIFICATION_CLASSES

WARNING = types.WarningNotification(message="m")


def test_every_notification_has_its_class() -> None:
    assert NOTIFICATION_CLASSES.keys() == SERVER_NOTIFICATIONS.keys()
    for method, make in NOTIFICATION_CLASSES.items():
        event = make(None)
        assert (event.method, event.params) == (method, None)
        assert not hasattr(event, "__dict__")


def test_an_event_matches_by_class_and_by_its_parts() -> None:
    match types.WarningEvent(WARNING):
        case types.WarningEvent(params=params):
            assert params is WARNING
    match types.WarningEvent(params=WARNING, method="warning"):
        case types.WarningEvent(params, its_method):
            assert (params, its_method) == (WARNING, "warning")
    match types.UnknownNotification({"a": 1}, "new"):
        case types.UnknownNotification(params, method, problem):
            assert (params, method, problem) == ({"a": 1}, "new", None)


def test_events_compare_by_class_and_content() -> None:
    event = types.WarningEvent(WARNING)
    assert event == types.WarningEvent(types.WarningNotification(message="m"))
    assert event != types.WarningEvent(types.WarningNotification(message="n"))
    assert event != types.GuardianWarningEvent(WARNING)  # type: ignore[arg-type]
    assert types.UnknownNotification(1, "a", "b") != types.UnknownNotification(1, "a", "c")
    with pytest.raises(TypeError):
        hash(event)


def test_events_print_what_they_hold() -> None:
    assert (
        repr(types.WarningEvent(WARNING)) == f"WarningEvent(params={WARNING!r}, method='warning')"
    )
    unknown = types.UnknownNotification([1], "new", "bad")
    assert repr(unknown) == "UnknownNotification(params=[1], method='new', problem='bad')"


@pytest.mark.parametrize(
    "event", [types.WarningEvent(WARNING), types.UnknownNotification([1], "new", "bad")]
)
def test_events_are_copied_and_pickled(event: types.WarningEvent) -> None:
    for made in (copy.copy(event), copy.deepcopy(event), pickle.loads(pickle.dumps(event))):
        assert made == event
        assert type(made) is type(event)


def test_an_event_is_frozen_and_of_its_own_method() -> None:
    event = types.WarningEvent(WARNING)
    for name in ("params", "method", "other"):
        with pytest.raises(AttributeError, match=f"cannot assign to '{name}'"):
            setattr(event, name, 1)
    with pytest.raises(ValueError, match="'warning', not 'error'"):
        types.WarningEvent(WARNING, "error")  # type: ignore[arg-type]
