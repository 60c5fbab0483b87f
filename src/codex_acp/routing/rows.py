"""PURE: the rows of the routing table, and the check that each of them is possible.

The types of the rows, by method, mode, kind and decision, are generated: `routing._generated.rows`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from codex_acp.codex.approvals import classify
from codex_acp.errors import IncompleteTable
from codex_acp.wire.registry import require_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codex_acp.codex.approvals.grants import Grant

ApprovalT_co = TypeVar("ApprovalT_co", covariant=True)
ElicitationT_co = TypeVar("ElicitationT_co", covariant=True)
DeclineT_co = TypeVar("DeclineT_co", covariant=True)


class Row(NamedTuple, Generic[ApprovalT_co, ElicitationT_co, DeclineT_co]):
    """Classes of `classify` that requests of one method, mode or kind can become. Any request can
    be declined; a row has ``decline`` only if all of its requests are declined."""

    why: str
    """One sentence for people."""
    approval: tuple[ApprovalT_co, ...] = ()
    elicitation: tuple[ElicitationT_co, ...] = ()
    decline: tuple[DeclineT_co, ...] = ()


class SentDecision(NamedTuple, Generic[ElicitationT_co]):
    """The replies that send a decision to Codex; with ``why`` alone, the decision is never sent."""

    why: str
    """One sentence for people."""
    approval: tuple[type[Grant], ...] = ()
    """Grants that send the decision; only the ledger and a policy give grants."""
    elicitation: tuple[ElicitationT_co, ...] = ()
    """Elicitations whose answer by the person can send the decision."""
    decline: tuple[Literal["refusal", "cancellation"], ...] = ()
    """``refusal``: the decision says no. ``cancellation``: it answers for a cancelled prompt."""


AnyRow: TypeAlias = "Row[object, object, object] | SentDecision[object]"


def require_possible(
    file: str,
    tables: Mapping[str, Mapping[str, AnyRow]],
    field_types: Mapping[str, Mapping[str, tuple[str, ...]]],
) -> None:
    """Compare the keys and the rows of the tables in ``file`` with the schema, at import.
    ``field_types``: table → row → the types that the first fields of the row's classes must have.
    Raises IncompleteTable, which names each row to add, to remove or to mend."""
    require_rows(f"the tables of {file}", tables, field_types)
    for name, rows in tables.items():
        require_rows(f"{name} in {file}", rows, field_types[name])
        problems = [
            f"mend the row for {key!r}: {problem}"
            for key, row in rows.items()
            for problem in _problems(row, field_types[name][key])
        ]
        if problems:
            raise IncompleteTable(f"{name} in {file}", tuple(problems))


def _problems(row: AnyRow, field_types: tuple[str, ...]) -> Iterator[str]:
    if not row.why:
        yield "it gives no reason"
    if isinstance(row, Row):
        if bool(row.decline) == bool(row.approval or row.elicitation):
            yield "it must either ask or decline"
        yield from _misplaced(row.approval, get_args(classify.ApprovalRequest), field_types)
        # The classes of declined requests have the field for the request, but no params or item.
        yield from _misplaced(
            row.decline, (classify.ProgramOnly, classify.Refused), field_types[:1]
        )
    yield from _misplaced(row.elicitation, get_args(classify.ElicitationRequest), field_types)


def _misplaced(
    classes: tuple[object, ...], allowed: tuple[object, ...], field_types: tuple[str, ...]
) -> Iterator[str]:
    """Yield a problem for each class that is not ``allowed`` or whose fields do not fit."""
    for cls in classes:
        fields = [str(getattr(f, "__forward_arg__", f)) for f in cls.__annotations__.values()]
        fields_fit = len(fields) >= len(field_types) and all(
            field == "ServerRequest" or set(wanted.split(" | ")) & set(field.split(" | "))
            for field, wanted in zip(fields, field_types, strict=False)
        )
        if cls not in allowed or not fields_fit:
            yield f"it cannot become {getattr(cls, '__name__', cls)}"
