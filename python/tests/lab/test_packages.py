"""Packages: only what is missing is asked for, and each that cannot be had has a reason."""

import subprocess
from collections.abc import Sequence

import pytest

from hakmem.lab import packages


def test_nothing_missing_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "installed", lambda package: True)
    monkeypatch.setattr(packages, "_run_as_root", lambda *_: pytest.fail("ran something"))
    said: list[str] = []
    assert packages.install(["a", "b"], said.append) == {}
    assert said == []


def test_no_apt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "installed", lambda package: package == "there")
    monkeypatch.setattr(packages.shutil, "which", lambda name: None)
    reasons = packages.install(["there", "absent"], lambda text: None)
    assert reasons == {"absent": "there is no apt-get to install it with"}


def test_no_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "installed", lambda package: False)
    monkeypatch.setattr(packages.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(
        packages.shutil, "which", lambda name: None if name == "sudo" else f"/usr/bin/{name}"
    )
    reasons = packages.install(["absent"], lambda text: None)
    assert reasons == {"absent": "installing it needs root, and there is no sudo"}


def test_one_bad_package_does_not_keep_out_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: Sequence[str], environment: object = None) -> subprocess.CompletedProcess[str]:
        commands.append(list(command))
        bad = "bad" in command
        said = "Reading...\nE: Unable to locate package bad\n" if bad else ""
        return subprocess.CompletedProcess(command, 100 if bad else 0, said)

    monkeypatch.setattr(packages, "installed", lambda package: False)
    monkeypatch.setattr(packages, "_obstacle", lambda: None)
    monkeypatch.setattr(packages, "_run_as_root", run)
    said: list[str] = []
    reasons = packages.install(["good", "bad"], said.append)
    assert reasons == {"bad": "apt: E: Unable to locate package bad"}
    assert said == ["installing with apt: good bad"]
    installs = [command for command in commands if "install" in command]
    assert [command[-1] for command in installs] == ["bad", "good", "bad"]


def test_services_are_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy that forbids it is there while apt runs, and gone afterwards."""
    order: list[str] = []

    def run(command: Sequence[str], environment: object = None) -> subprocess.CompletedProcess[str]:
        text = " ".join(command)
        if str(packages.NO_SERVICES) in text:
            order.append("allowed" if text.startswith("rm") else "forbidden")
        elif "install" in command:
            order.append("install")
        return subprocess.CompletedProcess(command, 0, "")

    class Absent:
        def exists(self) -> bool:
            return False

        def __str__(self) -> str:
            return "/policy"

    monkeypatch.setattr(packages, "NO_SERVICES", Absent())
    monkeypatch.setattr(packages, "installed", lambda package: False)
    monkeypatch.setattr(packages, "_obstacle", lambda: None)
    monkeypatch.setattr(packages, "_run_as_root", run)
    assert packages.install(["server"], lambda text: None) == {}
    assert order == ["forbidden", "install", "allowed"]
