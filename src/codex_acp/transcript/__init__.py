"""The transcript: a log of the questions, who decided them and how, and the declined requests.

::

    transcript = Transcript()
    with TranscriptWriter(path) as writer:
        transcript.subscribe(writer.write)
        ...
        async with transcript.events() as entries:
            async for entry in entries:
                ...

``transcript.schema.json`` beside this file is the format of a written line. Names load when they
are first used: pure code may import ``transcript.events`` without loading the modules with IO.
"""

from __future__ import annotations

from codex_acp._lazy import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from codex_acp.transcript.events import SCHEMA_VERSION as SCHEMA_VERSION
    from codex_acp.transcript.events import AgreementDecided as AgreementDecided
    from codex_acp.transcript.events import ApprovalDecided as ApprovalDecided
    from codex_acp.transcript.events import ApprovalRefused as ApprovalRefused
    from codex_acp.transcript.events import ApprovalRequested as ApprovalRequested
    from codex_acp.transcript.events import ElicitationAnswered as ElicitationAnswered
    from codex_acp.transcript.events import ElicitationRequested as ElicitationRequested
    from codex_acp.transcript.events import Entry as Entry
    from codex_acp.transcript.events import OfferedOption as OfferedOption
    from codex_acp.transcript.events import PromptEnded as PromptEnded
    from codex_acp.transcript.events import PromptStarted as PromptStarted
    from codex_acp.transcript.events import RequestDeclined as RequestDeclined
    from codex_acp.transcript.events import RequestRef as RequestRef
    from codex_acp.transcript.events import SessionClosed as SessionClosed
    from codex_acp.transcript.events import SessionOpened as SessionOpened
    from codex_acp.transcript.events import SessionRef as SessionRef
    from codex_acp.transcript.events import ToolIdentity as ToolIdentity
    from codex_acp.transcript.events import TranscriptEvent as TranscriptEvent
    from codex_acp.transcript.events import WireMessage as WireMessage
    from codex_acp.transcript.events import from_json as from_json
    from codex_acp.transcript.events import to_json as to_json
    from codex_acp.transcript.log import Transcript as Transcript
    from codex_acp.transcript.redaction import redacted as redacted
    from codex_acp.transcript.stream import Dropped as Dropped
    from codex_acp.transcript.stream import EntryStream as EntryStream
    from codex_acp.transcript.writer import TranscriptWriter as TranscriptWriter
    from codex_acp.transcript.writer import transcript_path as transcript_path
else:
    __all__, __getattr__, __dir__ = lazy(
        __name__,
        {
            "events": (
                "AgreementDecided ApprovalDecided ApprovalRefused ApprovalRequested "
                "ElicitationAnswered ElicitationRequested Entry OfferedOption PromptEnded "
                "PromptStarted RequestDeclined RequestRef SCHEMA_VERSION SessionClosed "
                "SessionOpened SessionRef ToolIdentity TranscriptEvent WireMessage from_json "
                "to_json"
            ),
            "log": "Transcript",
            "redaction": "redacted",
            "stream": "Dropped EntryStream",
            "writer": "TranscriptWriter transcript_path",
        },
    )
