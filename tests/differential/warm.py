"""Outside runtimes that are loaded once: a process that has them forks for every file.

To start a Python with LiteRT or onnxruntime takes longer than all judges of a small network. A fork
keeps what the process of its own is for: a file that ends it ends nothing else.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

_MODULE = "npuscope.profiling.runtimes"
_LATE = "late"


@contextmanager
def warm_runtimes() -> Iterator[None]:
    """Within it, `run_module` asks the process that is warm."""
    from npuscope import child

    start = [sys.executable, "-P", str(Path(__file__).resolve())]
    with subprocess.Popen(
        start, env=child.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        pipes = server.stdin, server.stdout

        def run_module(
            name: str, *words: str, timeout_s: float
        ) -> subprocess.CompletedProcess[bytes]:
            assert name == _MODULE
            print(json.dumps([timeout_s, *words]), file=pipes[0], flush=True)
            code = json.loads(pipes[1].readline())
            if code == _LATE:
                raise subprocess.TimeoutExpired(name, timeout_s)
            return subprocess.CompletedProcess([name, *words], code, b"", b"")

        with mock.patch.object(child, "run_module", run_module):
            yield
        server.stdin.close()


def _serve() -> None:
    import ai_edge_litert.interpreter  # noqa: F401
    import onnxruntime  # noqa: F401

    from npuscope.profiling import runtimes

    answers = os.fdopen(os.dup(1), "w")
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    for line in sys.stdin:
        timeout_s, *words = json.loads(line)
        pid = os.fork()
        if not pid:
            sys.argv = [_MODULE, *words]
            try:
                runtimes.main()
                os._exit(0)
            except BaseException:
                os._exit(1)
        print(json.dumps(_ended(pid, timeout_s)), file=answers, flush=True)


def _ended(pid: int, timeout_s: float) -> int | str:
    def late(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except TimeoutError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return _LATE
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    _serve()
