"""Installs packages of the distribution with apt, as root or through sudo."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

Report = Callable[[str], None]

NO_SERVICES = Path("/usr/sbin/policy-rc.d")
LOCK_TIMEOUT_S = 300


def installed(package: str) -> bool:
    query = ["dpkg-query", "-W", "-f", "${db:Status-Status}", package]
    return _output(query) == "installed"


def known(package: str) -> bool:
    """Whether apt could install it."""
    policy = _output(["apt-cache", "policy", package])
    return bool(policy) and "Candidate: (none)" not in policy


def package_of(path: Path) -> str | None:
    """The package that a file of the system came with."""
    # dpkg knows a file by the name it was packed with, which may be from before /lib was a link.
    before = Path("/", *path.parts[2:])
    for name in (path, path.resolve(), before):
        line = _output(["dpkg-query", "-S", str(name)])
        if line:
            return line.rpartition(": ")[0].partition(",")[0]
    return None


def version_of(package: str) -> str:
    return _output(["dpkg-query", "-W", "-f", "${Version}", package])


def install(packages: Sequence[str], report: Report) -> dict[str, str]:
    """Installs what is not there yet; returns the reason for each package that cannot be had."""
    missing = [package for package in packages if not installed(package)]
    if not missing:
        return {}
    obstacle = _obstacle()
    if obstacle:
        return dict.fromkeys(missing, obstacle)
    report(f"installing with apt: {' '.join(missing)}")
    with _without_services():
        _run_as_root(["apt-get", "-qq", "update"])
        if _apt_install(missing) is None:
            return {}
        # One that cannot be had must not keep out the others.
        failures = {package: _apt_install([package]) for package in missing}
    return {package: reason for package, reason in failures.items() if reason is not None}


def _obstacle() -> str | None:
    """Why nothing can be installed, or None."""
    if shutil.which("apt-get") is None:
        return "there is no apt-get to install it with"
    if os.geteuid() == 0:
        return None
    if shutil.which("sudo") is None:
        return "installing it needs root, and there is no sudo"
    # Asks for the password here, where the user can see the question.
    asking = ["sudo", "--", "true"] if sys.stdin.isatty() else ["sudo", "-n", "--", "true"]
    if subprocess.run(asking, check=False).returncode != 0:
        return "installing it needs root, and sudo refuses"
    return None


def _apt_install(packages: Sequence[str]) -> str | None:
    """None when it worked, else the last thing that apt said."""
    command = [
        *("apt-get", "-qq", "-y", "-o", f"DPkg::Lock::Timeout={LOCK_TIMEOUT_S}"),
        *("install", "--no-install-recommends", *packages),
    ]
    result = _run_as_root(command, {"DEBIAN_FRONTEND": "noninteractive"})
    if result.returncode == 0:
        return None
    lines = result.stdout.strip().splitlines()
    return f"apt: {lines[-1] if lines else f'exit status {result.returncode}'}"


@contextmanager
def _without_services() -> Iterator[None]:
    """Some packages start a server when they are installed: nobody has asked for that."""
    if NO_SERVICES.exists():
        yield
        return
    script = f"printf '#!/bin/sh\\nexit 101\\n' >{NO_SERVICES} && chmod 755 {NO_SERVICES}"
    _run_as_root(["sh", "-c", script])
    try:
        yield
    finally:
        _run_as_root(["rm", "-f", str(NO_SERVICES)])


def _run_as_root(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    settings = [f"{name}={value}" for name, value in (environment or {}).items()]
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n", "--"]
    return subprocess.run(
        [*prefix, "env", *settings, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def _output(command: Sequence[str]) -> str:
    """What a query prints; nothing where its program is missing or finds nothing."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""
