"""A worker process: tasks come in as lines, answers go out as lines.

It ends with its input: when the sweep that started it is gone, whatever it is doing.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading

_tasks: queue.SimpleQueue[str] = queue.SimpleQueue()


def main() -> None:
    # Ctrl-C is for the sweep: it decides when workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a stray print must not look like an answer
    threading.Thread(target=_listen, daemon=True).start()
    from npuscope.advice.sweep.one_run import run_json

    while True:
        _write(answers, run_json(_tasks.get()).encode() + b"\n")


def _listen() -> None:
    for line in sys.stdin.buffer:
        _tasks.put(line.decode())
    os._exit(0)


def _write(file: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(file, data) :]
    except BrokenPipeError:  # nobody waits for it any more
        os._exit(0)


if __name__ == "__main__":
    main()
