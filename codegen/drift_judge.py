"""PURE: judge what each change means for this project, and whether it needs a decision.

Three changes need a decision: a total table lacks a row, a closed match lacks an arm, or
handwritten code uses a removed or changed part. Every other change is compatible, because the
models keep unknown fields, values and members.
"""

from __future__ import annotations

from codegen.arms import MissingArm, closed_sets, lacking
from codegen.bundles import ACP_SCHEMAS
from codegen.drift_compare import compare
from codegen.drift_model import Change, Judged, Report, SchemaSet, Verdict
from codegen.drift_ours import Ours
from codegen.ir import EnumDef, Protocol, UnionDef
from codegen.naming import snake
from codegen.older import sent

YES, NO = Verdict.DECISION, Verdict.COMPATIBLE


def drift(old: SchemaSet, new: SchemaSet, ours: Ours) -> Report:
    """Return the report on all changes from ``old`` to ``new``."""
    arms = lacking(list(ours.files), closed_sets(new.protocols))
    judged = [
        Judged(change, NO, "older versions still send it, so it stays")
        if _stays(change, new.readable)
        else judge(change, ours, arms)
        for change in compare(old, new)
    ]
    if new.problem:
        stop = Change("", "generator", "changed", "", "the generator stops at the new schema")
        judged.insert(0, Judged(stop, YES, new.problem))
    return Report(old.versions, new.versions, tuple(judged))


def _stays(change: Change, readable: Protocol | None) -> bool:
    """Return whether a removed part is still generated, because older Codex versions have it."""
    if readable is None or change.protocol != "codex" or change.kind != "removed":
        return False
    if change.area == "type":
        return change.name in readable.definitions
    if change.owner in readable.methods:
        return change.name in {method.wire for method in readable.methods[change.owner]}
    if change.owner in sent(readable):
        return False  # the new version may not accept it any more
    owner = readable.definitions.get(change.owner)
    if isinstance(owner, EnumDef):
        return change.name in map(str, owner.values)
    if isinstance(owner, UnionDef):
        return change.name in {*owner.literals, *(label for label, _ in owner.choices)}
    return False


def judge(change: Change, ours: Ours, arms: list[MissingArm]) -> Judged:
    """Judge one change. ``arms`` are missing in closed matches."""
    match change.area:
        case "server request":
            return _server_request(change, ours)
        case "notification" if change.protocol == "codex":
            return _notification(change, ours)
        case "request" | "notification":
            return _method(change, ours)
        case "item":
            return _item(change, ours, arms)
        case "elicitation mode" | "decision":
            return _discriminator(change, ours)
        case "field":
            return _field(change, ours)
        case "value" | "member":
            return _value(change, ours, arms)
        case _:
            return _type(change, ours)


def _server_request(change: Change, ours: Ours) -> Judged:
    row = ours.routes.get(change.name)
    if change.kind == "added":
        if row is None:
            return Judged(change, YES, "UNROUTED: it needs a route and a negative reply")
        if change.name not in ours.refusals:
            return Judged(change, YES, f"routed as {row}, but has no negative reply")
        return Judged(change, NO, f"routed as {row}")
    if change.kind == "removed":
        return _removed(change, row, "its route and its refusal are superfluous")
    route = "UNROUTED" if row is None else f"routed as {row}"
    return Judged(change, YES, f"{route}; its shape is another")


def _removed(change: Change, row: str | None, meaning: str) -> Judged:
    return Judged(change, NO, "no table has it") if row is None else Judged(change, YES, meaning)


def _notification(change: Change, ours: Ours) -> Judged:
    if change.owner != "server_notifications":
        return Judged(change, NO, "a typed call of the client")
    row = ours.notifications.get(change.name)
    if change.kind == "removed":
        return _removed(change, row, "its row is superfluous")
    if row is None:
        return Judged(change, YES, "unmapped: it needs a row")
    return Judged(change, NO if change.kind == "added" else YES, row)


