"""What a stage file may contain, how long it may be, and how much a rung may change."""

import glob
import os
import re
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "scripts"))
from diff import COMMENT, STRING, Change, before, read  # noqa: E402

FILE_LINES, KERNEL_LINES, CHANGED_LINES, COLUMNS = 260, 120, 150, 100
LATE, LATE_FILE_LINES, LATE_KERNEL_LINES = 13, 300, 140  # of rungs from 13 on
# A page with the first section explains a longer diff, one with the second a longer file, up to
# these many lines.
LONG_DIFF, LONG_FILE = "Why the diff is long", "Why the file is long"
LONG_FILE_LINES, LONG_KERNEL_LINES = 480, 200

FORBIDDEN = {
    r"\bmain\s*\(": "main",
    r"\bs?n?printf\b|\bstd::c(out|err)\b": "printing",
    r"^\s*#\s*(if|ifdef|ifndef|elif|else)\b": "conditional compilation",
    r"^\s*#\s*define\b": "a macro",
    r"\basm\b": "PTX outside common/ptx",
    r"\b__sync(threads|warp)\w*|\b__(shfl|ldg|pipeline)\w*": "an intrinsic in place of PTX",
    r"\bn?v?cuda::(ptx|pipeline|barrier|wmma)|\bwmma\b": "a library in place of PTX",
    r"\bcooperative_groups\b|\bcute\b|\bcutlass\b|<(cub|thrust|cuda)/": "a library",
    r"\bcuda(Malloc|Free|Memcpy|Memset|Event|DeviceSynchronize|StreamSynchronize)\w*": "harness work",
    r"\bcublas\w*|\bcurand\w*|\brand\b|\bchrono\b": "harness work",
    r"\b(132|227|232448)\b": "a number of one GPU without a name",
    r"1\s*(ull|ULL)?\s*<<\s*62": "a descriptor bit without a name",
    r"\b(stage|rung)_?\d": "a rung number in an identifier",
    r"\b(TODO|FIXME|XXX)\b": "something unfinished",
    r"\bnamespace\s*\{": "an anonymous namespace, which puts a path hash into kernel names",
}
KERNEL = re.compile(r"^(?:template[^\n]*\n)?[^\n]*__global__.*?^\}", re.MULTILINE | re.DOTALL)


def code(text):
    """Text without comments and strings, line numbers kept."""
    return STRING.sub('""', COMMENT.sub(lambda c: "\n" * c.group().count("\n"), text))


def kernels(text):
    """Source of every __global__ function: head to closing brace."""
    return [found.group() for found in KERNEL.finditer(text)]


def violations(text):
    """A sentence for everything in a stage file that does not belong there."""
    for number, line in enumerate(code(text).splitlines(), 1):
        for pattern, what in FORBIDDEN.items():
            if re.search(pattern, line):
                yield f"line {number}: {what}: {line.strip()}"


def has_section(page, heading):
    """Whether a page's text has that heading, with something below it."""
    return re.search(rf"^## {heading}\n\n(?!#)\S", page, re.MULTILINE) is not None


def page_of(path):
    """Text of the page of a stage file; empty without one."""
    page = os.path.join(ROOT, "docs", os.path.splitext(os.path.basename(path))[0] + ".md")
    return read(page) if os.path.exists(page) else ""


def allowed_lines(page, path):
    """(of the file, of a kernel) for a stage file with that page."""
    if has_section(page, LONG_FILE):
        return LONG_FILE_LINES, LONG_KERNEL_LINES
    late = int(os.path.basename(path).split("_")[0]) >= LATE
    return (LATE_FILE_LINES, LATE_KERNEL_LINES) if late else (FILE_LINES, KERNEL_LINES)


class Stages(unittest.TestCase):
    def files(self):
        found = sorted(glob.glob(os.path.join(ROOT, "stages", "*.cu")))
        self.assertTrue(found)
        return [(os.path.relpath(path), read(path)) for path in found]

    def test_nothing_that_belongs_elsewhere(self):
        blocks = glob.glob(os.path.join(ROOT, "common", "block", "*"))
        for path, text in self.files() + [(path, read(path)) for path in blocks]:
            self.assertEqual(list(violations(text)), [], path)

    def test_length(self):
        for path, text in self.files():
            lines = text.splitlines()
            self.assertLessEqual(
                len(lines), allowed_lines(page_of(path), path)[0],
                f'{path}: explain it under "{LONG_FILE}" in its page')  # fmt: skip
            self.assertLessEqual(max(map(len, lines)), COLUMNS, path)

    def test_kernels_are_short_few_and_bounded(self):
        for path, text in self.files():
            found = kernels(text)
            self.assertIn(len(found), (1, 2), path)
            self.assertEqual(len(found), code(text).count("__global__"), path)
            for kernel in found:
                self.assertLessEqual(
                    len(kernel.splitlines()), allowed_lines(page_of(path), path)[1],
                    f'{path}: explain it under "{LONG_FILE}" in its page')  # fmt: skip
                self.assertIn("__launch_bounds__", kernel, path)

    def test_header_names_the_page(self):
        for path, text in self.files():
            stem = os.path.splitext(os.path.basename(path))[0]
            header = re.match(r"(//[^\n]*\n)+", text)
            self.assertIsNotNone(header, f"{path} must open with a comment")
            self.assertIn(f"docs/{stem}.md", header.group(), path)

    def test_changes_are_few_or_explained(self):
        for path, _ in self.files():
            old = before(path)
            if old is None:
                continue
            _, _, changed = Change(old, path, ROOT).lines()
            if not has_section(page_of(path), LONG_DIFF):
                self.assertLessEqual(
                    changed, CHANGED_LINES, f'{path}: explain it under "{LONG_DIFF}" in its page')

    def test_the_rules_see_what_they_should(self):
        for line in (
            "int main() {", 'printf("x");', "#ifdef FAST", "__syncthreads();", "using namespace cute;",
            "nvcuda::wmma::fragment<> f;", "int sms = 132;", "cudaMalloc(&p, 4);", "int stage_5 = 0;",
            'asm volatile("bar.sync 0;");', "namespace {", "#define N 4", "1ull << 62",
        ):  # fmt: skip
            self.assertEqual(len(list(violations(line))), 1, line)
        for line in (
            "ptx::wgmma_fence();", "// printf in a comment", 'check(status, "main ( 132");',
            "int main_loop = 1320;", "int slot = stage.slot;",
        ):  # fmt: skip
            self.assertEqual(list(violations(line)), [], line)
        explained = f"# 9\n\n## {LONG_FILE}\n\nA third role.\n\n## Measured\n"
        self.assertEqual(allowed_lines(explained, "stages/09_x.cu"), (LONG_FILE_LINES, LONG_KERNEL_LINES))
        for page in (
            "", explained.replace("## Why", "Why"), explained.replace("A third role.\n\n", ""),
            explained.replace(LONG_FILE, LONG_DIFF),
        ):  # fmt: skip
            self.assertEqual(allowed_lines(page, "stages/12_x.cu"), (FILE_LINES, KERNEL_LINES), page)
        self.assertEqual(allowed_lines("", "stages/13_x.cu"), (LATE_FILE_LINES, LATE_KERNEL_LINES))
        two = "__global__ void f() {\n  g();\n}\ntemplate <int N>\n__global__ void g() {\n}\n"
        self.assertEqual([len(k.splitlines()) for k in kernels(two)], [3, 3])


if __name__ == "__main__":
    unittest.main()
