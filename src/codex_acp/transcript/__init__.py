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
