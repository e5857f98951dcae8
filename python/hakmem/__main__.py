"""Entry of `python -m hakmem` and of the installed `hakmem` command."""

import sys

from hakmem.cli import main

if __name__ == "__main__":
    sys.exit(main())
