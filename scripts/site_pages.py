#!/usr/bin/env python3
"""Makes static HTML of README.md, CONTRIBUTING.md and docs/*.md, with Sphinx.

    site_pages.py --sphinx PYTHON OUTPUT    PYTHON has Sphinx, MyST and Furo, by make site

Markdown goes as it is but for its links: those to sources become pages with numbered, highlighted
lines. Every link of the result is then followed, so that a page that is built is a page that works.
Opens from the disk, without a server. Python standard library only; Sphinx runs in its own process.
"""

from __future__ import annotations

import html.parser
import re
import shutil
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from lib.cli import ROOT, Problem, command, parser_of
from lib.markdown import LINK, files, numbered

LANGUAGES = {
    ".cu": "cuda", ".cuh": "cuda", ".cpp": "cpp", ".h": "cpp", ".c": "c", ".py": "python", ".mk": "make",
}  # fmt: skip
LISTED = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")

# The order of the pages. A rung is found by its number, and what is not named here comes last.
PARTS = (
    ("Learn it", "start asynchrony mbarrier tensor_maps descriptors explore registers pipelines scheduling "
                 "debugging misconceptions blackwell"),
    ("The ladder", "RUNGS"),
    ("Beside the ladder", "more_exercises cost_model more_tiles tile_tables layout_tiles fused_tiles "
                          "sharing_k sums blocks"),
    ("Measured", "results traces limits energy hopper_numbers measuring"),
    ("The PTX machine", "machine machine_ci failures isa"),
    ("Look it up", "your_program serving building ptxas glossary"),
)  # fmt: skip
LAST = "More"
UNLISTED = "---\norphan: true\nnosearch: true\n---\n\n"  # how a page of a source begins

CONF = '''project = "A ladder of Hopper GEMM kernels"
html_title = project
extensions = ["myst_parser"]
myst_heading_anchors = 4
myst_heading_slug_func = "lib.markdown.slug"
html_theme = "furo"
html_show_sphinx = html_show_copyright = html_copy_source = False
pygments_style, pygments_dark_style = "friendly", "github-dark"
html_css_files = ["site.css"]
html_static_path = ["_static"]
suppress_warnings = ["misc.highlighting_failure"]  # a fence that leaves something out is no C++
'''
CSS = """.content { width: 50em; }
article table { font-size: 0.82rem; }
article table td, article table th { white-space: normal; min-width: 4rem; }
article pre { font-size: 0.8rem; line-height: 1.35; }
article img { background: transparent; }
.highlight .err { border: none; background: none; color: inherit; }
details { border-left: 0.2rem solid var(--color-background-border); padding-left: 0.8rem; }
summary { cursor: pointer; font-weight: 600; }
"""


# --- what Sphinx reads ---------------------------------------------------------------------------


def pages(root: Path) -> dict[Path, Path]:
    """{path in the site: path in the project} of the Markdown."""
    found = {path.relative_to(root): path for path in files(root)}
    golden = sorted((root / "tests/golden").glob("*.md"))
    found.update((path.relative_to(root), path) for path in golden)
    readme = found.pop(Path("README.md"), None)
    return {Path("index.md"): readme, **found} if readme else found


def site_path(root: Path, known: dict[Path, Path], path: Path) -> Path:
    """The page of the site that stands for a file of the project, or for a folder."""
    by_path = {value: key for key, value in known.items()}
    if path in by_path:
        return by_path[path]
    if path.is_dir() and path / "README.md" in by_path:
        return by_path[path / "README.md"]
    name = path.relative_to(root)
    return Path("source", name, "files.md") if path.is_dir() else Path("source", f"{name}.md")


def is_shown(path: Path) -> bool:
    return path.suffix in LANGUAGES or path.name in ("LICENSE", "Makefile") or path.suffix == ".txt"


def rewritten(root: Path, known: dict[Path, Path], to: Path, path: Path, linked: set[Path]) -> str:
    """The Markdown of a page with links that hold in the site. linked: gets what needs a page."""

    def replace(match: re.Match[str]) -> str:
        label, target = match.groups()
        name, _, anchor = target.partition("#")
        found = (path.parent / name).resolve()
        inside = root in found.parents or found == root
        if label.startswith("!") or re.match(r"[a-z]+:|#", target) or not inside:
            return match.group(0)
        if not found.exists():
            raise Problem(f"{path.relative_to(root)}: {target} does not exist.")
        page = site_path(root, known, found)
        if page.parts[0] == "source":
            if not (found.is_dir() or is_shown(found)):
                return match.group(0)  # a file to be had as it is
            linked.add(found)
        up = Path(*[".."] * len(to.parent.parts))
        return f"{label}({(up / page).as_posix()}{'#' + anchor if anchor else ''})"

    read = numbered(path.read_text(encoding="utf-8"))
    return "\n".join(line if fenced else LINK.sub(replace, line) for _, line, fenced in read)


def source_page(root: Path, path: Path) -> str:
    language = LANGUAGES.get(path.suffix, "text")
    text = path.read_text(encoding="utf-8").rstrip("\n")
    ticks = "`" * (max([3] + [len(run) + 1 for run in re.findall("`{3,}", text)]))
    code = f"{ticks}{{code-block}} {language}\n:linenos:\n\n{text}\n{ticks}\n"
    return f"{UNLISTED}# {path.relative_to(root)}\n\n{code}"


