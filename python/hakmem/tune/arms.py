"""The arms: the library as it is, and what may suit a program better."""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from hakmem.errors import HakmemError
from hakmem.lab.arms import checked, library_arm
from hakmem.lab.model import Arm, matching
from hakmem.settings import conf_items, load_profile

DEFAULT = "default"
# A step or two to either side of each default in src/control/options.def that trades time against
# memory; then what goes together.
STEPS = (
    "retain:0",
    "retain:256M",
    "keep:off",
    "keep_worth:20s",
    "magazine_max:32",
    "magazine_max:256",
    "huge_pages:0",
    "huge_min:8M",
    "huge_blocks:always",
    "huge_blocks:learnt",
    "prefault:0",
    "whale_capacity:8",
)
TOGETHER = {
    "ample": "retain:256M,huge_min:8M",
    "steady": "retain:64M,huge_pages:0",
}
PROFILES = ("lean", "tinyhot_best", "tinyhot_tput")
NAMED = re.compile(r"(?P<name>[\w.+-]+)=(?P<conf>.+)")


def arms_to_try(library: Path, profiles: Path, added: Iterable[str], only: str | None) -> list[Arm]:
    """The default first, then what is built in and what the user adds; `only` is a pattern of
    names that leaves the default in."""
    plain = library_arm(DEFAULT, library)
    built_in = dict(zip(STEPS, STEPS, strict=True)) | TOGETHER
    found = [settings_arm(plain, name, conf) for name, conf in built_in.items()]
    found += [profile_arm(plain, profiles, name) for name in PROFILES]
    arms = {arm.name: arm for arm in found}
    for text in added:
        arm = _added(plain, profiles, text)
        if arm.name in arms or arm.name == DEFAULT:
            raise HakmemError(f"--arm {text}: there is an arm '{arm.name}' already")
        arms[arm.name] = arm
    chosen = [plain, *(matching(list(arms.values()), only) if only else arms.values())]
    return [checked(arm, library) for arm in chosen]


def settings_arm(plain: Arm, name: str, conf: str) -> Arm:
    values = {f"HAKMEM_{key.upper()}": value for key, value in conf_items(conf).items()}
    return replace(plain, name=name, environment=values)


def profile_arm(plain: Arm, profiles: Path, name: str) -> Arm:
    return replace(plain, name=name, environment=load_profile(profiles, name))


def _added(plain: Arm, profiles: Path, text: str) -> Arm:
    """What --arm says: NAME=k:v,k:v, or k:v,k:v, or a profile."""
    named = NAMED.fullmatch(text)
    if named:
        return settings_arm(plain, named["name"], named["conf"])
    if ":" in text:
        return settings_arm(plain, text, text)
    return profile_arm(plain, profiles, text)
