"""The kernels to put bugs into."""

from __future__ import annotations

from typing import NamedTuple

from lib.cli import ROOT, Problem
from lib.ptx import Kernel, Module


class Subject(NamedTuple):
    """A program and variant, if it has any, its PTX, and the arguments of a run that is small but
    goes round the ring at least once."""

    program: str
    ptx: str
    variant: str
    kernel: str  # a part of the mangled name that only this variant's has
    arguments: list[str]
    what: str  # "rung 6, 2consumers"

    def find_kernel(self, module: Module) -> Kernel:
        found = [name for name in module.names if self.kernel in name]
        if len(found) != 1:
            raise Problem(f"{self.ptx} has {len(found)} kernels with {self.kernel} in their names")
        return module.kernel(found[0])

    def command(self) -> list[str]:
        return [str(ROOT / self.program)] + self.arguments


def rung(
    stem: str, variant: str, kernel: str, shape: tuple[int, int, int], *options: str
) -> Subject:
    arguments = [f"--variant={variant}", *(f"--{x}={size}" for x, size in zip("mnk", shape))]
    arguments += ["--check", "--data=ints", *options]
    number = stem.split("_")[0]
    return Subject(f"build/stage-{number}", f"build/ptx/{stem}.ptx", variant, kernel, arguments,
                   f"rung {int(number)}, {variant}")  # fmt: skip


SMEM_TILED = rung("01_smem_tiled", "128x128", "Li128ELi128E", (128, 128, 136))
CP_ASYNC = rung("03_cp_async_multistage", "depth3", "4gemmINS_4TileILi3E", (128, 128, 448))
CP_ASYNC_MBARRIER = rung(
    "03_cp_async_multistage", "depth3_mbarrier", "13gemm_mbarrier", (128, 128, 448))
TMA = rung("04_tma_mbarrier", "depth3", "TileILi3E", (128, 128, 448))
WGMMA = rung("05_wgmma", "bn256", "TileILi256ELi0E", (128, 256, 640))
SPECIALIZED = rung("06_warp_specialized", "2consumers", "TileILi2ELb1E", (128, 256, 640))
# Five k tiles, so that the second tile starts in slot 1 and at the other parity.
PERSISTENT = rung("07_persistent", "group16", "TileILi16E", (256, 512, 320), "--grid=1")
CLUSTER = rung("08_cluster_multicast", "2x1", "TileILi2ELi1E", (256, 256, 640), "--grid=2")
# Three tiles, so that boxes are used again; D's rows end with half a chunk.
EPILOGUE = rung("09_async_epilogue", "overlapped", "StoreE2E", (256, 764, 256), "--grid=2")
# Ten k tiles: a consumer's slots are laps behind the other's.
PINGPONG = rung("10_pingpong", "64x256", "TileILi1ELi256E", (256, 512, 640), "--grid=2")
# Two tiles of D^T side by side, each of 176 rows of D.
ON_ITS_SIDE = rung("10_pingpong", "128x176_side", "SidewaysILi176E", (352, 128, 128), "--grid=2")
# Consumers, blocks, columns, cluster_m, cluster_n. Its one CTA fills the grid, so it starts early.
AUTOTUNED = rung("11_autotuned", "128x256", "TileILi2ELi1ELi256ELi1ELi1E", (128, 256, 640),
                 "--grid=1")  # fmt: skip
# Of the cluster's four slices of A the last one lies outside of A's 140 rows, and is left out once the
# ring has come round.
LEAVES_OUT = rung("11_autotuned", "128x128_2x2", "4gemmINS_4TileILi2ELi1ELi128ELi2ELi2E",
                  (140, 256, 640), "--grid=4")  # fmt: skip
# Two products side by side in each block; its ring of three slots comes round.
SIDE_BY_SIDE = rung("11_autotuned", "192x208", "4gemmINS_4TileILi3ELi1ELi208E", (192, 208, 640),
                    "--grid=1")  # fmt: skip
# The same, of one cluster of eight; its ring of thirteen slots comes round.
EIGHT = rung("11_autotuned", "64x64_4x2", "TileILi1ELi1ELi64ELi4ELi2E", (256, 128, 1024))
# Consumers, blocks, columns, cluster_m, cluster_n, split, CTAs of an SM. Three clusters share two
# tiles of twelve k tiles, so that the middle one has a part of both; eight share one of 32, which
# takes a second kernel; and four CTAs of a cluster share a tile.
STREAM_K_TILE = "TileILi1ELi1ELi8ELi1ELi1ELi1ELi2E"
STREAM_K = rung("12_stream_k", "64x8_x2_all", "4gemmINS_4" + STREAM_K_TILE, (8, 128, 768),
                "--grid=3")  # fmt: skip
