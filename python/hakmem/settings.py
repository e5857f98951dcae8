"""Settings of the library as environment variables: profiles, --conf, and which of them wins."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from hakmem.errors import HakmemError
from hakmem.terminal import legible

PREFIX = "HAKMEM_"
CONF = f"{PREFIX}CONF"
FORMER_WHALE_CAPACITY = "HKM_WHALE_CAPACITY"
VARIABLE = re.compile(rf"{PREFIX}[A-Z][A-Z0-9_]*")
SUFFIX = ".env"
CONF_ITEM = re.compile(r"[a-z][a-z0-9_]*:[^,:\s]+")


def profile_names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob(f"*{SUFFIX}"))


def load_profile(folder: Path, name: str) -> dict[str, str]:
    """A profile of the folder by its name, or any other as a file whose name ends in .env."""
    if name.endswith(SUFFIX):
        return parse_profile(_text_of(Path(name)), name)
    known = profile_names(folder)
    if name not in known:
        listed = ", ".join(known) or "none"
        raise HakmemError(
            f"no profile named '{legible(name)}'; there are: {listed}, and FILE{SUFFIX}"
        )
    path = folder / f"{name}{SUFFIX}"
    return parse_profile(_text_of(path), path.name)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise HakmemError(
            f"cannot read the profile {legible(str(path))}: {error.strerror}"
        ) from error
    except UnicodeDecodeError as error:
        raise HakmemError(f"the profile {legible(str(path))} is no text: {error}") from error


def parse_profile(text: str, source: str) -> dict[str, str]:
    """KEY=VALUE lines; empty lines and lines that begin with # are skipped.

    What HAKMEM_CONF holds is taken apart: as a whole, another HAKMEM_CONF would replace it.
    """
    values: dict[str, str] = {}
    conf: dict[str, str] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not VARIABLE.fullmatch(key):
            problem = f"{source}:{number}: not a HAKMEM_KEY=VALUE line: {line}"
            raise HakmemError(problem)
        if key == CONF:
            conf = _items_at(f"{source}:{number}", value)
        else:
            values[key] = value
    return {_variable(key): value for key, value in conf.items()} | values


def _items_at(place: str, conf: str) -> dict[str, str]:
    try:
        return conf_items(conf)
    except HakmemError as error:
        raise HakmemError(f"{place}: {error}") from None


def conf_items(conf: str) -> dict[str, str]:
    """The keys and values of a "key:value,..." string that a user typed."""
    items = [item.strip() for item in conf.split(",") if item.strip()]
    for item in items:
        if not CONF_ITEM.fullmatch(item):
            raise HakmemError(f"settings are key:value,..., not '{item}'")
    return {key: value for key, _, value in (item.partition(":") for item in items)}


def conf_text(conf: str) -> str:
    """The same as the library reads it, without blanks."""
    return ",".join(f"{key}:{value}" for key, value in conf_items(conf).items())


def keys_named_in(conf: str) -> set[str]:
    """Of a "key:value,..." string of anybody's, in which the library takes either case."""
    return {item.partition(":")[0].strip().lower() for item in conf.split(",")}


def without(names: Collection[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The environment less these variables, however they are written: HAKMEM_retain is one too."""
    return {name: value for name, value in environment.items() if as_read(name) not in names}


def as_read(name: str) -> str:
    """The variable that the library takes this one for: either case after the prefix but CONF's,
    and the former name of one."""
    if name == FORMER_WHALE_CAPACITY:
        return f"{PREFIX}WHALE_CAPACITY"
    read = f"{PREFIX}{name[len(PREFIX) :].upper()}"
    return read if name.startswith(PREFIX) and read != CONF else name


def merged_environment(
    base: Mapping[str, str], profile: Mapping[str, str], conf: str | None
) -> dict[str, str]:
    """The environment to run with: --conf wins over what was set before, that over the profile."""
    inherited = base.get(CONF, "")
    settled = {*map(_variable, keys_named_in(inherited)), *map(as_read, base)}
    wanted = conf_text(conf or "")
    environment = without(
        {_variable(key) for key in conf_items(wanted)}, {**without(settled, profile), **base}
    )
    if wanted:
        environment[CONF] = f"{inherited},{wanted}" if inherited else wanted
    return environment


def _variable(key: str) -> str:
    return f"{PREFIX}{key.upper()}"
