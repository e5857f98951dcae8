"""Makes the documentation site: no link of it is broken, and it fetches nothing from elsewhere.

usage: run_site.py --source SOURCE_DIR

Skipped where packages cannot be fetched.
"""

import argparse
import re
import sys
import tempfile
import tomllib
from pathlib import Path

from commands import environment, run

# Elements that a reader's browser loads by itself, from another host.
FETCHED = re.compile(r"""<(?:script|img|link|iframe)[^>]+(?:src|href)=["'](?:https?:)?//[^>]+>""")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--build", type=Path, help="not used: the site is made of the source")
    source: Path = parser.parse_args().source.resolve()
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    with tempfile.TemporaryDirectory(prefix="hakmem-site-") as name:
        folder = Path(name)
        python, pip = environment(folder)
        run(*pip, "install", "--quiet", *project["optional-dependencies"]["site"])
        site = folder / "site"
        config = source / "mkdocs.yml"
        run(python, "-B", "-m", "mkdocs", "build", "--strict", "-f", config, "-d", site)
        pages = sorted(site.rglob("*.html"))
        for page in pages:
            fetched = FETCHED.search(page.read_text(encoding="utf-8"))
            if fetched is not None:
                sys.exit(f"FAILED: {page.relative_to(site)} loads {fetched[0]}")
        print(f"{len(pages)} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
