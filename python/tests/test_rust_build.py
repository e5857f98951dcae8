"""What the Rust package's build says where there is no library."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("rustc")
    if compiler is None:
        pytest.skip("rustc is not installed")
    program = tmp_path_factory.mktemp("rust") / "build"
    source = ROOT / "rust" / "hakmem" / "build.rs"
    subprocess.run([compiler, "--edition=2021", source, "-o", program], check=True)
    return program


def test_folder_without_the_library_is_named(build: Path, tmp_path: Path) -> None:
    def built() -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"LIBHAKMEM_DIR": str(tmp_path)}
        return subprocess.run([build], env=environment, capture_output=True, text=True, check=False)

    refused = built()
    assert refused.returncode != 0
    assert f"LIBHAKMEM_DIR={tmp_path}: there is no libhakmem.a" in refused.stderr
    (tmp_path / "libhakmem.a").touch()
    assert f"native={tmp_path}\n" in built().stdout


def test_new_library_in_the_folder_is_linked_anew(build: Path, tmp_path: Path) -> None:
    (tmp_path / "libhakmem.a").touch()
    environment = os.environ | {"LIBHAKMEM_DIR": str(tmp_path)}
    said = subprocess.run([build], env=environment, capture_output=True, text=True, check=True)
    assert f"cargo:rerun-if-changed={tmp_path}/libhakmem.a\n" in said.stdout


def test_installed_in_a_folder_with_a_blank(build: Path, tmp_path: Path) -> None:
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    folder = tmp_path / "in here"
    folder.mkdir()
    lines = "libdir=${pcfiledir}\nName: hakmem\nDescription: d\nVersion: 1\n"
    (folder / "hakmem.pc").write_text(lines)
    environment = os.environ | {"PKG_CONFIG_PATH": str(folder)}
    environment.pop("LIBHAKMEM_DIR", None)
    said = subprocess.run([build], env=environment, capture_output=True, text=True, check=True)
    assert f"native={folder}\n" in said.stdout
