"""The processors that a process may use: its affinity, and every version of control groups."""

from __future__ import annotations

import os

import pytest

from fastgrad.runtime import processors

AFFINITY = len(os.sched_getaffinity(0))
MANY = 64


@pytest.fixture(autouse=True)
def many(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(MANY)))


def root(tmp_path, groups: str, files: dict[str, str]):
    for name, content in {"proc/self/cgroup": groups, **files}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return tmp_path


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/a/b\n", {"sys/fs/cgroup/a/b/cpu.max": "150000 100000\n"}, 2),
        ("0::/a/b\n", {"sys/fs/cgroup/a/cpu.max": "300000 100000\n"}, 3),
        (
            "0::/a/b\n",
            {
                "sys/fs/cgroup/a/cpu.max": "300000 100000\n",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
            },
            3,
        ),
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "10000 100000\n"}, 1),
        ("0::/of/the/host\n", {"sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4),
        ("0::/a\n", {"sys/fs/cgroup/a/cpu.max": "max 100000\n"}, MANY),
        (
            "5:memory:/x\n4:cpu,cpuacct:/docker/1\n",
            {
                "sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us": "250000\n",
                "sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us": "100000\n",
            },
            3,
        ),
        (
            "4:cpu:/\n0::/\n",
            {
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            MANY,
        ),
        ("0::/a\n", {"sys/fs/cgroup/unified/a/cpu.max": "200000 100000"}, 2),
        ("0::/a\n", {"sys/fs/cgroup/a/cpu.max": "nonsense"}, MANY),
        ("nonsense", {}, MANY),
    ],
)
def test_quotas(tmp_path, groups, files, expected):
    assert processors.available(root(tmp_path, groups, files)) == expected


def test_no_control_groups(tmp_path):
    assert processors.available(tmp_path) == MANY


def test_here():
    assert processors.available() >= 1
