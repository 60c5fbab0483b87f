"""``python -m codegen [--check]``: regenerate, or prove that regenerating changes nothing."""

from __future__ import annotations

import argparse
import sys
import traceback

from codegen.errors import CodegenError
from codegen.regen import check, impossible, regenerate, undecided

_DECIDE = """
The generated code is as the schemas give it. Decisions to be taken: {} (exit code 4, which is no
failure). Add the lines above; the import, the type check and the tests fail until then. As
they stand they decline what is new: see docs/recipes for more. Run this again, then
`nox -s goldens`, which writes the golden files anew, and read `git diff tests/golden`."""


def main() -> int:
    """Regenerate or check. Return 1 if the tree differs, and 2 if the generator could not run.
    Return 4 if handwritten code lacks a decision or has an impossible one, else 0."""
    parser = argparse.ArgumentParser(prog="python -m codegen", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, print a diff")
    args = parser.parse_args()
    try:
        if args.check:
            diffs = check()
            sys.stdout.write("".join(diffs))
            print(f"{len(diffs)} generated files differ from what the schemas give")
            return 1 if diffs else _report_undecided()
        written, deleted = regenerate()
        print(f"{written} files written, {deleted} deleted")
        return _report_undecided()
    except CodegenError as error:
        print(f"codegen: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    except Exception:  # noqa: BLE001 - a defect of the generator is no difference of the tree
        traceback.print_exc()
        return 2


def _report_undecided() -> int:
    problems = undecided()
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(_DECIDE.format(len(problems)), file=sys.stderr)
        return 4
    wrong = impossible()
    print(wrong, file=sys.stderr, end="\n" if wrong else "")
    return 4 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
