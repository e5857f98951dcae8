"""Quantities as people read them."""

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
HOUR_S = 3600.0


def size_text(count: float) -> str:
    """Three figures and a unit."""
    value = abs(count)
    unit = 0
    while value >= 999.5 and unit < len(UNITS) - 1:
        value /= 1024
        unit += 1
    places = 0 if unit == 0 or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{'-' if count < 0 else ''}{value:.{places}f} {UNITS[unit]}"


def power_text(power: int) -> str:
    """A power of two of bytes, in whole units."""
    unit = min(power // 10, len(UNITS) - 1)
    return f"{1 << power - 10 * unit} {UNITS[unit]}"


def count_text(count: float) -> str:
    return f"{count:,.0f}" if abs(count) >= 9.5 or count == round(count) else f"{count:.1f}"


def many_text(count: float, noun: str) -> str:
    return f"{count_text(count)} {noun}{'' if count == 1 else 's'}"


def percent_text(share: float) -> str:
    value = 100 * share
    if 0 < value < 0.1:
        return "< 0.1 %"
    return f"{value:.1f} %" if value < 9.95 else f"{value:.0f} %"


def time_text(ms: float) -> str:
    if ms < 1000:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    for limit, divisor, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / divisor:.3g} {unit}"
    return f"{seconds / 86_400:.3g} d"


def growth_text(bytes_per_hour: float) -> str:
    """Per minute, or per hour where that would be next to nothing."""
    per_minute = bytes_per_hour / 60
    if per_minute >= 100 * 1024:
        return f"{size_text(per_minute)}/min"
    return f"{size_text(bytes_per_hour)}/h"
