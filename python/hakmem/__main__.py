"""Entry of `python -m hakmem` and of the installed `hakmem` command."""

import signal
import sys

# Ctrl-C before anybody catches it leaves no traceback.
usual = signal.getsignal(signal.SIGINT)
if usual == signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from hakmem.cli import main  # noqa: E402

signal.signal(signal.SIGINT, usual)

if __name__ == "__main__":
    sys.exit(main())
