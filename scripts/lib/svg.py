"""Drawings as SVG text, the same bytes each time. Python standard library only.

Colours are classes, each with a value for light and one for dark pages, so that a drawing is
legible on both. A drawing knows about how wide its texts are: problems() says which of them collide
or leave the drawing, and tests ask it.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

Attributes = dict[str, "float | str"]
Text = tuple[str, float, float, float, float]  # words, left, top, right, bottom
FONT = "system-ui, sans-serif"
TEXT_SIZES = {"": 12, "small": 10, "title": 13}

# name: (light, dark)
INK, MUTED = ("#24292f", "#d0d7de"), ("#57606a", "#9da7b3")
FILLS = {
    "c0": ("#a8d1ff", "#1f4e79"), "c1": ("#ffd6a5", "#7a4a12"), "c2": ("#b7e4c7", "#245c3a"),
    "c3": ("#f5b5c8", "#7a2b45"), "c4": ("#d7c5f7", "#4b3a80"), "c5": ("#fff1a8", "#6b5d10"),
    "c6": ("#9fe3e3", "#155e63"), "c7": ("#e2c4a8", "#5e4630"), "none": ("#eaeef2", "#30363d"),
}  # fmt: skip
# Of marks without text on them, the same on both.
MARKS = {"blue": "#2f81c7", "orange": "#d0863c", "green": "#3f9c5a", "red": "#c75b5b",
         "purple": "#8d6cc2", "gray": "#8c959f", "ocher": "#c2a633", "teal": "#3aa6a6"}  # fmt: skip
STROKES = dict({name: (value, value) for name, value in MARKS.items()}, ink=INK, muted=MUTED)


def style() -> str:
    rules = [f"text {{ font: 12px {FONT}; fill: {INK[0]}; }}"]
    rules += [f".{kind} {{ font-size: {size}px; }}" for kind, size in TEXT_SIZES.items() if kind]
    rules += [".title { font-weight: 600; }", ".inside { font-size: 10px; fill: #ffffff; }",
              ".dashed { stroke-dasharray: 5 3; }", ".thin { stroke-width: 0.5; }",
              ".thick { stroke-width: 2.5; }", ".faint { opacity: 0.5; }",
              "line, path { stroke-width: 1.2; fill: none; }"]  # fmt: skip
    dark = [f"text {{ fill: {INK[1]}; }}", ".inside { fill: #ffffff; }"]
    for name, (light, other) in {"muted": MUTED, **FILLS}.items():
        rules.append(f".{name} {{ fill: {light}; }}")
        dark.append(f".{name} {{ fill: {other}; }}")
    rules += [f".{name} {{ fill: {value}; }}" for name, value in MARKS.items()]
    for name, (light, other) in STROKES.items():
        rules.append(f".line-{name} {{ stroke: {light}; }}")
        if other != light:
            dark.append(f".line-{name} {{ stroke: {other}; }}")
    rules.append(f".frame {{ fill: none; stroke: {MUTED[0]}; stroke-width: 1; }}")
    dark.append(f".frame {{ stroke: {MUTED[1]}; }}")
    rules.append(f".head-ink {{ fill: {INK[0]}; stroke: {INK[0]}; stroke-width: 1; }}")
    dark.append(f".head-ink {{ fill: {INK[1]}; stroke: {INK[1]}; }}")
    inside = "\n".join(f"    {rule}" for rule in rules)
    darker = "\n".join(f"      {rule}" for rule in dark)
    return (f"  <style>\n{inside}\n    @media (prefers-color-scheme: dark) {{\n{darker}\n    }}\n"
            "  </style>")  # fmt: skip


def number(value: float) -> str:
    """At most one digit behind the point."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def text_width(words: str, size: float = 12, bold: bool = False) -> float:
    """About, of a sans-serif font; rather too much than too little."""
    total = 0.0
    for char in words:
        if char in "iljtfI.,:;'|!()[]· ":
            total += 0.33
        elif char in "mwMW%@–→←":
            total += 0.9
        else:
            total += 0.68 if char.isupper() else 0.57
    return total * size * (1.06 if bold else 1)


