"""The shapes (M, N, K) that are measured by name.

`tuning` and `heldout` are written down. The five classes are drawn, twelve shapes each,
log-uniformly and once and for all: a model that is fitted to one of them is to be judged by the
others.
"""

from __future__ import annotations

import math
import random

Shape = tuple[int, int, int]

TUNING_SHAPES: list[Shape] = [(size,) * 3 for size in (1024, 2048, 4096, 6144, 8192, 16384)] + [
    (m, n, k)
    for m in (64, 128, 4096)
    for n, k in ((2112, 7168), (576, 7168), (24576, 1536), (32768, 512), (7168, 16384),
                 (4096, 7168), (7168, 2048))
]  # fmt: skip
# Projections of Llama 3 8B and 70B, Qwen2.5 7B and Mixtral, odd sizes, and 132 tiles of 128x256 or
# a few more: one wave on an H100 or H200, or two.
HELDOUT_SHAPES: list[Shape] = [
    (1, 6144, 4096), (1, 8192, 28672), (8, 28672, 4096), (8, 3584, 18944),
    (16, 4096, 14336), (32, 10240, 8192), (256, 57344, 8192), (256, 8192, 28672),
    (512, 28672, 4096), (512, 4096, 14336), (1024, 4608, 3584), (1024, 8192, 8192),
    (2048, 14336, 4096), (2048, 4096, 14336), (2048, 37888, 3584),
    (8192, 6144, 4096), (8192, 3584, 18944), (8192, 10240, 8192),
    (1000, 1000, 1000), (3000, 3000, 3000), (4095, 4097, 4099), (5120, 5120, 5120),
    (12 * 128, 11 * 256, 4096), (13 * 128, 11 * 256, 4096), (25 * 128, 11 * 256, 4096),
]  # fmt: skip

SEED = 1
OF_A_CLASS = 12
SMS = 132
LEAST_FLOP, MOST_FLOP = 1e8, 4e12
MOST_BYTES = 8e9  # of A, B and D together


class Draw:
    """Numbers from random.random() alone, whose sequence is the same in every version of Python."""

    def __init__(self) -> None:
        self.random = random.Random(SEED).random

    def real(self, least: float, most: float) -> float:
        """Log-uniform."""
        return math.exp(math.log(least) + self.random() * (math.log(most) - math.log(least)))

    def size(self, least: float, most: float, multiple: int = 1) -> int:
        """The multiple nearest to a log-uniform number; both ends are multiples."""
        return round(self.real(least, most) / multiple) * multiple

    def rounds(self, index: int) -> Shape | None:
        """One to three rounds of tiles of 128x256 on 132 SMs."""
        tiles = self.real(SMS, 3 * SMS)
        m = self.size(512, tiles * 128 * 256 // 512 // 64 * 64, 64)
        n = round(tiles * 128 * 256 / m / 64) * 64
        k = self.size(1024, 16384, 64)
        fits = n >= 512 and SMS <= math.ceil(m / 128) * math.ceil(n / 256) <= 3 * SMS
        return (m, n, k) if fits else None

    def between(self, index: int) -> Shape:
        """M between decoding and large: the tiles of one round are too few, or too wide."""
        return self.size(129, 640), self.size(8192, 65536, 128), self.size(2048, 16384, 64)

    def long_k(self, index: int) -> Shape:
        """Few tiles, each with a long sum."""
        return self.size(128, 1024, 64), self.size(128, 1024, 64), self.size(16384, 131072, 64)

    def decode(self, index: int) -> Shape:
        """So few rows that B's bytes are all that counts."""
        return self.size(1, 128), self.size(1024, 65536, 128), self.size(1024, 32768, 128)

    def ragged(self, index: int) -> Shape | None:
        """The first half: N and K that no tile divides, any M. The second: a short K."""
        if index < OF_A_CLASS // 2:
            shape = self.size(256, 8192), self.size(256, 8192, 8), self.size(512, 8192, 8)
            return None if shape[1] % 64 == 0 or shape[2] % 64 == 0 else shape
        return self.size(1024, 16384, 128), self.size(1024, 16384, 128), self.size(64, 1024, 64)


CLASSES = ("rounds", "between", "long_k", "decode", "ragged")


def is_measurable(shape: Shape) -> bool:
    m, n, k = shape
    operand_bytes = 2 * (m * k + n * k + m * n)
    return LEAST_FLOP <= 2 * m * n * k <= MOST_FLOP and operand_bytes < MOST_BYTES


def draw_classes() -> dict[str, list[Shape]]:
    """{name: shapes} of CLASSES. What breaks its class's rule, or was there, is drawn again."""
    draw = Draw()
    taken = set(TUNING_SHAPES + HELDOUT_SHAPES)
    classes: dict[str, list[Shape]] = {}
    for name in CLASSES:
        shapes: list[Shape] = []
        classes[name] = shapes
        while len(shapes) < OF_A_CLASS:
            shape = getattr(draw, name)(len(shapes))
            if shape and is_measurable(shape) and shape not in taken:
                taken.add(shape)
                shapes.append(shape)
    return classes


# What a selector can name. LISTS have no shape in common, UNIONS are of them.
LISTS = {"tuning": TUNING_SHAPES, "heldout": HELDOUT_SHAPES, **draw_classes()}
UNIONS = {
    "classes": [shape for name in CLASSES for shape in LISTS[name]],
    "all": [shape for shapes in LISTS.values() for shape in shapes],
}
NAMED = {**LISTS, **UNIONS}
# Drawn shapes are many: they are measured sustained only where that is asked for.
DRAWN = frozenset(UNIONS["classes"])
