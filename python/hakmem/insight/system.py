"""What of the system, its limits and its settings bears on hakmem, for a process or in general.

All is read below `root`, which only tests change. What cannot be read is not spoken of: not every
kernel and container shows everything.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hakmem.insight.findings import Report
from hakmem.insight.words import size_text

POPULATE_WRITE, FIXED_NOREPLACE = (5, 14), (4, 17)
USUAL_MAP_COUNT = 65530
# A cgroup's value for "no limit": v1 rounds the largest number down to a page.
NO_LIMIT = 1 << 60
NEARLY, WELL_FILLED = 0.95, 0.8


class Proc:
    """/proc and /sys as a process `pid`, or "self", sees them."""

    def __init__(self, root: Path, pid: int | None) -> None:
        self.root = root
        self.pid = pid
        self.own = f"proc/{'self' if pid is None else pid}"

    def text(self, path: str) -> str | None:
        try:
            return (self.root / path).read_text(errors="replace")
        except (OSError, ValueError):
            return None

    def own_text(self, name: str) -> str | None:
        return self.text(f"{self.own}/{name}")

    def number(self, path: str) -> int | None:
        text = (self.text(path) or "").strip()
        return int(text) if text.isdecimal() else None

    def chosen(self, path: str) -> str | None:
        """The word in brackets of a file that lists the alternatives."""
        match = re.search(r"\[([\w+-]+)\]", self.text(path) or "")
        return match[1] if match else None

    def status(self, name: str) -> str | None:
        match = re.search(rf"^{name}:\s*(.*)$", self.own_text("status") or "", re.MULTILINE)
        return match[1] if match else None


def examine_system(proc: Proc, report: Report) -> None:
    checks: tuple[Callable[[Proc, Report], None], ...] = (
        _kernel,
        _huge_pages,
        _defrag,
        _overcommit,
        _mappings,
        _cgroup,
        _limits,
        _shared_memory,
        _ptrace,
        _seccomp,
    )
    for check in checks:
        check(proc, report)


def _kernel(proc: Proc, report: Report) -> None:
    release = (proc.text("proc/sys/kernel/osrelease") or "").strip()
    match = re.match(r"(\d+)\.(\d+)", release)
    if match is None:
        return
    version = int(match[1]), int(match[2])
    if version < FIXED_NOREPLACE:
        report.note(
            "kernel",
            f"Linux {release} has neither MAP_FIXED_NOREPLACE (4.17) nor MADV_POPULATE_WRITE "
            "(5.14): hakmem looks where its mappings went, and takes each page by a fault",
            "a newer kernel is faster where the heap grows",
        )
    elif version < POPULATE_WRITE:
        report.note(
            "kernel",
            f"Linux {release} has no MADV_POPULATE_WRITE (5.14): setting prefault has no effect",
            "a newer kernel is faster where the heap grows",
        )
    else:
        report.ok("kernel", f"Linux {release} has all that hakmem uses")


def _huge_pages(proc: Proc, report: Report) -> None:
    mode = proc.chosen("sys/kernel/mm/transparent_hugepage/enabled")
    if mode == "never":
        report.note(
            "huge pages",
            "transparent_hugepage/enabled is never: setting huge_pages has no effect, large heaps "
            "miss the TLB more often",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        )
    elif mode == "always":
        report.ok(
            "huge pages",
            "transparent_hugepage/enabled is always: hakmem declines them where they do not pay, "
            "but for blocks above 1 MiB (from 2 MiB on it does with huge_blocks:always)",
        )
    elif mode == "madvise":
        report.ok(
            "huge pages", "transparent_hugepage/enabled is madvise: hakmem asks where it pays"
        )


def _defrag(proc: Proc, report: Report) -> None:
    mode = proc.chosen("sys/kernel/mm/transparent_hugepage/defrag")
    if mode == "always":
        report.note(
            "huge pages",
            "transparent_hugepage/defrag is always: a page fault may wait for memory to be moved",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/defrag",
        )
    elif mode is not None:
        report.ok("huge pages", f"transparent_hugepage/defrag is {mode}")


def _overcommit(proc: Proc, report: Report) -> None:
    mode = proc.number("proc/sys/vm/overcommit_memory")
    if mode is None:
        return
    if mode != 2:
        report.ok("overcommit", f"vm.overcommit_memory is {mode}: address space costs nothing")
        return
    memory = dict(re.findall(r"^(\w+):\s+(\d+) kB", proc.text("proc/meminfo") or "", re.MULTILINE))
    limit, used = int(memory.get("CommitLimit", 0)) << 10, int(memory.get("Committed_AS", 0)) << 10
    ratio = proc.number("proc/sys/vm/overcommit_ratio")
    text = (
        f"vm.overcommit_memory is 2 (ratio {ratio}): {size_text(used)} of {size_text(limit)} are "
        "promised; beyond that malloc returns NULL"
    )
    remedy = "raise vm.overcommit_ratio, or sysctl vm.overcommit_memory=0"
    if used > NEARLY * limit:
        report.problem("overcommit", text, remedy)
    else:
        report.note("overcommit", text, remedy)


def _mappings(proc: Proc, report: Report) -> None:
    most = proc.number("proc/sys/vm/max_map_count")
    if most is None:
        return
    maps = proc.own_text("maps") if proc.pid is not None else None
    used = maps.count("\n") if maps is not None else 0
    text = f"vm.max_map_count is {most:,}" + (f", {used:,} of them used" if maps else "")
    remedy = "sysctl vm.max_map_count=262144"
    if used > WELL_FILLED * most:
        report.problem("mappings", f"{text}: soon malloc returns NULL", remedy)
    elif most < USUAL_MAP_COUNT:
        report.note("mappings", f"{text}, fewer than usual ({USUAL_MAP_COUNT:,})", remedy)
    else:
        report.ok("mappings", text)


# ---- memory limits of the group of processes


def _cgroup(proc: Proc, report: Report) -> None:
    tightest: tuple[float, int, int] | None = None
    for used, most in _cgroup_limits(proc):
        if 0 < most < NO_LIMIT:
            found = (used / most, used, most)
            tightest = found if tightest is None else max(tightest, found)
    if tightest is None:
        report.ok("cgroup", "no memory limit")
        return
    share, used, most = tightest
    text = f"{size_text(used)} of {size_text(most)} allowed are used"
    remedy = "raise the limit, or see what hakmem could give back: hakmem why PID"
    if share > NEARLY:
        report.problem("cgroup", f"{text}: the kernel is about to reclaim or kill", remedy)
    elif share > WELL_FILLED:
        report.note("cgroup", text, remedy)
    else:
        report.ok("cgroup", text)


@dataclass(frozen=True)
class CgroupVersion:
    """Where a version of control groups shows its figures, as src/pressure/cgroup.c reads them."""

    base: str
    limits: tuple[str, str]
    used: str
    inactive: str  # of the page cache, in memory.stat: what the kernel drops before anything else
    active: str


CGROUP_V1 = CgroupVersion(
    "sys/fs/cgroup/memory",
    ("memory.limit_in_bytes", "memory.soft_limit_in_bytes"),
    "memory.usage_in_bytes",
    "total_inactive_file",
    "total_active_file",
)
CGROUP_V2 = CgroupVersion(
    "sys/fs/cgroup",
    ("memory.max", "memory.high"),
    "memory.current",
    "inactive_file",
    "active_file",
)


def _cgroup_limits(proc: Proc) -> list[tuple[int, int]]:
    """Used and allowed bytes of the process' cgroup and of those above it."""
    found = []
    for line in (proc.own_text("cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            version = CGROUP_V2
        elif "memory" in controllers.split(","):
            version = CGROUP_V1
        else:
            continue
        inside = Path(path.lstrip("/"))
        for folder in (inside, *inside.parents):
            at = f"{version.base}/{folder}"
            limits = [proc.number(f"{at}/{name}") for name in version.limits]
            used = proc.number(f"{at}/{version.used}")
            if used is None:
                continue
            used = max(0, used - _free_cache(proc, at, version))
            found += [(used, most) for most in limits if most is not None]
    return found


def _free_cache(proc: Proc, at: str, version: CgroupVersion) -> int:
    stat = dict(re.findall(r"^(\w+) (\d+)$", proc.text(f"{at}/memory.stat") or "", re.MULTILINE))
    return int(stat.get(version.inactive, 0)) + int(stat.get(version.active, 0)) // 2


# ---- limits of the process


def _limits(proc: Proc, report: Report) -> None:
    text = proc.own_text("limits")
    if text is None:
        return
    soft = {
        name.strip(): value
        for name, value in re.findall(r"^(Max [a-z ]+?)\s{2,}(\S+)", text, re.MULTILINE)
    }
    _address_space(soft, report)
    if soft.get("Max stack size") == "unlimited":
        report.note(
            "limits",
            "ulimit -s is unlimited: the kernel maps upwards from a third of the address space, "
            "where hakmem's blocks may be; it goes around what it meets",
            "ulimit -s 8192",
        )
    if soft.get("Max resident set", "unlimited") != "unlimited":
        report.note("limits", "ulimit -m is set; Linux ignores it", "use a cgroup's memory.max")
    locked, processes = soft.get("Max locked memory"), soft.get("Max processes")
    if locked is not None and processes is not None:
        shown = locked if locked == "unlimited" else size_text(int(locked))
        report.ok(
            "limits",
            f"ulimit -l is {shown}, -u is {processes}; pages that a process locks stay its own",
        )


def _address_space(soft: dict[str, str], report: Report) -> None:
    limit = soft.get("Max address space", "unlimited")
    if limit == "unlimited":
        report.ok("limits", "ulimit -v is unlimited")
        return
    report.note(
        "limits",
        f"ulimit -v is {size_text(int(limit))}: malloc returns NULL beyond, and hakmem takes a "
        "smaller range of addresses",
        "limit resident memory by a cgroup instead",
    )


# ---- what readers of the live area need, and who may look


def _shared_memory(proc: Proc, report: Report) -> None:
    segments, pages = proc.number("proc/sys/kernel/shmmni"), proc.number("proc/sys/kernel/shmall")
    if segments is None or pages is None:
        return
    used = max(0, (proc.text("proc/sysvipc/shm") or "").count("\n") - 1)
    text = f"kernel.shmmni is {segments:,}, {used:,} segments are used"
    if used >= segments:
        report.problem(
            "live area",
            f"{text}: processes that start now show no live area (hakmem stats, top, why)",
            f"sysctl kernel.shmmni={2 * segments}",
        )
    elif pages < 1 << 16:
        report.note(
            "live area", f"kernel.shmall is {pages:,} pages: few live areas fit", "raise it"
        )
    else:
        report.ok("live area", text)


def _ptrace(proc: Proc, report: Report) -> None:
    scope = proc.number("proc/sys/kernel/yama/ptrace_scope")
    if scope is not None:
        report.ok(
            "ptrace", f"kernel.yama.ptrace_scope is {scope}: hakmem's commands need no ptrace"
        )


def _seccomp(proc: Proc, report: Report) -> None:
    mode = proc.status("Seccomp") if proc.pid is not None else None
    if mode == "1":
        report.problem(
            "seccomp",
            "strict mode: memory can be neither mapped nor given back",
            "allow mmap, munmap, mprotect, madvise and mremap by a filter instead",
        )
    elif mode == "2":
        report.note(
            "seccomp",
            "a filter is in force: hakmem needs mmap, munmap, mprotect, madvise and mremap, its "
            "live area shmget, shmat and shmctl",
            "if figures are missing, allow these",
        )
    elif mode == "0":
        report.ok("seccomp", "no filter")