class Drawing:
    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.lines: list[str] = []
        self.texts: list[Text] = []  # those that are not turned

    def element(
        self, tag: str, kind: str, attributes: Attributes, inner: str | None = None,
        tip: str | None = None,
    ) -> None:  # fmt: skip
        if tip:
            inner = f"<title>{html.escape(tip)}</title>"
        listed = "".join(
            f' {name.replace("_", "-")}="{number(v) if isinstance(v, (int, float)) else v}"'
            for name, v in attributes.items()
        )
        kinds = f' class="{kind}"' if kind else ""
        end = f">{inner}</{tag}>" if inner is not None else "/>"
        self.lines.append(f"  <{tag}{kinds}{listed}{end}")

    def rect(
        self, kind: str, x: float, y: float, width: float, height: float, tip: str | None = None,
        round_by: float = 0,
    ) -> None:  # fmt: skip
        attributes: Attributes = {"x": x, "y": y, "width": width, "height": height}
        if round_by:
            attributes["rx"] = round_by
        self.element("rect", kind, attributes, tip=tip)

    def line(
        self, kind: str, x1: float, y1: float, x2: float, y2: float, tip: str | None = None
    ) -> None:
        self.element("line", kind, {"x1": x1, "y1": y1, "x2": x2, "y2": y2}, tip=tip)

    def circle(self, kind: str, x: float, y: float, radius: float) -> None:
        self.element("circle", kind, {"cx": x, "cy": y, "r": radius})

    def path(self, kind: str, points: Sequence[tuple[float, float]]) -> None:
        places = " L".join(f"{number(x)} {number(y)}" for x, y in points)
        self.element("path", kind, {"d": f"M{places}"})

    def arrow(self, kind: str, points: Sequence[tuple[float, float]]) -> None:
        """A line through the points, with a head at the last. kind: the name of a stroke."""
        self.path(f"line-{kind}", points)
        (x1, y1), (x2, y2) = points[-2:]
        length = max(1e-6, ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5)
        ux, uy = (x2 - x1) / length, (y2 - y1) / length
        corners = [(x2, y2), (x2 - 8 * ux - 3.5 * uy, y2 - 8 * uy + 3.5 * ux),
                   (x2 - 8 * ux + 3.5 * uy, y2 - 8 * uy - 3.5 * ux)]  # fmt: skip
        fill = "head-ink" if kind == "ink" else kind
        listed = " ".join(f"{number(x)},{number(y)}" for x, y in corners)
        self.element("polygon", fill, {"points": listed})

    def text(
        self, words: object, x: float, y: float, anchor: str = "start", kind: str = "small",
        turn: float | None = None,
    ) -> None:  # fmt: skip
        words = str(words)
        kinds = kind.split()
        usual = 10 if "inside" in kinds else 12
        size = next((TEXT_SIZES[k] for k in kinds if k in TEXT_SIZES), usual)
        attributes: Attributes = {"x": x, "y": y}
        if anchor != "start":
            attributes["text_anchor"] = anchor
        if turn is not None:
            attributes["transform"] = f"rotate({number(turn)} {number(x)} {number(y)})"
        else:
            wide = text_width(words, size, "title" in kinds)
            left = x - {"start": 0, "middle": wide / 2, "end": wide}[anchor]
            self.texts.append((words, left, y - 0.75 * size, left + wide, y + 0.2 * size))
        self.element("text", kind, attributes, html.escape(words, quote=False))

    def heading(
        self, x: float, words: str, *lines: str, first: float = 42, step: float = 14
    ) -> None:
        """A title at the top, and lines of text below it, the first at that height."""
        self.text(words, x, 24, kind="title")
        for index, line in enumerate(lines):
            self.text(line, x, first + step * index)

    def note(self, words: object, x: float, y: float, anchor: str = "start") -> None:
        """Text that says less than the others."""
        self.text(words, x, y, anchor, "small muted")

    def cell(
        self, kind: str, x: float, y: float, width: float, height: float, words: object = ""
    ) -> None:
        """A filled box with words in its middle."""
        self.rect(kind, x, y, width, height)
        if words != "":
            middle = y + height / 2 + 0.36 * TEXT_SIZES["small"]
            self.text(words, x + width / 2, middle, "middle")

    def box(self, x: float, y: float, width: float, height: float, lines: Sequence[str]) -> None:
        """A frame with lines of words in its middle, the first as its title."""
        self.rect("frame", x, y, width, height, round_by=6)
        top = y + height / 2 - 7 * (len(lines) - 1)
        for index, words in enumerate(lines):
            kind = "small muted" if index else ""
            self.text(words, x + width / 2, top + 14 * index + 4, "middle", kind)

    def svg(self) -> str:
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(self.width)} '
                f'{number(self.height)}" role="img">')  # fmt: skip
        title = f"  <title>{html.escape(self.title)}</title>"
        return "\n".join([head, title, style()] + self.lines + ["</svg>"]) + "\n"

    def problems(self) -> list[str]:
        """Texts that leave the drawing or lie on each other, one sentence each."""
        found = []
        for i, (words, left, top, right, bottom) in enumerate(self.texts):
            if left < 0 or top < 0 or right > self.width or bottom > self.height:
                found.append(f'"{words}" leaves the drawing')
            for other, left2, top2, right2, bottom2 in self.texts[:i]:
                if left < right2 and left2 < right and top < bottom2 and top2 < bottom:
                    found.append(f'"{words}" lies on "{other}"')
        return found
