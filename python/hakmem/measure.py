"""Runs one command and reports what it cost, as JSON; started as a process of its own.

The peak resident size that Linux reports for a child is never below that of the process it was
started from, so the starter must be small: only the standard library, and no more of it than this.
"""

import json
import os
import signal
import sys
import time


def main() -> None:
    spec = json.loads(sys.argv[1])
    write = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, spec["stdout"], write, 0o600),
        (os.POSIX_SPAWN_OPEN, 2, spec["stderr"], write, 0o600),
    ]
    command = spec["command"]
    started = time.perf_counter()
    child = os.posix_spawn(
        command[0],
        command,
        spec["environment"],
        file_actions=actions,
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
    )
    _, status, usage = os.wait4(child, 0)
    result = {
        "status": os.waitstatus_to_exitcode(status),
        "time_s": time.perf_counter() - started,
        "user_s": usage.ru_utime,
        "sys_s": usage.ru_stime,
        "peak_rss_kib": usage.ru_maxrss,
        "page_faults": usage.ru_minflt + usage.ru_majflt,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
