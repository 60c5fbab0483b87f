"""Starting a process, with ``posix_spawn`` and with what takes its place: the same process."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from codex_acp.transport import child
from codex_acp.transport.child import Process, start_process

WAIT_SECONDS = 60.0

TELL = """
import json, os, sys
def is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
print(json.dumps({
    "leads": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
    "open": [fd for fd in range(3, 256) if is_open(fd)],
    "cwd": os.getcwd(), "extra": os.environ.get("EXTRA"),
    "said": sys.stdin.read(), "argv": sys.argv[1:],
}))
print("to stderr", file=sys.stderr)
"""


@pytest.fixture(params=["posix_spawn", "an old system", "no list of descriptors"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way in which a process comes to be started; the first is not to fall back."""
    way: str = request.param
    if way == "posix_spawn":
        monkeypatch.delattr(subprocess, "Popen")
    elif way == "an old system":
        monkeypatch.setattr(os, "posix_spawn", lambda *_, **__: raised(NotImplementedError()))
    else:
        monkeypatch.setattr(child, "OPEN_DESCRIPTORS", "/no/such/directory")
    return way


def raised(error: Exception) -> int:
    raise error


def python(code: str, *args: str) -> list[str]:
    return [sys.executable, "-I", "-c", code, *args]


def finish(process: Process) -> tuple[bytes, bytes]:
    """What it says until it ends."""
    said = process.stdout.read(), process.stderr.read()
    assert process.wait(WAIT_SECONDS)
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()
    return said


def open_descriptors() -> set[str]:
    return {path.name for path in Path("/dev/fd").iterdir()}


@pytest.mark.usefixtures("way")
def test_the_child_leads_a_session_and_has_three_pipes_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EXTRA", "ours")
    before = open_descriptors()
    with Path(__file__).open() as inherited:
        os.set_inheritable(inherited.fileno(), True)
        process = start_process(python(TELL, "a b", "ä"))
    process.stdin.write(b"hello")
    process.stdin.close()
    out, err = finish(process)
    told = json.loads(out.splitlines()[-1])
    assert told == {
        "leads": [True, True],
        "open": [],
        "cwd": str(Path.cwd()),
        "extra": "ours",
        "said": "hello",
        "argv": ["a b", "ä"],
    }
    assert err == b"to stderr\n"
    assert process.returncode == 0
    assert open_descriptors() == before


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("number", [signal.SIGPIPE, signal.SIGXFSZ])
def test_a_signal_that_python_ignores_ends_the_child(number: signal.Signals) -> None:
    assert signal.getsignal(number) is signal.SIG_IGN  # which a child would inherit
    process = start_process(["/bin/sh", "-c", f"kill -{number.value} $$; echo ignored"])
    assert finish(process) == (b"", b"")
    assert process.returncode == -number


@pytest.mark.usefixtures("way")
def test_the_environment_is_the_one_that_is_given() -> None:
    process = start_process(python(TELL), {"EXTRA": "given", "PATH": "/bin"})
    process.stdin.close()
    out, _ = finish(process)
    assert json.loads(out.splitlines()[-1])["extra"] == "given"


def test_a_directory_is_where_it_starts(tmp_path: Path) -> None:
    process = start_process(python(TELL), None, tmp_path)
    process.stdin.close()
    out, _ = finish(process)
    assert json.loads(out.splitlines()[-1])["cwd"] == str(tmp_path.resolve())


def test_a_bare_name_is_found_on_the_path() -> None:
    process = start_process(["true"])
    process.stdin.close()
    assert finish(process) == (b"", b"")


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("content", "number"),
    [
        (None, errno.ENOENT),
        ("not a program", errno.ENOEXEC),
        ("#!/no/such/interpreter\n", errno.ENOENT),
    ],
)
def test_what_cannot_be_started_is_an_error_and_leaves_nothing_open(
    tmp_path: Path, content: str | None, number: int
) -> None:
    program = tmp_path / "program"
    if content is not None:
        program.write_text(content)
        program.chmod(0o755)
    before = open_descriptors()
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its number follows
        start_process([str(program)])
    assert caught.value.errno == number
    assert open_descriptors() == before


def test_a_program_that_is_out_of_descriptors_keeps_none_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipes = iter([os.pipe(), os.pipe()])
    before = open_descriptors()

    def pipe() -> tuple[int, int]:
        found = next(pipes, None)
        if found is None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return found

    monkeypatch.setattr(os, "pipe", pipe)
    with pytest.raises(OSError, match="open files"):
        start_process(["/bin/true"])
    assert len(open_descriptors()) == len(before) - 4


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("code", "status"),
    [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL)],
)
def test_the_status_is_collected_once_and_kept(code: str, status: int) -> None:
    process = start_process(python(code))
    finish(process)
    assert [process.poll(), process.returncode, process.wait(0)] == [status, status, True]


@pytest.mark.usefixtures("way")
def test_a_process_that_runs_has_no_status_and_is_not_waited_for_longer() -> None:
    process = start_process(python("import sys; sys.stdin.read()"))
    began = time.monotonic()
    assert not process.wait(0.05)
    assert time.monotonic() - began >= 0.05
    assert process.poll() is None
    process.stdin.close()
    process.wait()
    assert process.returncode == 0
    finish(process)


@pytest.mark.usefixtures("way")
def test_a_status_that_somebody_else_has_collected_is_unknown() -> None:
    process = start_process(python(""))
    os.waitpid(process.pid, 0)
    assert process.wait(WAIT_SECONDS)
    assert process.poll() is None
    finish(process)


def test_a_program_without_its_own_standard_input_can_start_one() -> None:
    code = (
        "import os, sys; os.close(0); os.close(1)\n"
        "from codex_acp.transport.child import start_process\n"
        "p = start_process(['/bin/sh', '-c', 'read word; echo got $word'])\n"
        "p.stdin.write(b'it\\n'); p.stdin.close()\n"
        "sys.stderr.write(p.stdout.read().decode()); p.wait()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "got it\n"
