"""The arms of a comparison: hakmem itself, with settings or profiles, and the chosen peers."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hakmem import __version__
from hakmem.build import ensure_library
from hakmem.clone import Clone, profile_folder
from hakmem.errors import HakmemError
from hakmem.insight.library_settings import SAID, ask
from hakmem.lab.model import Arm
from hakmem.lab.peers_build import RECIPES
from hakmem.launch import checked_library
from hakmem.settings import conf_text, load_profile
from hakmem.terminal import say

SUBJECT = "hakmem"
EVERY = "all"
PROFILE = "profile:"
OTHER_MALLOC = re.compile(r"lib(?:je|tc|mi|sn|rp|tbb)malloc|libhoard|libhakmem")
# A peer as the distribution has it says little beside the newest of its kind.
SUPERSEDED = {"jemalloc-debian": "jemalloc", "mimalloc-debian": "mimalloc2"}


def library_arm(name: str, library: Path, version: str = __version__) -> Arm:
    return Arm(name, version, library, {}, "hakmem")


def profile_arm(name: str, library: Path, clone: Clone | None, profile: str) -> Arm:
    values = load_profile(profile_folder(clone), profile)
    arm = Arm(name, f"{__version__}, profile {profile}", library, values, "hakmem")
    return checked(arm, library)


def settings_arm(name: str, library: Path, conf: str) -> Arm:
    """`conf` is "key:value,..." as a user types it."""
    values = {"HAKMEM_CONF": conf_text(conf)}
    arm = Arm(name, f"{__version__}, {conf}", library, values, "hakmem")
    return checked(arm, library)


def checked(arm: Arm, library: Path) -> Arm:
    """The library knows its settings and their bounds, and names what was probably meant."""
    wrong = ask(library, arm.environment).warnings
    if wrong:
        said = "; ".join(line.removeprefix(SAID) for line in wrong)
        raise HakmemError(f"arm {arm.name}: {said}")
    return arm


def hakmem_arm(library: Path | None, clone: Clone | None) -> Arm:
    """The library given, or hakmem itself: a clone's is brought up to date first."""
    if library is not None:
        return library_arm(SUBJECT, checked_library(library), library.name)
    return library_arm(SUBJECT, ensure_library(clone))


def forced_glibc(glibc: Arm, program: Path) -> Arm:
    """glibc's malloc also for a program that is linked with another one, as redis-server is.

    Without anything preloaded such a program would run on its own choice under glibc's name. The
    symbols of what is preloaded come first, even if that is the C library itself.
    """
    listed = subprocess.run(
        ["ldd", str(program)], capture_output=True, text=True, check=False
    ).stdout
    library = re.search(r"libc\.so\.6 => (\S+)", listed)
    if library is None or not OTHER_MALLOC.search(listed):
        return glibc
    return replace(glibc, preload=Path(library[1]))


def say_what_is_missing(available: Sequence[Arm], clone: Clone | None) -> None:
    """Once per command: a comparison with few is worth less than it could be."""
    names = {arm.name for arm in available}
    missing = [recipe.name for recipe in RECIPES if recipe.name not in names]
    if missing:
        where = "./hakmem" if clone else "in a clone of hakmem, ./hakmem"
        say(f"not ready: {', '.join(missing)} ({where} bench --setup-peers builds them)")


def default_arms(available: Sequence[Arm]) -> list[Arm]:
    """All that is there, without those that a newer one of their kind stands for."""
    names = {arm.name for arm in available}
    return [arm for arm in available if SUPERSEDED.get(arm.name) not in names]


def chosen_arms(
    wanted: str | None, available: Sequence[Arm], hakmem: Arm, clone: Clone | None
) -> list[Arm]:
    """What `--arms a,b,c` names: peers, hakmem, profile:NAME, or settings joined by +."""
    everything = [*available[:1], hakmem, *available[1:]]
    if wanted is None:
        return default_arms(everything)
    words = [word.strip() for word in wanted.split(",") if word.strip()]
    if words == [EVERY]:
        return everything
    arms = [_named(word, everything, hakmem, clone) for word in dict.fromkeys(words)]
    if len(arms) < 2:
        raise HakmemError(
            f"--arms {wanted or repr(wanted)}: a comparison needs two; there are: "
            f"{_names(everything)}"
        )
    return arms


def _named(word: str, everything: Sequence[Arm], hakmem: Arm, clone: Clone | None) -> Arm:
    for arm in everything:
        if arm.name == word:
            return arm
    assert hakmem.preload is not None
    if word.startswith(PROFILE):
        return profile_arm(word, hakmem.preload, clone, word.removeprefix(PROFILE))
    if ":" in word:
        return settings_arm(word, hakmem.preload, word.replace("+", ","))
    raise HakmemError(
        f"no allocator named '{word}' is ready here; there are: {_names(everything)}, profile:NAME "
        "and KEY:VALUE (more peers: hakmem bench --setup-peers)"
    )


def _names(arms: Sequence[Arm]) -> str:
    return ", ".join(arm.name for arm in arms)
