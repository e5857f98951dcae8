"""Figures as people read them."""

SIZES = ("B", "KiB", "MiB", "GiB", "TiB")


def size(value: float) -> str:
    """Bytes, to three digits."""
    step = 0
    amount = float(value)
    while abs(amount) >= 1023.5 and step < len(SIZES) - 1:
        amount /= 1024
        step += 1
    if step == 0:
        return f"{amount:.0f} B"
    digits = max(0, 2 - (abs(amount) >= 9.995) - (abs(amount) >= 99.95))
    return f"{amount:.{digits}f} {SIZES[step]}"


def amount(value: float, unit: str) -> str:
    return size(value) if unit == "bytes" else f"{value:,.0f}"


def duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours = round(minutes / 60)
    return f"{hours} h" if hours < 100 else f"{round(hours / 24)} days"
