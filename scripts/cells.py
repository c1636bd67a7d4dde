"""Cells and rows of the tables that the documentation has."""

DASH = "–"


def cell(value, spec):
    return DASH if value is None else format(value, spec)


def percent(value):
    return DASH if value is None else f"{100 * value:.1f} %"


def tflops(value):
    """Three significant digits are more than the spread of a measurement leaves."""
    return DASH if value is None else format(value, ".1f" if value < 100 else ".0f")


def markdown(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]
