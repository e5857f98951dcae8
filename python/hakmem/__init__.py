"""The command line of hakmem, a drop-in malloc for Linux."""

__version__ = "0.1.0"
