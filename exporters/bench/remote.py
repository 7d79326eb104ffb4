"""The far end of a measurement: an engine in a process of its own, called line by line.

A call comes in as a line of JSON, `{"method": …, "with": {…}}`, and its answer goes out as one. Only the standard library is
used, so that a Python without archspec can serve an engine too: put this folder on its path.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def serve(engines: Mapping[str, Callable[..., Any]], refusals: tuple[type[Exception], ...] = ()) -> None:
    """Answer calls until there are no more.

    `open` makes an engine by its name; every other call is a method of it, or `peak`, which is this process's own. A `refusal`
    is an answer; any other error ends the process, with its traceback on stderr.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    engine: Any = None
    for line in sys.stdin:
        call = json.loads(line)
        method, given = call["method"], call["with"]
        value: Any = None
        try:
            if method == "open":
                engine = engines[given.pop("engine")](**given)
            elif method == "peak":
                value = peak_bytes()
            else:
                value = getattr(engine, method)(**given)
            answer = {"value": value}
        except refusals as error:
            answer = {"refused": str(error)}
        print(json.dumps(answer), file=answers, flush=True)


def peak_bytes() -> int:
    """The most memory that this process ever had resident, Python and its libraries included."""
    status = Path("/proc/self/status")
    if status.is_file():  # ru_maxrss would count what the parent had before this program was loaded
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
