"""The plot of the ladder."""

from __future__ import annotations

from pathlib import Path

from lib.markdown import tflops
from lib.results import Results, rungs, solving
from lib.rows import REGIMES
from lib.svg import Drawing

BARS = {"burst": "blue", "sustained": "orange"}


def two_lines(name: str) -> tuple[str, str]:
    """Words of a name in two lines, about as long as each other if it does not fit into one."""
    words = name.split(" ")
    cuts = range(1, len(words) + 1)
    lines = [(" ".join(words[:cut]), " ".join(words[cut:])) for cut in cuts]
    return min(lines, key=lambda pair: max(map(len, pair))) if len(name) > 11 else (name, "")


def ladder(root: Path, results: Results | None) -> Drawing:
    """Two bars a rung, cuBLASLt as a dashed line for each regime."""
    width, height, left, right, top, bottom = 860, 412, 48, 90, 40, 68
    numbers = solving(root, results)
    bars, lines = [], []
    if results:
        for number in numbers:
            size = results.detail_size(number) or 8192
            for regime in REGIMES:
                row = results.find(number, "result", size, regime)
                if row is not None and row["verified"] and row["tflops"] is not None:
                    bars.append((number, regime, row["tflops"], size))
        lines = [(r, b) for r in REGIMES for b in [results.baseline(8192, r)] if b is not None]
    drawing = Drawing(width, height, "TFLOPS of every rung's result variant at 8192 cubed")
    if results is None or not bars:
        drawing.text("not measured yet", width // 2, height // 2, "middle", "")
        return drawing

    highest = max([b[2] for b in bars] + [line[1] for line in lines])
    ceiling = 100 * (int(highest) // 100 + 1)
    plot_width, plot_height = width - left - right, height - top - bottom

    def y(value: float) -> float:
        return top + plot_height * (1 - value / ceiling)

    for tick in range(0, ceiling + 1, 100):
        kind = "line-gray" if tick == 0 else "line-gray thin faint"
        drawing.line(kind, left, y(tick), width - right, y(tick))
        drawing.text(tick, left - 6, y(tick) + 4, "end", "")
    slot = plot_width / len(numbers)
    bar = slot * 0.36
    stems = rungs(root)
    for index, number in enumerate(numbers):
        center = left + slot * (index + 0.5)
        name = two_lines(stems[number][0].split("_", 1)[1].replace("_", " "))
        note = next((f"at {b[3]}³" for b in bars if b[0] == number and b[3] != 8192), "")
        drawing.text(number, center, height - bottom + 16, "middle", "")
        for line, words in enumerate((*filter(None, name), note)):
            if words:
                drawing.text(words, center, height - bottom + 30 + 12 * line, "middle")
    for number, regime, amount, _ in bars:
        center = left + slot * (numbers.index(number) + 0.5)
        x = center - bar if regime == "burst" else center
        tall = plot_height * amount / ceiling
        drawing.rect(BARS[regime], x, y(amount), bar - 1, tall)
        inside = tall > 16  # above a tall bar, the number would cross cuBLASLt's line
        drawing.text(tflops(amount), x + bar / 2, y(amount) + (12 if inside else -4), "middle",
                     "inside" if inside else "small")  # fmt: skip
    for regime, amount in lines:
        drawing.line(f"line-{BARS[regime]} dashed", left, y(amount), width - right, y(amount))
        drawing.text(f"cuBLASLt {tflops(amount)}", width - right + 4, y(amount) + 4)
    for index, regime in enumerate(REGIMES):
        x = left + 110 * index
        drawing.rect(BARS[regime], x, 12, 12, 12)
        drawing.text(regime, x + 18, 22, kind="")
    drawing.text(f"TFLOPS, 8192³, bf16, {results.head['gpu']}", left + 230, 22, kind="")
    return drawing
