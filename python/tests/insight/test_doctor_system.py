"""What of the system is in hakmem's way: made-up trees of /proc and /sys."""

from functools import partial
from pathlib import Path

import pytest
from examined import LIMITS, Tree, make_tree, one, said

from hakmem.insight.doctor import examine_machine


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return partial(make_tree, tmp_path)


def test_nothing_is_wrong(tree: Tree) -> None:
    report = examine_machine(tree({}))
    assert report.active is None
    assert {f.verdict for f in report.findings} == {"ok"}
    assert {f.topic for f in report.findings} == {
        *("kernel", "huge pages", "overcommit", "mappings", "cgroup", "limits", "live area"),
        "ptrace",
    }


@pytest.mark.parametrize(
    ("name", "content", "verdict", "topic", "text"),
    [
        ("proc/sys/kernel/osrelease", "5.10.0\n", "note", "kernel", "MADV_POPULATE_WRITE"),
        ("proc/sys/kernel/osrelease", "4.9.0\n", "note", "kernel", "MAP_FIXED_NOREPLACE"),
        (
            "sys/kernel/mm/transparent_hugepage/enabled",
            "always madvise [never]\n",
            *("note", "huge pages", "no effect"),
        ),
        (
            "sys/kernel/mm/transparent_hugepage/enabled",
            "[always] madvise never\n",
            *("ok", "huge pages", "blocks above 1 MiB"),
        ),
        (
            "sys/kernel/mm/transparent_hugepage/defrag",
            "[always] madvise never\n",
            *("note", "huge pages", "may wait"),
        ),
        ("proc/sys/vm/overcommit_memory", "2\n", "note", "overcommit", "488 MiB of 977 MiB"),
        ("proc/sys/vm/max_map_count", "1000\n", "note", "mappings", "fewer than usual"),
        (
            "sys/fs/cgroup/group/memory.max",
            "10485760\n",
            "problem",
            "cgroup",
            "9.90 MiB of 10.0 MiB",
        ),
        ("sys/fs/cgroup/memory.max", "11000000\n", "note", "cgroup", "9.90 MiB of 10.5 MiB"),
        ("sys/fs/cgroup/memory.max", "max\n", "ok", "cgroup", "no memory limit"),
        ("sys/fs/cgroup/memory.high", "10485760\n", "problem", "cgroup", "9.90 MiB of 10.0 MiB"),
        ("proc/sys/kernel/shmmni", "0\n", "problem", "live area", "0 segments are used"),
        ("proc/sys/kernel/shmall", "100\n", "note", "live area", "100 pages"),
    ],
)
def test_system(tree: Tree, name: str, content: str, verdict: str, topic: str, text: str) -> None:
    used = {
        "sys/fs/cgroup/group/memory.current": f"{int(9.9 * (1 << 20))}\n",
        "sys/fs/cgroup/memory.current": f"{int(9.9 * (1 << 20))}\n",
    }
    report = examine_machine(tree(used | {name: content}))
    assert text in "\n".join(
        f.text for f in report.findings if (f.verdict, f.topic) == (verdict, topic)
    )
    # Nothing else is spoken of as wrong.
    assert len(said(report, "problem") + said(report, "note")) == (verdict != "ok")


def test_overcommit_that_is_used_up(tree: Tree) -> None:
    memory = "CommitLimit: 1000000 kB\nCommitted_AS: 990000 kB\n"
    root = tree({"proc/sys/vm/overcommit_memory": "2\n", "proc/meminfo": memory})
    assert "967 MiB of 977 MiB" in one(examine_machine(root), "problem", "overcommit")


def test_cgroup_of_the_first_version(tree: Tree) -> None:
    root = tree(
        {
            "proc/self/cgroup": "3:cpu,memory:/a/b\n1:name=systemd:/a\n",
            "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1048576\n",
            "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "1040000\n",
            "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/a/b/memory.usage_in_bytes": "1040000\n",
        }
    )
    assert "1.00 MiB" in one(examine_machine(root), "problem", "cgroup")


def test_cache_that_the_kernel_drops_is_not_used(tree: Tree) -> None:
    root = tree(
        {
            "sys/fs/cgroup/group/memory.max": "10485760\n",
            "sys/fs/cgroup/group/memory.current": "10400000\n",
            "sys/fs/cgroup/group/memory.stat": "inactive_file 8351424\nactive_file 2000000\n",
        }
    )
    assert "1.00 MiB of 10.0 MiB" in one(examine_machine(root), "ok", "cgroup")


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"stack": "unlimited", "resident": "unlimited", "space": "unlimited"}, "ulimit -s"),
        ({"stack": "8388608", "resident": "1000", "space": "unlimited"}, "ulimit -m"),
        ({"stack": "8388608", "resident": "unlimited", "space": "1073741824"}, "-v is 1.00 GiB"),
    ],
)
def test_limits(tree: Tree, limits: dict[str, str], text: str) -> None:
    report = examine_machine(tree({"proc/self/limits": LIMITS.format(**limits)}))
    assert text in one(report, "note", "limits")
