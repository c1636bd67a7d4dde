"""svg.py: the same bytes each time, both kinds of pages, and texts that collide are found."""

import re
import sys
import unittest
import xml.etree.ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from lib import svg  # noqa: E402
from lib.svg import Drawing  # noqa: E402


def drawing():
    d = Drawing(200, 100, "A < B")
    d.cell("c0", 10, 10, 40, 20, "a & b")
    d.arrow("green", [(60, 20), (90, 20), (90, 50)])
    d.box(100, 40, 80, 40, ["title", "more"])
    d.line("line-ink dashed", 0, 90, 200, 90, "a <tip>")
    d.circle("red", 5, 5, 2.25)
    d.text("turned", 20, 80, turn=-30)
    return d


class Svg(unittest.TestCase):
    def test_it_is_well_formed_and_the_same_bytes_each_time(self):
        text = drawing().svg()
        self.assertEqual(text, drawing().svg())
        root = xml.etree.ElementTree.fromstring(text)
        self.assertEqual(
            [e.text for e in root.iter() if e.tag.endswith("title")], ["A < B", "a <tip>"]
        )
        self.assertIn('r="2.2"', text)
        self.assertIn("rotate(-30 20 80)", text)

    def test_every_class_has_a_colour_and_ink_has_one_for_dark_pages(self):
        text = drawing().svg()
        light, dark = text.split("@media (prefers-color-scheme: dark)")
        for kind in re.findall(r'class="([^"]+)"', text):
            for one in kind.split():
                self.assertIn(f".{one} {{", text)
        for one in ("c0", "none", "muted", "frame", "line-ink", "head-ink"):
            self.assertIn(f".{one} {{", light)
            self.assertIn(f".{one} {{", dark)

    def test_words_are_legible_on_every_fill(self):
        def light(colour):
            r, g, b = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
            linear = [
                c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (r, g, b)
            ]
            return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

        for name, colours in svg.FILLS.items():
            for ink, fill in zip(svg.INK, colours):
                high, low = sorted((light(ink), light(fill)), reverse=True)
                self.assertGreater((high + 0.05) / (low + 0.05), 4.5, name)  # WCAG 2 AA

    def test_texts_that_collide_or_leave_the_drawing_are_found(self):
        self.assertEqual(drawing().problems(), [])
        d = Drawing(100, 40, "t")
        d.text("first", 10, 20)
        d.text("second", 20, 22)
        d.text("far too long for it all", 60, 38)
        d.text("high", 10, 2)
        self.assertEqual(d.problems(), [
            '"second" lies on "first"', '"far too long for it all" leaves the drawing',
            '"high" leaves the drawing',
        ])  # fmt: skip

    def test_numbers_have_one_digit_behind_the_point(self):
        self.assertEqual([svg.number(x) for x in (3, 2.04, 2.06, -0.5)], ["3", "2", "2.1", "-0.5"])


if __name__ == "__main__":
    unittest.main()
