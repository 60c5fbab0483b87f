"""PURE: the rows of the routing table, as values, and what makes one impossible.

Their types, by method, mode, kind and decision, are generated: `routing._generated.rows`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from codex_acp.codex.approvals.classify import (
    ApprovalRequest,
    ElicitationRequest,
    ProgramOnly,
    Refused,
)
from codex_acp.errors import IncompleteTable
from codex_acp.wire.registry import require_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codex_acp.codex.approvals.grants import Grant

ApprovalT_co = TypeVar("ApprovalT_co", covariant=True)
ElicitationT_co = TypeVar("ElicitationT_co", covariant=True)
DeclineT_co = TypeVar("DeclineT_co", covariant=True)


class Row(NamedTuple, Generic[ApprovalT_co, ElicitationT_co, DeclineT_co]):
    """Outcomes that requests of a method, a mode or a kind can have: classes of `classify`.

    Each can be declined besides; ``decline`` is given where nothing else becomes of them.
    """

    why: str
    """One sentence for people."""
    approval: tuple[ApprovalT_co, ...] = ()
    elicitation: tuple[ElicitationT_co, ...] = ()
    decline: tuple[DeclineT_co, ...] = ()


class Sent(NamedTuple, Generic[ElicitationT_co]):
    """When a decision is sent to Codex; never, if nothing is given but the reason."""

    why: str
    """One sentence for people."""
    approval: tuple[type[Grant], ...] = ()
    """For these grants, which only the ledger and a policy can give."""
    elicitation: tuple[ElicitationT_co, ...] = ()
    """For what a person does with these."""
    decline: tuple[Literal["refusal", "cancellation"], ...] = ()
    """As the negative reply, or as the one that ends a cancelled prompt's turn."""


AnyRow: TypeAlias = "Row[object, object, object] | Sent[object]"


def require_possible(
    file: str,
    tables: Mapping[str, Mapping[str, AnyRow]],
    takes: Mapping[str, Mapping[str, tuple[str, ...]]],
) -> None:
    """Compare the tables of ``file`` with the schema, at import: their keys, and what rows name.

    ``takes`` says of each row what the classes that it may name are made of.
    Raises IncompleteTable that names each row to add, to remove or to mend.
    """
    require_rows(f"the tables of {file}", tables, takes)
    for name, rows in tables.items():
        require_rows(f"{name} in {file}", rows, takes[name])
        problems = [
            f"mend the row for {key!r}: {problem}"
            for key, row in rows.items()
            for problem in _problems(row, takes[name][key])
        ]
        if problems:
            raise IncompleteTable(f"{name} in {file}", tuple(problems))


def _problems(row: AnyRow, takes: tuple[str, ...]) -> Iterator[str]:
    if not row.why:
        yield "it gives no reason"
    if isinstance(row, Row):
        if bool(row.decline) == bool(row.approval or row.elicitation):
            yield "it must either ask or decline"
        yield from _misplaced(row.approval, get_args(ApprovalRequest), takes)
        yield from _misplaced(row.decline, (ProgramOnly, Refused), takes[:1])
    yield from _misplaced(row.elicitation, get_args(ElicitationRequest), takes)


def _misplaced(
    named: tuple[object, ...], kinds: tuple[object, ...], takes: tuple[str, ...]
) -> Iterator[str]:
    """Classes of another kind than their field, or that are not made of such a request."""
    for kind in named:
        fields = [str(getattr(f, "__forward_arg__", f)) for f in kind.__annotations__.values()]
        fits = (
            kind in kinds
            and len(fields) >= len(takes)
            and all(
                field == "ServerRequest" or set(taken.split(" | ")) & set(field.split(" | "))
                for field, taken in zip(fields, takes, strict=False)
            )
        )
        if not fits:
            yield f"it cannot become {getattr(kind, '__name__', kind)}"
