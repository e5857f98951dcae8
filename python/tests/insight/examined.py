"""What the tests of `doctor` share: a system made by hand, programs, and what was said."""

import subprocess
from collections.abc import Callable
from pathlib import Path

from hakmem.insight.findings import Report

PID = 4711
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max stack size            {stack:<20} unlimited            bytes
Max resident set          {resident:<20} unlimited            bytes
Max processes             96365                96365                processes
Max locked memory         8388608              8388608              bytes
Max address space         {space:<20} unlimited            bytes
"""
OWN = {
    "cgroup": "0::/group\n",
    "limits": LIMITS.format(stack=8388608, resident="unlimited", space="unlimited"),
    "status": "Name:\tserver\nSeccomp:\t0\n",
}

Tree = Callable[[dict[str, str]], Path]


def maps(*names: str) -> str:
    return "".join(
        f"7f00000{i}0000-7f00000{i}1000 r-xp 00000000 fe:00 {100 + i}      {name}\n"
        for i, name in enumerate(names)
    )


def make_tree(folder: Path, changed: dict[str, str]) -> Path:
    """A system in which nothing is wrong, with some files changed."""
    files = {
        "proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
        "proc/sys/kernel/shmmni": "4096\n",
        "proc/sys/kernel/shmall": "18446744073692774399\n",
        "proc/sys/kernel/yama/ptrace_scope": "1\n",
        "proc/sys/vm/overcommit_memory": "0\n",
        "proc/sys/vm/overcommit_ratio": "50\n",
        "proc/sys/vm/max_map_count": "65530\n",
        "proc/meminfo": "CommitLimit: 1000000 kB\nCommitted_AS: 500000 kB\n",
        "proc/sysvipc/shm": "       key      shmid perms\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "sys/kernel/mm/transparent_hugepage/defrag": "always defer+madvise [madvise] never\n",
        **{f"proc/{who}/{name}": text for who in ("self", PID) for name, text in OWN.items()},
        f"proc/{PID}/comm": "server\n",
        f"proc/{PID}/environ": "LD_PRELOAD=/opt/libhakmem.so\0HOME=/\0",
        f"proc/{PID}/maps": maps("/usr/bin/server", "/opt/libhakmem.so"),
    }
    for name, text in (files | changed).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def compiled(compiler: str, folder: Path, source: str, *options: str) -> Path:
    program = folder / "program"
    (folder / "program.c").write_text(source)
    subprocess.run([compiler, folder / "program.c", "-o", program, *options], check=True)
    return program


def said(report: Report, verdict: str) -> list[str]:
    return [f"{f.topic}: {f.text}" for f in report.findings if f.verdict == verdict]


def one(report: Report, verdict: str, topic: str) -> str:
    found = [f.text for f in report.findings if (f.verdict, f.topic) == (verdict, topic)]
    assert len(found) == 1, report.findings
    return found[0]
