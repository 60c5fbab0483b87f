"""PURE: the ways in which an approval can be granted, and the one maker of accepting replies.

Only `accepting_reply` makes accepting replies, after the checks of contract 3.2. The routing's
ledger calls it with a person's answer, and the policy runner with a policy's grant; a test allows
no other caller.

The offered grants (contract 2.6, 3.6) are the grants that the request lists. A kind of request that
cannot list grants offers all that the response schema allows. Only this module checks that a grant
was offered; Codex does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, assert_never

from codex_acp.codex._generated import models
from codex_acp.codex.approvals.actions import (
    changes_of,
    command_written_to,
    elsewhere,
    is_input,
)
from codex_acp.codex.approvals.classify import (
    ApprovalRequest,
    CommandApproval,
    FileChangeApproval,
    LegacyCommandApproval,
    LegacyPatchApproval,
    McpToolApproval,
    McpToolQuestion,
    PermissionsApproval,
)
from codex_acp.codex.approvals.running_items import created_paths, move_target, server_of
from codex_acp.wire.codec import digest, plain
from codex_acp.wire.model import UnknownValue, UnknownVariant, WireModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_acp.codex.approvals.running_items import PathLook
    from codex_acp.jsonrpc import JsonValue


@dataclass(frozen=True, slots=True)
class Once:
    """This one action."""


@dataclass(frozen=True, slots=True)
class Session:
    """This action and all actions that Codex treats as equal, for the rest of the session.

    Equal are: the same command in the same directory; any change to the same files, even their
    deletion; any call of the same tool; the same permissions for every command and edit.
    """


@dataclass(frozen=True, slots=True)
class Always:
    """Every call of this tool, in every directory and later session: Codex writes the grant to its
    configuration."""


@dataclass(frozen=True, slots=True)
class RememberPrefix:
    """Every command that begins with ``prefix``, without a question and outside of the sandbox, in
    every directory and later session: Codex writes a rule to ``rules/`` in ``CODEX_HOME``."""

    prefix: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RememberHost:
    """A rule for connections to a host, in every directory and later session."""

    host: str
    action: str
    """``allow``, which lets the action run, or ``deny``."""


Grant: TypeAlias = Once | Session | Always | RememberPrefix | RememberHost
"""The reach of an accepting reply; a policy chooses from the ``offered`` grants of its question."""


def allows(grant: Grant) -> bool:
    """Return whether the grant lets the action run. Only a rule that denies a host does not."""
    return not isinstance(grant, RememberHost) or grant.action == "allow"


class OfferedGrants(NamedTuple):
    """The grants of a request, in Codex's order."""

    grants: tuple[Grant, ...]
    unknown: tuple[str, ...] = ()
    """Decisions of the request that are left out, as text for the log."""


_QUESTION_LABELS: Final[dict[str, Grant]] = {
    "Allow": Once(),
    "Approve Once": Once(),
    "Allow for this session": Session(),
    "Approve this Session": Session(),
    "Allow and don't ask me again": Always(),
}
"""Label in Codex's older question about a tool call → grant; other labels grant nothing."""


def offered_grants(approval: ApprovalRequest) -> OfferedGrants:
    """Return the grants that this request offers, each once, in Codex's order."""
    match approval:
        case CommandApproval(request=request):
            offered = _command_grants(request.params)
        case (
            FileChangeApproval()
            | PermissionsApproval()
            | LegacyCommandApproval()
            | LegacyPatchApproval()
        ):
            offered = OfferedGrants((Once(), Session()))
        case McpToolApproval(params=params, item=call):
            offered = _tool_grants(params.meta, call)
        case McpToolQuestion(request=question, item=call):
            labels = [o.label for o in question.params.questions[0].options or ()]
            grants = [_QUESTION_LABELS[label] for label in labels if label in _QUESTION_LABELS]
            offered = OfferedGrants(tuple(g for g in grants if g == Once() or _may_persist(call)))
        case _:
            assert_never(approval)
    # Codex takes a rule for a command on every machine, even if the command ran on this one.
    if elsewhere(approval) or (isinstance(approval, CommandApproval) and approval.environments):
        offered = _only_once(offered, "with other machines")
    return OfferedGrants(tuple(dict.fromkeys(offered.grants)), offered.unknown)


def _only_once(offered: OfferedGrants, why: str) -> OfferedGrants:
    lasting = tuple(f"{grant}: not {why}" for grant in offered.grants if grant != Once())
    grants = tuple(grant for grant in offered.grants if grant == Once())
    return OfferedGrants(grants, offered.unknown + lasting)


def _command_grants(params: models.CommandExecutionRequestApprovalParams) -> OfferedGrants:
    listed = _listed_grants(params)
    if params.kind == "command":
        return listed
    # No grant may last: a person must decide about each humanCommand, and Codex asks again
    # before each input, after any grant.
    return _only_once(listed, f"for {params.kind}")