ADD_UP = rung("12_stream_k", "64x8_x2_cut", "6add_upINS_3CutINS_4" + STREAM_K_TILE, (8, 64, 2048),
              "--grid=8")  # fmt: skip
SPLIT_K = rung("12_stream_k", "64x8_x2_k4", "4gemmINS_4TileILi1ELi1ELi8ELi1ELi1ELi4ELi2E",
               (8, 64, 768))  # fmt: skip
# A cluster of four: two CTAs share the columns, two the rows.
BOTH_WAYS = rung("12_stream_k", "64x144_2x2_cut",
                 "4gemmINS_3CutINS_4TileILi1ELi1ELi144ELi2ELi2ELi1ELi1E", (288, 128, 640))  # fmt: skip
# Operands of bf16, both MN-major and in the 128-byte swizzle; and a D of fp32, which leaves in two
# parts.
MN_MAJOR = rung("13_layouts", "bf16_NT",
                "TileI13__nv_bfloat16S2_LN4tile5MajorE1ELS4_1ELi128ELi2ELi256ELi2E",
                (256, 256, 320), "--grid=2", "--layout=NT")  # fmt: skip
FP32_OUT = rung("13_layouts", "bf16_fp32_TN",
                "TileI13__nv_bfloat16fLN4tile5MajorE0ELS4_0ELi128ELi2ELi256ELi2E",
                (256, 764, 256), "--grid=2", "--type=bf16_fp32")  # fmt: skip
# Two tiles of five k tiles: the ring of four comes round in both, and the columns of each tile lie
# in two blocks of 128, of which the second begins with another group.
BLOCK_SCALED = rung("14_block_scaled", "e4m3_128x192", "e4m3ELb1ELi2ELi1ELi192E", (128, 384, 640),
                    "--grid=1")  # fmt: skip
IN_TURNS = rung("14_block_scaled", "s8_128x192", "TileIaLb1ELi2ELi1ELi192E", (128, 384, 640),
                "--grid=1", "--type=s8")  # fmt: skip
# 140 rows are two tiles of 80, 40 of each consumer.
EVEN_ROWS = rung("14_block_scaled", "e4m3_128x128", "e4m3ELb1ELi2ELi1ELi128E", (140, 256, 640),
                 "--grid=1")  # fmt: skip
# One CTA, which goes round its ring of packed weights.
MIXED = rung("15_mixed_input", "w4_64x8_s4", "TileILi4ELi1ELi8ELi1ELi4E", (8, 64, 4736),
             "--grid=1", "--bits=4")  # fmt: skip
# The four CTAs of one cluster, which take three tiles and share the K of each.
MIXED_SPLIT = rung("15_mixed_input", "w4_64x8_s4_k4", "TileILi4ELi1ELi8ELi4ELi4E", (8, 192, 4736),
                   "--grid=4", "--bits=4")  # fmt: skip
# Three groups of 32, 60 and 58 rows, in two CTAs: short groups leave half a tile to nobody, and
# scales begin at rows that are no multiples of four.
GROUPED = rung("16_grouped", "bf16_128x128", "TileI13__nv_bfloat16Li2ELi1ELi128E", (150, 256, 640),
               "--grid=2", "--groups=3", "--rows=unequal")  # fmt: skip
# One CTA, which comes from each group to the next and makes a map of D for it.
REPLACED = rung("16_grouped", "bf16_128x256_replace", "Li2ELi1ELi256ELb1E", (150, 256, 640),
                "--grid=1", "--groups=3", "--rows=unequal")  # fmt: skip
GROUPED_SCALED = rung("16_grouped", "e4m3_128x128", "e4m3ELi2ELi1ELi128E", (150, 256, 640),
                      "--grid=2", "--groups=3", "--rows=unequal", "--type=e4m3")  # fmt: skip
# Its one CTA has six tiles, so that boxes are used again, for D and then for C, those too that have the end
# of D's rows, half a chunk.
FUSED = rung("17_fused_epilogue", "none_128x256", "IdentityE13__nv_bfloat16Li2ELi1ELi256ELi1E",
             (256, 764, 256), "--grid=1", "--add=bias_c")  # fmt: skip
# 100 rows are two tiles of 50, in boxes that have room for 64; D's rows end with half a chunk.
TILES_OF_50 = rung(
    "17_fused_epilogue", "none_64x64",
    "4gemmINS_4TileIN5block8IdentityE13__nv_bfloat16Li1ELi1ELi64ELi1ELi1E", (100, 60, 128),
    "--grid=2")  # fmt: skip
BULK_STORE = Subject(
    "build/tests/kernels/bulk_store", "build/obj/tests/machine/kernels/bulk_store.ptx", "",
    "10store_rowsE", [], "bulk_store")
