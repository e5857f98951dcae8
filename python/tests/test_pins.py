"""The packages that pyproject.toml names for the commands."""

import tomllib

from conftest import ROOT


def test_a_package_is_of_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    wanted = {package for packages in lists for package in packages}
    names = [package.partition("==")[0].partition(">=")[0] for package in wanted]
    assert len(set(names)) == len(names), sorted(wanted)