def _listed_grants(params: models.CommandExecutionRequestApprovalParams) -> OfferedGrants:
    """Return the grants of ``availableDecisions``; if absent, the grants of the request's kind."""
    if params.available_decisions is None:
        if params.additional_permissions is not None or params.kind != "command":
            return OfferedGrants((Once(),))
        is_network = params.network_approval_context is not None
        return OfferedGrants(
            (Once(), Session(), *(_hosts(params) if is_network else _prefixes(params)))
        )
    grants: list[Grant] = []
    unknown: list[str] = []
    for decision in params.available_decisions:
        match decision:
            case "accept":
                grants.append(Once())
            case "acceptForSession":
                grants.append(Session())
            case "decline" | "cancel":
                pass
            case models.AcceptWithExecpolicyAmendmentDecision():
                prefix = decision.accept_with_execpolicy_amendment.execpolicy_amendment
                proposed = [g for g in _prefixes(params) if list(g.prefix) == prefix]
                grants += proposed
                unknown += [] if proposed else [_not_proposed(decision)]
            case models.ApplyNetworkPolicyAmendmentDecision():
                rule = decision.apply_network_policy_amendment.network_policy_amendment
                hosts = [h for h in _hosts(params) if h == RememberHost(rule.host, rule.action)]
                grants += hosts
                unknown += [] if hosts else [_not_proposed(decision)]
            case UnknownValue() | UnknownVariant():
                unknown.append(str(plain(decision)))
            case _:
                assert_never(decision)
    return OfferedGrants(tuple(grants), tuple(unknown))


def _not_proposed(decision: WireModel) -> str:
    return f"an amendment that was not proposed: {plain(decision)}"


def _prefixes(params: models.CommandExecutionRequestApprovalParams) -> list[RememberPrefix]:
    proposed = params.proposed_execpolicy_amendment
    return [RememberPrefix(tuple(proposed))] if proposed else []


def _hosts(params: models.CommandExecutionRequestApprovalParams) -> list[RememberHost]:
    context = params.network_approval_context
    if context is None:
        return []
    return [
        RememberHost(rule.host, rule.action)
        for rule in params.proposed_network_policy_amendments or ()
        if rule.host == context.host and rule.action in ("allow", "deny")
    ]


def _may_persist(call: models.McpToolCallThreadItem) -> bool:
    """Return whether a lasting grant may be offered for a call: not if its tool only reads. By
    default Codex does not ask about such a call: the question may come from the MCP server itself,
    whose elicitations look like Codex's questions."""
    return call.read_only_hint is not True


def _tool_grants(meta: Any, call: models.McpToolCallThreadItem) -> OfferedGrants:
    persist = meta.get("persist") if isinstance(meta, dict) and _may_persist(call) else None
    values = [persist] if isinstance(persist, str) else persist
    grants: list[Grant] = [Once()]
    unknown: list[str] = []
    for value in values if isinstance(values, list) else ():
        if value == "session":
            grants.append(Session())
        elif value == "always":
            grants.append(Always())
        else:
            unknown.append(str(value))
    return OfferedGrants(tuple(grants), tuple(unknown))


def arguments_of(approval: ApprovalRequest) -> dict[str, JsonValue]:
    """Return the approved action as JSON: shown to the person, and digested (contract 3.2)."""
    arguments, machines = _arguments_here(approval), elsewhere(approval)
    if machines and isinstance(approval, PermissionsApproval):
        asked = _members(approval.request.params)
        arguments |= {key: asked[key] for key in ("environmentId", "cwd") if key in asked}
    if machines and arguments.get("environmentId") is None:
        arguments["environments"] = list(machines)
    return arguments


def _arguments_here(approval: ApprovalRequest) -> dict[str, JsonValue]:
    """Return the arguments of an action on this machine."""
    match approval:
        case CommandApproval(request=command):
            members = _members(command.params)
            if is_input(approval):
                members["runningCommand"] = command_written_to(approval)
            return members
        case FileChangeApproval(request=asked, item=change):
            arguments: dict[str, JsonValue] = {"changes": plain(change.changes), "id": change.id}
            root = asked.params.grant_root  # an accepting reply allows writing below it, too
            return arguments if root is None else {**arguments, "grantRoot": root}
        case PermissionsApproval(request=permissions):
            return {"permissions": plain(permissions.params.permissions)}
        case McpToolApproval(item=call) | McpToolQuestion(item=call):
            server = server_of(call)
            return {"server": server, "tool": call.tool, "arguments": plain(call.arguments)}
        case LegacyCommandApproval(request=legacy) | LegacyPatchApproval(request=legacy):
            return _members(legacy.params)
        case _:
            assert_never(approval)


