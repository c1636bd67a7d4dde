"""The drawn shapes: each class keeps its rules, and none is ever drawn anew."""

import hashlib
import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from lib import shape_lists  # noqa: E402

# Of the 60 shapes. Results are compared over years: a list that changes is another list.
DIGEST = "70ef46862d631824a88811a52a7bbb0e70495fb596c30993e952006436c62333"


def of(name):
    return shape_lists.NAMED[name]


class Drawn(unittest.TestCase):
    def between(self, value, least, most, multiple=1):
        self.assertTrue(least <= value <= most and value % multiple == 0, value)

    def test_they_are_the_same_for_ever(self):
        text = json.dumps(of("classes"))
        self.assertEqual(hashlib.sha256(text.encode()).hexdigest(), DIGEST)
        self.assertEqual(shape_lists.draw_classes(), {n: of(n) for n in shape_lists.CLASSES})

    def test_twelve_a_class_and_none_twice(self):
        self.assertEqual([len(of(name)) for name in shape_lists.CLASSES], [12] * 5)
        self.assertEqual(of("classes"), sum((of(name) for name in shape_lists.CLASSES), []))
        self.assertEqual(len(of("all")), 60 + 27 + 25)
        self.assertEqual(len(set(of("all"))), len(of("all")))
        self.assertEqual(shape_lists.DRAWN, set(of("classes")))

    def test_all_can_be_measured(self):
        for m, n, k in of("classes"):
            self.between(2 * m * n * k, 1e8, 4e12)
            self.assertLess(2 * (m * k + n * k + m * n), 8e9)

    def test_rounds(self):
        for m, n, k in of("rounds"):
            self.between(m, 512, 1 << 30, 64)
            self.between(n, 512, 1 << 30, 64)
            self.between(k, 1024, 16384, 64)
            self.between(-(-m // 128) * -(-n // 256), 132, 3 * 132)

    def test_between(self):
        for m, n, k in of("between"):
            self.between(m, 129, 640)
            self.between(n, 8192, 65536, 128)
            self.between(k, 2048, 16384, 64)

    def test_long_k(self):
        for m, n, k in of("long_k"):
            self.between(m, 128, 1024, 64)
            self.between(n, 128, 1024, 64)
            self.between(k, 16384, 131072, 64)

    def test_decode(self):
        for m, n, k in of("decode"):
            self.between(m, 1, 128)
            self.between(n, 1024, 65536, 128)
            self.between(k, 1024, 32768, 128)

    def test_ragged(self):
        for m, n, k in of("ragged")[:6]:
            self.between(m, 256, 8192)
            self.between(n, 256, 8192, 8)
            self.between(k, 512, 8192, 8)
            self.assertTrue(n % 64 and k % 64)
        for m, n, k in of("ragged")[6:]:
            self.between(m, 1024, 16384, 128)
            self.between(n, 1024, 16384, 128)
            self.between(k, 64, 1024, 64)

    def test_the_ends_of_a_range_are_drawn_too(self):
        draw = shape_lists.Draw()
        sizes = {draw.size(1, 4) for _ in range(100)}
        self.assertEqual(sizes, {1, 2, 3, 4})
        multiples = {draw.size(64, 192, 64) for _ in range(100)}
        self.assertEqual(multiples, {64, 128, 192})


if __name__ == "__main__":
    unittest.main()
