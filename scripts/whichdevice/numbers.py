"""How numbers, times, sizes and prices are written for people: the only place.

Exact values are in tables and records.
"""

TIMES = (("days", 86400.0, 3.0), ("h", 3600.0, 2.0), ("min", 60.0, 2.0), ("s", 1.0, 1.0), ("ms", 1e-3, 1.0))
SIZES = (("GiB", 2**30), ("MiB", 2**20))


def number(value: float) -> str:
    """Three significant digits, thousands apart, no exponent: `0.0123`, `53.1`, `43,950`."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) < 1e-7:
        return f"{value:.2g}"
    return f"{float(f'{value:.3g}'):.10f}".rstrip("0").rstrip(".")


def counted(count: int, noun: str) -> str:
    """A number of things: `1 device`, `10 devices`, `2 processes`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}{'es' if noun.endswith('s') else 's'}"


def percent(value: float) -> str:
    """A share of 1 in per cent: `12.3 %`."""
    return f"{number(float(f'{100 * value:.3g}'))} %"


def quality(value: float) -> str:
    """A metric or a loss, with four decimals: `0.9871`."""
    return f"{value:.4f}" if abs(value) < 10 else number(value)


def seconds(value: float) -> str:
    """A measured or forecast time in the unit that suits it, three significant digits: `1.23 ms`, `45.6 s`, `3.5 h`."""
    for unit, one, least in TIMES:
        if value >= least * one:
            return f"{number(value / one)} {unit}"
    return f"{number(value * 1e6)} µs"


def duration(value: float) -> str:
    """Seconds that a person waits, roughly: `40 s`, `3 min`, `1 h 20 min`."""
    if value < 90:
        return f"{value:.0f} s"
    minutes = round(value / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def size(value: float) -> str:
    """Bytes in the binary unit that suits them: `15.6 GiB`."""
    for unit, one in SIZES:
        if value >= one:
            return f"{number(value / one)} {unit}"
    return f"{number(value / 2**10)} KiB"


def price(value: float) -> str:
    """US dollars: two decimals as clouds list them, below ten cents three digits, whole from a thousand on."""
    if value < 0.1:
        return number(value)
    return f"{value:,.2f}" if value < 1000 else f"{value:,.0f}"
