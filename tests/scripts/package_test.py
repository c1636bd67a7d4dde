"""scripts/ as a package: who imports whom, and type hints; and files, there and in common/machine, that
can be read in one sitting."""

import ast
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
MOST_LINES = 600


def module_name(path):
    parts = path.relative_to(SCRIPTS).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TREES = {module_name(path): ast.parse(path.read_text(encoding="utf-8"))
         for path in sorted(SCRIPTS.rglob("*.py"))}  # fmt: skip


def imported(tree):
    """Modules of scripts/ that a module imports, at its top or in a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in TREES else node.module for name in inside]
        else:
            continue
        yield from (name for name in names if name in TREES)


def unhinted(tree):
    """"name: what lacks a hint" of each function."""
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        arguments += [one for one in (node.args.vararg, node.args.kwarg) if one]
        lacking = [a.arg for a in arguments if not a.annotation and a.arg not in ("self", "cls")]
        lacking += ["what it returns"] if node.returns is None else []
        if lacking:
            yield f"{node.name}: {', '.join(lacking)}"


class Package(unittest.TestCase):
    def test_there_is_something_to_look_at(self):
        self.assertGreater(len(TREES), 40)
        self.assertIn("lib.rows", list(imported(TREES["bench"])))

    def test_what_is_shared_imports_no_script(self):
        for name, tree in TREES.items():
            if name.startswith("lib"):
                others = [other for other in imported(tree) if not other.startswith("lib")]
                self.assertEqual(others, [], name)

    def test_no_import_leads_back(self):
        left = {name: set(imported(tree)) - {name} for name, tree in TREES.items()}
        while left:
            free = [name for name, needs in left.items() if not needs & left.keys()]
            self.assertTrue(free, f"a circle among {sorted(left)}")
            for name in free:
                del left[name]

    def test_every_function_has_type_hints(self):
        for name, tree in TREES.items():
            self.assertEqual(list(unhinted(tree)), [], name)

    def test_no_file_of_scripts_or_of_the_machine_is_too_long_to_read(self):
        machine = [p for p in (SCRIPTS.parent / "common/machine").rglob("*") if p.is_file()]
        self.assertGreater(len(machine), 100)
        for path in [*SCRIPTS.rglob("*.py"), *machine]:
            lines = len(path.read_text(encoding="utf-8").splitlines())
            self.assertLessEqual(lines, MOST_LINES, path.name)


if __name__ == "__main__":
    unittest.main()
