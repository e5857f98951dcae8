"""Reads the data files that people write: TOML, with errors that name the file."""

import tomllib
from pathlib import Path
from typing import Any

from hakmem.errors import HakmemError


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise HakmemError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise HakmemError(f"{path} is not well-formed: {error}") from error
