"""common/block: what rungs 5 to 8 introduced stands there as it stands in their files; what later
rungs introduced stands nowhere else, and whole on the page of the rung that introduced it."""

import glob
import os
import re
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "scripts"))
from check_docs import FROM  # noqa: E402
from diff import INCLUDE, block_headers, parts, read, squeezed  # noqa: E402
from lib.markdown import marked  # noqa: E402

LAST_WHOLE = 8  # rungs up to this one have every function in their own file
INTRODUCED = re.compile(r"^// Introduced by (stages/(\d+)_\w+\.cu)$", re.MULTILINE)
ALLOWED = re.compile(r"common/(ptx|tile|block)/|(cstdint|type_traits)$")


def stages(root):
    """{number: path} of the rungs' files."""
    paths = glob.glob(os.path.join(root, "stages", "[0-9]*_*.cu"))
    return {int(os.path.basename(path).split("_")[0]): path for path in sorted(paths)}


def quoted(page, header, text):
    """Whether an excerpt of a page is all of a function; the comment above it may be left out."""

    def code_of(source):
        return [line for line in squeezed(source) if not line.startswith("//")]

    code = code_of(text)
    for _, file, body in marked(page, FROM):
        lines = code_of("\n".join(body or []))
        if file == header and lines[-len(code) :] == code:
            return True
    return False


def problems(root=ROOT):
    """A sentence for everything that is wrong with the headers of common/block."""
    rungs = stages(root)
    texts = {number: parts(read(path)) for number, path in rungs.items()}
    for path in sorted(glob.glob(os.path.join(root, "common", "block", "*"))):
        header = "common/block/" + os.path.basename(path)
        said = INTRODUCED.findall(read(path))
        if len(said) != 1 or not os.path.exists(os.path.join(root, said[0][0])):
            yield f"{header} does not say which rung introduced it"
            continue
        stage, first = said[0][0], int(said[0][1])
        for name in INCLUDE.findall(read(path)):
            if not ALLOWED.match(name):
                yield f"{header} includes {name}"
        functions = parts(read(path))
        if not functions:
            yield f"{header} has no function"
        for name, text in functions.items():
            for number, own in texts.items():
                same = squeezed(own.get(name, "")) == squeezed(text)
                if first <= number <= LAST_WHOLE and not same:
                    yield f"{header}: {name} is not that of rung {number}"
                if number < first and same:
                    yield f"{header}: {name} stands in rung {number}, not first in {stage}"
                if number > LAST_WHOLE and same:
                    yield f"{header}: rung {number} has a copy of {name}"
            if first > LAST_WHOLE:
                pages = glob.glob(os.path.join(root, "docs", "*.md"))
                if not any(quoted(read(page), header, text) for page in pages):
                    yield f"{header}: no page quotes {name} whole"
        users = [number for number in rungs if header in block_headers(rungs[number])]
        if users and min(users) <= LAST_WHOLE:
            yield f"{header}: rung {min(users)} includes it, but is a whole file"
        if not users or (first > LAST_WHOLE and min(users) != first):
            yield f"{header}: {stage} does not include it first"


class Blocks(unittest.TestCase):
    def test_each_is_where_it_belongs(self):
        self.assertTrue(glob.glob(os.path.join(ROOT, "common", "block", "*.cuh")))
        self.assertEqual(list(problems()), [])

    def test_a_token_makes_a_difference_and_white_space_does_not(self):
        text = read(os.path.join(ROOT, "common", "block", "multiply_tile.cuh"))
        function = parts(text)["multiply_tile"]
        self.assertEqual(squeezed(function), squeezed(function.replace("  ptx", "\t ptx")))
        for old, new in (("kk > 0", "kk > 1"), ("const ", ""), ("// Starts", "// Begins"),
                         ("#pragma unroll\n", ""), ("wgmma_fence", "wgmma_fence_")):  # fmt: skip
            self.assertIn(old, function)
            self.assertNotEqual(squeezed(function), squeezed(function.replace(old, new, 1)))

    def test_a_quote_must_be_whole(self):
        header, text = "common/block/f.cuh", "// F.\ntemplate <int N>\n__device__ void f() {\n  g();\n}\n"
        page = f"<!-- from {header} -->\n```cpp\n{text}```\n"
        self.assertTrue(quoted(page, header, text))
        self.assertTrue(quoted(page.replace("// F.\n", ""), header, text))
        self.assertFalse(quoted(page.replace("  g();\n", "…\n"), header, text))
        self.assertFalse(quoted(page, "common/block/g.cuh", text))


if __name__ == "__main__":
    unittest.main()