def _members(model: WireModel) -> dict[str, JsonValue]:
    value = plain(model)
    assert isinstance(value, dict)
    return value


def digest_of(approval: ApprovalRequest, looks: Mapping[str, PathLook] | None = None) -> str:
    """Return the SHA-256 of the canonical JSON of `arguments_of`, with the places that the paths
    lead to, and the texts of moved files: Codex moves the text that a file has by then."""
    changes = changes_of(approval)
    created, moved = created_paths(changes), {each.path for each in changes if move_target(each)}
    places = {
        path: [
            *(look.place, look.real, look.problem),
            *([look.exists] if path in created else ()),
            *([look.size, look.text] if path in moved else ()),
        ]
        for path, look in (looks or {}).items()
    }
    return digest({**arguments_of(approval), **({"places": places} if places else {})})


class NotGranted(NamedTuple):
    """The check of contract 3.2 that failed, and one sentence for the person."""

    check: str
    reason: str


def accepting_reply(
    grant: Grant,
    offered: tuple[Grant, ...],
    shown: str,
    now: ApprovalRequest | None,
    looks: Mapping[str, PathLook] | None = None,
    *,
    running: bool,
) -> WireModel | NotGranted:
    """Return the reply that lets an action run, if it passes every check of contract 3.2.

    ``shown`` is the digest of the action that was shown; ``now`` is the action as Codex last
    reported it, None if it has ended; ``looks`` has the places that the paths lead to now;
    ``running`` is whether the action's turn still runs.
    """
    if grant not in offered:
        return NotGranted("unknown_option", f"{grant!r} was not offered")
    if not running:
        return NotGranted("turn_over", "its turn is over")
    if now is None or digest_of(now, looks) != shown:
        return NotGranted("changed", "what would run is no longer what was shown")
    return granted(now, grant)


def granted(approval: ApprovalRequest, grant: Grant) -> WireModel:
    """Return the reply for a grant; only `accepting_reply` may call this. Raises ValueError for a
    grant that was not offered."""
    if grant not in offered_grants(approval).grants:
        raise ValueError(f"{grant!r} was not offered for {approval.request.method}")
    legacy_decision: models.ReviewDecision = (
        "approved" if isinstance(grant, Once) else "approved_for_session"
    )
    match approval:
        case CommandApproval():
            return models.CommandExecutionRequestApprovalResponse(decision=_decision(grant))
        case FileChangeApproval():
            return models.FileChangeRequestApprovalResponse(
                decision="accept" if isinstance(grant, Once) else "acceptForSession"
            )
        case PermissionsApproval(request=request):
            wanted, profile = request.params.permissions, models.GrantedPermissionProfile()
            if wanted.file_system is not None:
                profile.file_system = wanted.file_system
            if wanted.network is not None:
                profile.network = wanted.network
            return models.PermissionsRequestApprovalResponse(
                permissions=profile, scope="turn" if isinstance(grant, Once) else "session"
            )
        case McpToolApproval():
            lasting = {Session(): "session", Always(): "always"}.get(grant)
            meta = None if lasting is None else {"persist": lasting}
            return models.McpServerElicitationRequestResponse(
                action="accept", content=None, meta=meta
            )
        case McpToolQuestion(request=question):
            (asked_about,) = question.params.questions
            labels = [o.label for o in asked_about.options or ()]
            chosen = [label for label in labels if _QUESTION_LABELS.get(label) == grant]
            answer = models.ToolRequestUserInputAnswer(answers=chosen[:1])
            return models.ToolRequestUserInputResponse(answers={asked_about.id: answer})
        case LegacyCommandApproval():
            return models.ExecCommandApprovalResponse(decision=legacy_decision)
        case LegacyPatchApproval():
            return models.ApplyPatchApprovalResponse(decision=legacy_decision)
        case _:
            assert_never(approval)


def _decision(grant: Grant) -> models.CommandExecutionApprovalDecision:
    match grant:
        case Once():
            return "accept"
        case Session() | Always():
            return "acceptForSession"
        case RememberPrefix(prefix=prefix):
            return models.AcceptWithExecpolicyAmendmentDecision(
                accept_with_execpolicy_amendment=models.AcceptWithExecpolicyAmendmentDetails(
                    execpolicy_amendment=list(prefix)
                )
            )
        case RememberHost(host=host, action=action):
            rule = models.NetworkPolicyAmendment(
                host=host, action="allow" if action == "allow" else "deny"
            )
            return models.ApplyNetworkPolicyAmendmentDecision(
                apply_network_policy_amendment=models.ApplyNetworkPolicyAmendmentDetails(
                    network_policy_amendment=rule
                )
            )
        case _:
            assert_never(grant)
