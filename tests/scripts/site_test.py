"""site_pages.py: which pages there are and in which order, what becomes of links, and that a link
that leads nowhere is found. Sphinx is not needed here."""

import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import check_docs  # noqa: E402
from lib.markdown import prose, slug  # noqa: E402
import site_pages  # noqa: E402

README = """# A project

[A rung](docs/01_a.md#the-idea), [its code](stages/01_a.cu), [a folder](common/),
[out](https://a.b/c.md), ![p](docs/img/p.svg)

```text
[not a link](docs/01_a.md)
```
"""
RUNG = """# 1. A

## The idea

[home](../README.md), [code](../stages/01_a.cu), [here](#the-idea), [data](results/x.json)
"""


class Source(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve() / "project"
        for name, text in {
            "README.md": README, "docs/01_a.md": RUNG, "docs/start.md": "# Start\n",
            "docs/new.md": "# New\n", "stages/01_a.cu": "int a;\n", "common/b.h": "// ```\nint b;\n", "common/b.bin": "",
            "docs/results/x.json": "{}", "docs/img/p.svg": "<svg/>",
        }.items():  # fmt: skip
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        site_pages.subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)
        self.out = self.root.parent / "source"

    def written(self, name):
        site_pages.write_source(self.root, self.out)
        return (self.out / name).read_text(encoding="utf-8")

    def test_links_between_pages_and_to_sources(self):
        index = self.written("index.md")
        self.assertIn("[A rung](docs/01_a.md#the-idea), [its code](source/stages/01_a.cu.md)", index)
        self.assertIn("[a folder](source/common/files.md),\n[out](https://a.b/c.md), ![p](", index)
        self.assertIn("```text\n[not a link](docs/01_a.md)\n```", index)
        self.assertIn("[home](../index.md), [code](../source/stages/01_a.cu.md), [here](#the-idea), "
                      "[data](results/x.json)", self.written("docs/01_a.md"))  # fmt: skip
        self.assertTrue((self.out / "docs/results/x.json").exists())

    def test_sources_have_pages(self):
        page = self.written("source/stages/01_a.cu.md")
        self.assertIn("```{code-block} cuda\n:linenos:\n\nint a;\n```", page)
        self.assertIn("````{code-block} cpp", self.written("source/common/b.h.md"))
        self.assertIn("- [b.h](b.h.md)\n", self.written("source/common/files.md"))
        self.assertNotIn("b.bin", self.written("source/common/files.md"))

    def test_every_page_is_in_the_contents_once_and_new_ones_come_last(self):
        parts = dict(site_pages.contents(site_pages.pages(self.root)))
        self.assertEqual(parts["Learn it"], ["docs/start"])
        self.assertEqual(parts["The ladder"], ["docs/01_a"])
        self.assertEqual(parts["More"], ["docs/new"])
        parts = site_pages.contents(site_pages.pages(ROOT))
        names = [name for _, here in parts for name in here]
        self.assertEqual(len(names), len(set(names)))
        there = {f"docs/{page.stem}" for page in (ROOT / "docs").glob("*.md")}
        self.assertEqual(there - set(names), set())

    def test_a_link_to_nothing_is_refused(self):
        (self.root / "README.md").write_text("[x](docs/none.md)\n")
        with self.assertRaises(site_pages.Problem) as caught:
            site_pages.write_source(self.root, self.out)
        self.assertEqual(str(caught.exception), "README.md: docs/none.md does not exist.")

    def test_anchors_are_those_that_the_checks_know(self):
        for path in sorted((ROOT / "docs").glob("*.md")):
            text = path.read_text(encoding="utf-8")
            heads = [line for _, line in prose(text) if line.startswith("#")]
            mine = {slug(line.lstrip("#")) for line in heads}
            self.assertEqual(mine, check_docs.slugs(text))


class Site(unittest.TestCase):
    def test_dead_links_and_what_comes_from_elsewhere(self):
        with tempfile.TemporaryDirectory() as folder:
            site = Path(folder).resolve()
            a = '<a id="x" href="#x"><a href="b.html#y"><a href="https://c.d">'
            (site / "a.html").write_text(a)
            (site / "b.html").write_text('<p id="y"><a href="a.html#z"><img src="none.svg">')
            dead = ["b.html: a.html#z", "b.html: none.svg"]
            self.assertEqual(list(site_pages.dead_links(site)), dead)
            self.assertEqual(list(site_pages.foreign(site)), [])
            (site / "b.html").write_text('<script src="https://c.d/e.js"></script>')
            there = ['b.html: src="https://c.d/e.js"']
            self.assertEqual(list(site_pages.foreign(site)), there)


if __name__ == "__main__":
    unittest.main()