def files_page(root: Path, folder: Path) -> tuple[str, list[Path]]:
    """The page of a folder, and its files that the project has and that are shown."""
    listed = subprocess.run([*LISTED, folder], cwd=root, capture_output=True, text=True)
    names = sorted(root / name for name in listed.stdout.split("\0") if name)
    shown = [path for path in names if is_shown(path) and path.is_file()]
    lines = [f"- [{path.name}]({path.relative_to(folder).as_posix()}.md)\n" for path in shown]
    return f"{UNLISTED}# {folder.relative_to(root)}\n\n" + ("".join(lines) or "\n"), shown


def contents(known: dict[Path, Path]) -> list[tuple[str, list[str]]]:
    """[(title, [page without .md])] of docs/, in the order of PARTS."""
    stems = [to.stem for to in known if to.parts[0] == "docs"]
    rungs = [stem for stem in stems if re.match(r"\d\d_", stem)]
    left, found = [stem for stem in stems if stem not in rungs], []
    for title, names in PARTS:
        here = rungs if names == "RUNGS" else [name for name in names.split() if name in left]
        left = [name for name in left if name not in here]
        found.append((title, [f"docs/{stem}" for stem in here]))
    golden = [to.with_suffix("").as_posix() for to in known if to.parts[0] == "tests"]
    contributing = [name for name in ("CONTRIBUTING",) if Path(f"{name}.md") in known]
    found.append((LAST, [f"docs/{stem}" for stem in left] + contributing + golden))
    return [(title, names) for title, names in found if names]


def trees(known: dict[Path, Path]) -> str:
    """The table of contents, as Sphinx wants it at the end of the first page."""
    lines: list[str] = []
    for title, names in contents(known):
        lines += ["", "```{toctree}", ":hidden:", f":caption: {title}", "", *names, "```"]
    return "\n".join(lines) + "\n"


def write_source(root: Path, folder: Path) -> None:
    known = pages(root)
    linked: set[Path] = set()
    shutil.rmtree(folder, ignore_errors=True)

    def write(to: Path | str, text: str) -> None:
        (folder / to).parent.mkdir(parents=True, exist_ok=True)
        (folder / to).write_text(text, encoding="utf-8")

    for to, path in known.items():
        text = rewritten(root, known, to, path, linked)
        write(to, text + (trees(known) if to == Path("index.md") else ""))
    for path in sorted(linked):
        if path.is_dir():
            text, shown = files_page(root, path)
            write(site_path(root, known, path), text)
            linked = linked | set(shown)
    for path in sorted(path for path in linked if path.is_file()):
        write(site_path(root, known, path), source_page(root, path))
    for name in ("img", "results"):
        if (root / "docs" / name).is_dir():
            shutil.copytree(root / "docs" / name, folder / "docs" / name)
    write("conf.py", f"import sys\nsys.path.insert(0, {str(ROOT / 'scripts')!r})\n{CONF}")
    write("_static/site.css", CSS)


# --- what came out -------------------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id" and value:
                self.ids.add(value)
            if name in ("href", "src") and value:
                self.links.append(value)


def dead_links(site: Path) -> Iterator[str]:
    """"page: link" for each link inside of the site that leads nowhere."""
    read = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in read.items():
        for link in dict.fromkeys(page.links):
            url = urllib.parse.urlsplit(link)
            if url.scheme or url.netloc:
                continue
            found = path
            if url.path:
                found = (path.parent / urllib.parse.unquote(url.path)).resolve()
            at = urllib.parse.unquote(url.fragment)
            if not found.exists() or found in read and at not in read[found].ids:
                yield f"{path.relative_to(site)}: {link}"


def foreign(site: Path) -> Iterator[str]:
    """What a page would fetch from elsewhere."""
    for path in sorted(site.rglob("*.html")):
        text = path.read_text(encoding="utf-8")
        for tag in re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", text):
            found = re.search(r"(?:src|href)=\"(?:https?:)?//[^\"]*\"", tag)
            if found:
                yield f"{path.relative_to(site)}: {found.group()}"


@command("site")
def main() -> int:
    parser = parser_of("README and docs as static HTML.")
    parser.add_argument("--sphinx", type=Path, metavar="PYTHON", required=True)
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    site = options.output
    source = site.parent / f"{site.name}-source"
    write_source(ROOT, source)
    shutil.rmtree(site, ignore_errors=True)
    words = [options.sphinx, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going", "-j", "2",
               "-d", source / ".doctrees", source, site]  # fmt: skip
    if subprocess.run([str(word) for word in words]).returncode:
        raise Problem("Sphinx takes something else than it was given: the lines above say what.")
    wrong = list(dead_links(site.resolve())) + list(foreign(site))
    if wrong:
        raise Problem("links of the site that lead nowhere, or out of it:\n  " + "\n  ".join(wrong))
    count = sum(1 for _ in site.rglob("*.html"))
    print(f"site: {count} pages, open {site / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
