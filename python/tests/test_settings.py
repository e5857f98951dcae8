"""Profiles, --conf, and which of them wins."""

from pathlib import Path

import pytest
from conftest import ROOT

from hakmem.errors import HakmemError
from hakmem.settings import conf_text, load_profile, merged_environment, parse_profile
from hakmem.settings import profile_names as names


def test_profile_lines() -> None:
    text = "# why\n\nHAKMEM_RETAIN=64M\n  HAKMEM_PREFAULT = 0 \n"
    assert parse_profile(text, "x.env") == {"HAKMEM_RETAIN": "64M", "HAKMEM_PREFAULT": "0"}


@pytest.mark.parametrize("line", ["HAKMEM_RETAIN", "RETAIN=1", "LD_PRELOAD=x", "HAKMEM_=1"])
def test_bad_profile_line_is_named(line: str) -> None:
    with pytest.raises(HakmemError, match=r"x\.env:2"):
        parse_profile(f"# first\n{line}\n", "x.env")


def test_every_profile_shipped_can_be_read() -> None:
    folder = ROOT / "profiles"
    assert names(folder) == ["default", "lean", "tinyhot_best", "tinyhot_tput"]
    for name in names(folder):
        assert (folder / f"{name}.env").read_text().startswith("# ")
        load_profile(folder, name)


def test_unknown_profile_lists_the_known(tmp_path: Path) -> None:
    (tmp_path / "one.env").touch()
    with pytest.raises(HakmemError, match="'two'; there are: one"):
        load_profile(tmp_path, "two")


def test_profile_cannot_leave_its_folder(tmp_path: Path) -> None:
    (tmp_path / "outside.env").touch()
    (tmp_path / "inside").mkdir()
    with pytest.raises(HakmemError):
        load_profile(tmp_path / "inside", "../outside")


def test_profile_by_its_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.env"
    file.write_text("HAKMEM_RETAIN=1M\n")
    assert load_profile(ROOT / "profiles", str(file)) == {"HAKMEM_RETAIN": "1M"}
    for name, content in (("gone.env", None), ("folder.env", None), ("binary.env", b"\xff")):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        elif name == "folder.env":
            path.mkdir()
        with pytest.raises(HakmemError, match=name):
            load_profile(ROOT / "profiles", str(path))


def test_profile_with_many_settings_in_one_line() -> None:
    text = "HAKMEM_RETAIN=64M\nHAKMEM_CONF=retain:1M, keep:off\n"
    values = parse_profile(text, "x.env")
    assert values == {"HAKMEM_RETAIN": "64M", "HAKMEM_KEEP": "off"}
    merged = merged_environment({"HAKMEM_CONF": "prefault:0"}, values, "guards:0")
    assert merged == values | {"HAKMEM_CONF": "prefault:0,guards:0"}


def test_conf_as_the_library_reads_it() -> None:
    assert conf_text(" retain:64M, prefault:0 ,") == "retain:64M,prefault:0"
    assert merged_environment({}, {}, "retain:1, keep:off") == {"HAKMEM_CONF": "retain:1,keep:off"}
    assert merged_environment({}, {}, " ") == {}
    for bad in ("retain", "retain=1", "retain:", ":1", "retain:1:2"):
        with pytest.raises(HakmemError):
            conf_text(bad)


def test_precedence() -> None:
    profile = {"HAKMEM_RETAIN": "1", "HAKMEM_PREFAULT": "1", "HAKMEM_MAGAZINE_MAX": "16"}
    base = {"HAKMEM_CONF": "retain:2", "HAKMEM_PREFAULT": "2", "HAKMEM_HUGE_PAGES": "2"}
    merged = merged_environment(base, profile, "huge_pages:3")
    assert merged == {
        "HAKMEM_CONF": "retain:2,huge_pages:3",
        "HAKMEM_PREFAULT": "2",
        "HAKMEM_MAGAZINE_MAX": "16",
    }


def test_either_case_of_a_variable() -> None:
    """The library compares names without it."""
    base = {"HAKMEM_retain": "3M", "HAKMEM_Keep": "off", "HAKMEM_conf": "x", "hakmem_retain": "x"}
    kept = {name: value for name, value in base.items() if name != "HAKMEM_retain"}
    assert merged_environment(base, {}, "retain:0") == kept | {"HAKMEM_CONF": "retain:0"}
    assert merged_environment(base, {"HAKMEM_RETAIN": "1M", "HAKMEM_KEEP": "site"}, None) == base
    inherited = {"HAKMEM_CONF": "RETAIN:2M"}
    assert merged_environment(inherited, {"HAKMEM_RETAIN": "1M"}, None) == inherited


def test_the_former_name_of_a_setting() -> None:
    base = {"HKM_WHALE_CAPACITY": "8"}
    assert merged_environment(base, {"HAKMEM_WHALE_CAPACITY": "4"}, None) == base
    assert merged_environment(base, {}, "whale_capacity:2") == {"HAKMEM_CONF": "whale_capacity:2"}


def test_bad_settings_of_a_profile_have_their_line() -> None:
    with pytest.raises(HakmemError, match=r"x\.env:2: settings are key:value,..., not 'retain'"):
        parse_profile("HAKMEM_KEEP=off\nHAKMEM_CONF=retain\n", "x.env")
