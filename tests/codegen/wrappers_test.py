"""common/ptx: what orders or writes memory is asm volatile with a "memory" clobber."""

import glob
import os
import re
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "scripts"))
from diff import COMMENT, STRING, read  # noqa: E402

STATEMENT = re.compile(r"\basm\b(\s+volatile)?\s*\(")
# Mnemonics, by prefix, of copies, fences, barriers, waits and stores.
ORDERING = (
    "cp.", "fence.", "membar.", "bar.", "barrier.", "mbarrier.", "st.", "stmatrix.", "red.", "atom.",
    "wgmma.", "setmaxnreg.", "prefetch.", "griddepcontrol.", "nanosleep.", "tensormap.",
)  # fmt: skip
# Arithmetic and moves between registers, which the compiler may reorder and drop.
PLAIN = ("fma.", "mul.", "add.", "cvt.", "cvta.", "mov.", "mapa.", "mma.", "selp.")
# ld.global.nc may be either: one that must stay behind griddepcontrol.wait is as what orders.
EITHER = "ld.global.nc."


def statements(text):
    """(is volatile, whole statement) of every asm statement."""
    text = COMMENT.sub("", text)
    for head in STATEMENT.finditer(text):
        depth, i, quoted = 1, head.end(), False
        while depth:
            if text[i] == '"' and text[i - 1] != "\\":
                quoted = not quoted
            if not quoted:
                depth += {"(": 1, ")": -1}.get(text[i], 0)
            i += 1
        yield bool(head.group(1)), text[head.start() : i]


def problems(text):
    """A sentence for each statement that breaks the rule."""
    for volatile, statement in statements(text):
        template = "".join(STRING.findall(statement)).replace("\\n", " ")
        words = re.findall(r"[a-z]\w*(?:\.\w+(?:::\w+)*)+", template)
        if any(word.startswith(ORDERING) for word in words):
            if not volatile or '"memory"' not in statement:
                yield f"needs volatile and a memory clobber: {words[0]}"
        elif words and all(word.startswith(PLAIN) for word in words) and volatile:
            yield f"arithmetic needs no volatile: {words[0]}"
        elif any(word.startswith(EITHER) for word in words):
            if volatile != ('"memory"' in statement):
                yield f"needs volatile and a memory clobber, or neither: {words[0]}"


class Wrappers(unittest.TestCase):
    def test_every_wrapper_keeps_the_rule(self):
        seen = 0
        for path in self.files("ptx", "*.cuh"):
            seen += len(list(statements(read(path))))
            self.assertEqual(list(problems(read(path))), [], path)
        self.assertGreater(seen, 20)

    def test_the_rule_sees_what_it_should(self):
        good = 'asm volatile("bar.sync 0;" ::: "memory");'
        self.assertEqual(list(problems(good)), [])
        self.assertEqual(len(list(problems('asm volatile("bar.sync 0;");'))), 1)
        self.assertEqual(len(list(problems('asm("st.shared.b16 [%0], %1;" ::"r"(f(a)) : "memory");'))), 1)
        hidden = 'asm("{ .reg .pred p;\\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; }");'
        self.assertEqual(len(list(problems(hidden))), 1)
        self.assertEqual(len(list(problems('asm volatile("fma.rn.f32 %0, %1, %2, %3;");'))), 1)
        for volatile, clobber, count in (("", "", 0), (" volatile", ' : "memory"', 0), (" volatile", "", 1)):
            load = f'asm{volatile}("ld.global.nc.f32 %0, [%1];" : "=f"(x) : "l"(y){clobber});'
            self.assertEqual(len(list(problems(load))), count, load)
        self.assertEqual(list(problems('asm("cvt.f32.bf16 %0, %1;" : "=f"(x) : "h"(y));')), [])

    def files(self, *pattern):
        found = sorted(glob.glob(os.path.join(ROOT, "common", *pattern)))
        self.assertTrue(found)
        return found

    def test_ptx_headers_include_only_cuda_and_each_other(self):
        for path in self.files("ptx", "*.cuh"):
            for name in re.findall(r'#include\s+["<]([^">]+)', read(path)):
                allowed = name.startswith("common/ptx/") or name in (
                    "cstdint", "cuda.h", "cuda_bf16.h", "cuda_fp8.h")  # fmt: skip
                self.assertTrue(allowed, f"{path} includes {name}")

    def test_tile_headers_need_no_cuda(self):
        for path in self.files("tile", "*.h"):
            text = COMMENT.sub("", read(path))
            self.assertNotRegex(text, r"__device__|__host__|<cuda|common/ptx|common/host", path)


if __name__ == "__main__":
    unittest.main()
