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
