"""Get an answer as a pydantic model: the language model must keep to its JSON Schema.

python examples/codex_structured_output.py [DIRECTORY]
"""

from __future__ import annotations

import asyncio
import sys

from pydantic import BaseModel, Field

from codex_acp.codex import CodexClient, OutputInvalid


class Risk(BaseModel):
    """Something that could go wrong."""

    file: str
    line: int | None = Field(description="Where it is, if it is in one place.")
    why: str


class Review(BaseModel):
    """A reviewer's opinion of a project."""

    summary: str
    risks: list[Risk]


async def main(directory: str) -> None:
    async with CodexClient.start() as codex:
        thread = await codex.threads.start(cwd=directory, sandbox="read-only")
        try:
            result = await thread.run("Review this project.", output_type=Review)
        except OutputInvalid as error:
            print(f"This is no review: {error.text}")
            return
        print(result.output.summary)
        for risk in result.output.risks:
            print(f"- {risk.file}:{risk.line or '?'}  {risk.why}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "."))
