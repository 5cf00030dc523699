"""The site that ``make docs`` builds: whole, of this machine alone, fit to be read."""

import fcntl
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.support.browser import NARROW, WIDE, visit

ROOT = Path(__file__).parents[2]
LOOKED_AT = {
    WIDE: ["docs/index", "docs/causes", "source/supervisor/core/lifecycle/table.py"],
    NARROW: ["docs/crashes", "source/deploy/runbooks"],
}
WRONG = {
    "[a page](gone.md)": "gone.md",
    "[a heading](index.md#two)": "two",
    "[a heading of this page](#three)": "three",
    "[a file](../gone.toml)": "gone.toml",
    '<a href="page.html#four">in HTML</a>': "links to page.html#four",
    "![a picture](https://example.org/a.png)": "loads https://example.org/a.png",
    '<script src="//example.org/a.js"></script>': "loads //example.org/a.js",
    "<style>@import 'https://example.org/a.css'</style>": "loads https://example.org/a",
}


def built(source: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """As ``make docs`` does."""
    if importlib.util.find_spec("sphinx") is None:
        if os.environ.get("CI"):
            pytest.fail("Sphinx is not installed; make lint installs it")
        pytest.skip("Sphinx is not installed; make docs installs it")
    return subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-E",
         "-c", ROOT / "docs" / "site", "-d", site.with_name("doctrees"),
         "-b", "html", source, site],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this repository: built once for all processes that test beside each
    other, by whoever comes first."""
    place = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent
    place /= "documentation"
    place.mkdir(exist_ok=True)
    ready = place / "ready"
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            told = built(ROOT, place / "site")
            assert told.returncode == 0, told.stderr
            ready.touch()
    return place / "site"


def test_every_page_is_in_it(site: Path) -> None:
    """Those of docs/ and deploy/, each with the way to every other; and the index leads
    to the files that pages link to."""
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("deploy/**/*.md")]
    for page in pages:
        text = (site / page.relative_to(ROOT).with_suffix(".html")).read_text()
        assert "Causes and remedies" in text
    assert "docs/index.html" in (site / "index.html").read_text()
    spec = (site / "source/deploy/systemd/example.toml.html").read_text()
    assert "every key of a spec" in (site / "README.html").read_text()
    assert "snapshots" in spec


def test_what_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    """A page, a heading or a file that is not there; whatever a browser would ask another
    machine for. Each is told."""
    docs = tmp_path / "source" / "docs"
    docs.mkdir(parents=True)
    (docs / "index.md").write_text("# Pages\n\n## One\n\n[a page](page.md)\n")
    (docs / "page.md").write_text("# Page\n\n[the pages](index.md#one)\n")
    whole = built(tmp_path / "source", tmp_path / "site")
    assert (whole.returncode, whole.stderr) == (0, "")
    (docs / "page.md").write_text("\n\n".join(["# Page", *WRONG]))
    told = built(tmp_path / "source", tmp_path / "site")
    assert told.returncode != 0
    assert [text for text in WRONG.values() if text not in told.stderr] == []


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_pages_are_fit_to_be_read(
    size: tuple[int, int], site: Path, browser: Browser
) -> None:
    """A sample of each kind: in both themes, by keyboard and screen reader; nothing is
    asked of another machine, and nothing hangs over the side."""
    for name in LOOKED_AT[size]:
        with visit(browser, f"file://{site}/{name}.html", size=size) as opened:
            opened.check(only=f"file://{site}/")


def test_words_are_found(site: Path, browser: Browser) -> None:
    """By the search of the site, without a server."""
    with visit(browser, f"file://{site}/index.html") as opened:
        opened.page.get_by_label("Search").first.fill("quarantine")
        opened.page.keyboard.press("Enter")
        opened.page.get_by_role("link", name="Crashes").first.wait_for()
        assert "q=quarantine" in opened.page.url
        assert [
            url for url in opened.asked if not url.startswith(f"file://{site}/")
        ] == []
