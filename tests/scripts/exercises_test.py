"""exercises.py: how a page is read, what a change must be to be applied, when a text counts as
printed, and that an answer that is wrong in any way fails."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import exercises  # noqa: E402

PAGE = """# A page

## Break it

1. *(no GPU)* Say two.

   <details><summary>Answer</summary>

   ```diff
   --- stages/file
    one
   -zwei
   +two
   ```
   ```sh
   cat stages/file
   ```
   ```text
   one two … four
   ```
   </details>
2. *(GPU)* How fast?

   <details><summary>Answer</summary>

   ```sh
   make stage-1
   ```
   Very.
   </details>

Broken already.

1. Not an exercise.

## How others do it
"""
FILE = "one\nzwei\nthree\nfour\n"


class Pages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name, "tree")
        for name in ("common", "stages", "scripts", "tests", "docs", "build"):
            (self.root / name).mkdir(parents=True)
        (self.root / "Makefile").write_text("")
        (self.root / "stages/file").write_text(FILE)

    def exercises(self, page=PAGE):
        path = self.root / "docs/05_x.md"
        path.write_text(page, encoding="utf-8")
        return exercises.of_page(path)

    def outcome(self, page=PAGE):
        return exercises.try_exercise(self.exercises(page)[0], self.root, self.root.parent)

    def test_a_page_has_the_exercises_of_its_section(self):
        found = self.exercises()
        self.assertEqual([(e.name, e.gpu) for e in found], [("5.1", False), ("5.2", True)])
        self.assertEqual([kind for kind, _, _ in found[0].steps()], ["diff", "run"])
        self.assertEqual(found[1].steps(), [])  # nothing says what it prints
        self.assertEqual([list(e.form()) for e in found], [[], []])

    def test_more_exercises_are_of_the_rung_of_their_section(self):
        path = self.root / "docs/more_exercises.md"
        items = PAGE.split("## Break it\n")[1].split("Broken already")[0]
        path.write_text(f"# More\n\n## Rung 5\n{items}\n## Rung 7\n{items.replace('1. ', '4. ', 1)}")
        found = exercises.of_page(path)
        self.assertEqual([e.name for e in found], ["5.1", "5.2", "7.4", "7.2"])
        self.assertEqual([len(e.steps()) for e in found], [2, 0, 2, 0])

    def test_a_right_answer_passes_and_leaves_the_tree_as_it_was(self):
        self.assertIsNone(self.outcome())
        self.assertEqual((self.root / "stages/file").read_text(), FILE)
        self.assertFalse((self.root.parent / "5.1").exists())

    def test_a_wrong_answer_fails(self):
        for old, new, why in (
            ("one two … four", "one two … five", "does not print"),
            ("one two … four", "four … one", "does not print"),
            ("one two … four", "…", "is empty"),
            ("-zwei", "-drei", "has 0 places"),
            ("+two", "+zwei", "has 1 places"),  # changes nothing
            ("--- stages/file", "--- stages/other", "does not exist"),
            ("   +two", "   two", "no line of a diff"),
        ):
            self.assertIn(why, self.outcome(PAGE.replace(old, new)) or "", (old, new))

    def test_a_place_must_be_the_only_one(self):
        (self.root / "stages/file").write_text(FILE + FILE)
        self.assertIn("has 2 places", self.outcome())

    def test_a_change_of_two_files(self):
        (self.root / "stages/other").write_text("eins\n")
        exercises.apply(["--- stages/file", "-zwei", "+two", "--- stages/other", "-eins", "+one"], self.root)
        self.assertEqual((self.root / "stages/file").read_text(), FILE.replace("zwei", "two"))
        self.assertEqual((self.root / "stages/other").read_text(), "one\n")

    def test_every_exercise_has_a_mark_and_an_answer(self):
        for old, new, why in (
            ("*(no GPU)* ", "", "begins with neither"),
            ("</details>\n2.", "2.", "no folded answer"),
            ("```text", "```", "is for a machine without a GPU, but"),
            ("   <details><summary>Answer</summary>\n\n   ```diff", "   ```diff", "folded"),
        ):
            page = PAGE.replace(old, new, 1)
            self.assertIn(why, "; ".join(self.exercises(page)[0].form()), old)

    def test_white_space_counts_once(self):
        self.assertTrue(exercises.says("a\n  b   c\n", ["a b", "c"]))
        self.assertFalse(exercises.says("a\n  b   c\n", ["ab c"]))

    def test_a_guide_has_the_examples_that_say_what_is_printed(self):
        path = self.root / "docs/guide.md"
        fences = ["```diff", "--- stages/file", "-zwei", "+two", "```", "```sh", "cat stages/file", "```"]
        path.write_text("\n".join([
            "# A guide", "```sh", "make stage-1", "```", "Not said what it prints.",
            "```text", "no command", "```", *fences, "```text", "one two", "```",
            *fences[5:], "", "```text", "one zwei", "```",
            "```diff", "--- stages/file", "-zwei", "+drei", "```", "Not tried.", *fences[5:],
            "```text", "one two", "```",
        ]))  # fmt: skip
        found = exercises.examples(path)
        self.assertEqual([e.name for e in found], ["guide.1", "guide.2", "guide.3"])
        self.assertEqual([[kind for kind, _, _ in e.steps()] for e in found],
                         [["diff", "run"], ["run"], ["run"]])  # fmt: skip
        outcomes = [exercises.try_exercise(e, self.root, self.root.parent) for e in found]
        self.assertEqual(outcomes[:2], [None, None])
        self.assertIn("does not print", outcomes[2])

    def test_a_wrong_name_is_answered_with_those_of_its_page(self):
        known = ["1.1", "5.1", "5.2", "m.1", "5.10"]
        self.assertEqual(exercises.near("5.9", known), "of 5 there are 5.1, 5.2, 5.10")
        self.assertEqual(exercises.near("99.1", known), "there are some of 1, 5, m, such as 1.1")

    def test_options_that_contradict_each_other_or_name_nothing_are_refused(self):
        for given, why in ((["--list", "--show=5.1"], "--show: not allowed with argument --list"),
                           (["--show="], "There is no exercise ''; there are ")):  # fmt: skip
            err = io.StringIO()
            with contextlib.redirect_stderr(err):
                try:
                    code = exercises.main(given)
                except SystemExit as ended:
                    code = ended.code
            self.assertEqual(code, 2)
            self.assertIn(why, err.getvalue())

    def test_the_pages_of_every_rung_have_exercises(self):
        pages = {exercise.page for exercise in exercises.all_exercises()}
        stems = {path.stem for path in (ROOT / "stages").glob("[0-9]*_*.cu")}
        self.assertEqual({f"{stem}.md" for stem in stems} - pages, set())


if __name__ == "__main__":
    unittest.main()
