"""Process ids as they are typed."""

PID_DIGITS = 20  # what no kernel has as many of is none, and would be a number too long to print


def pid_of(text: str) -> int | None:
    """None: it is no process id."""
    is_number = text.isascii() and text.isdigit() and len(text) <= PID_DIGITS
    return int(text) if is_number else None