def _method(change: Change, ours: Ours) -> Judged:
    call = snake(change.name)
    if change.protocol in ACP_SCHEMAS and change.kind == "added":
        if change.experimental:
            return Judged(change, NO, f"unstable: no table must have it; a new typed call, {call}")
        if (change.protocol, change.name) in ours.acp_rows:
            return Judged(change, NO, "every table of handlers has it")
        return Judged(change, YES, "tables of handlers lack it")
    if change.kind == "added":
        return Judged(change, NO, f"a new typed call, {call}")
    places = ours.mentioned(change.protocol, {call, change.name})
    before, after = (text.removesuffix(" (experimental)") for text in (change.before, change.after))
    if change.kind == "changed" and before == after:
        return Judged(change, NO, "only how stable it is has changed")
    if places:
        return Judged(change, YES, "handwritten code uses it", places)
    return Judged(change, NO, f"only the typed call {call} changes")


def _item(change: Change, ours: Ours, arms: list[MissingArm]) -> Judged:
    if change.kind == "removed":
        places = ours.uses.get((change.protocol, change.before), ())
        return Judged(change, YES if places else NO, "", places)
    matches = _matches_without(change, arms)
    if matches:
        return Judged(change, YES, "unmapped: matches lack it", matches)
    new = [cls for cls in change.after.split(", ") if cls not in change.before.split(", ")]
    if all(cls in ours.mapped for cls in new):
        found = {p: None for cls in new for p in ours.uses.get((change.protocol, cls), ())}
        return Judged(change, NO, "mapped", tuple(found))
    return Judged(change, YES, "unmapped: no code of the mapping names it")


def _discriminator(change: Change, ours: Ours) -> Judged:
    row = ours.discriminators[change.owner].get(change.name)
    if change.kind == "removed":
        return _removed(change, row, "its row in DISCRIMINATORS is superfluous")
    if row is None:
        return Judged(change, YES, "undecided: it needs a row in DISCRIMINATORS")
    if change.kind == "changed":
        return Judged(change, YES, f"its shape is another; decided: {row}")
    return Judged(change, NO, f"decided: {row}")


def _value(change: Change, ours: Ours, arms: list[MissingArm]) -> Judged:
    matches = _matches_without(change, arms)
    if matches:
        return Judged(change, YES, "closed matches lack it", matches)
    if change.kind != "removed":
        return Judged(change, NO, "", ours.public.get((change.protocol, change.owner), ()))
    cls = change.before  # of a union's member; empty for a value of an enum
    places = (
        ours.uses.get((change.protocol, cls), ())
        if cls
        else ours.mentioned(change.protocol, {change.name})
    )
    if places:
        return Judged(change, YES, "handwritten code names it", places)
    return Judged(change, NO)


def _matches_without(change: Change, arms: list[MissingArm]) -> tuple[str, ...]:
    """Return the places of the closed matches that have no arm for the changed value."""
    values = {change.name, *change.after.split(", ")}
    return tuple(
        f"{arm.path}:{arm.line}"
        for arm in arms
        if arm.union == change.owner and arm.value in values
    )


def _type(change: Change, ours: Ours) -> Judged:
    key = (change.protocol, change.name)
    places = (*ours.uses.get(key, ()), *ours.public.get(key, ()))
    if change.kind == "added" or not places:
        return Judged(change, NO, "", places)
    return Judged(change, YES, "handwritten code uses it", places)


def _field(change: Change, ours: Ours) -> Judged:
    key = (change.protocol, change.owner)
    shown = ours.public.get(key, ())
    used = ours.uses.get(key, ())
    if change.kind == "added":
        if not change.after.startswith("required"):
            return Judged(change, NO, "", shown)
        if change.flow == "received":
            return Judged(change, NO, "older versions do not send it", shown)
        if used:
            meaning = "handwritten code makes this type and must set it"
            return Judged(change, YES, meaning, (*used, *shown))
        return Judged(change, NO, "", shown)
    places = ours.mentioned(change.protocol, {snake(change.name), change.name})
    if _is_harmless(change) or not places:
        return Judged(change, NO, "", shown)
    return Judged(change, YES, "handwritten code may use it", (*places, *shown))


def _is_harmless(change: Change) -> bool:
    """Return whether a field that is sent became optional, or a received field became required."""
    old_need, _, old_type = change.before.partition(" ")
    new_need, _, new_type = change.after.partition(" ")
    if change.kind != "changed" or old_type != new_type:
        return False
    return (change.flow, old_need, new_need) in (
        ("sent", "required", "optional"),
        ("received", "optional", "required"),
    )
