"""``trainwarden report`` in a real Chromium: what it shows are the ledger's figures."""

import re
import shutil
import socket
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from supervisor.core.diagnosis.result import Remedy, RemedyKind
from supervisor.core.lifecycle.effects import RecordIncident
from supervisor.core.text.units import format_size
from supervisor.host.ledger.run_archive import RunArchive
from tests.support.browser import NARROW, WIDE, visit
from tests.support.command import Trainwarden
from tests.support.looked_at import (
    BEGAN,
    HOSTILE,
    MIB,
    SCRIPT,
    TOKEN,
    a_run,
    an_attempt,
    finished_in_two,
)
from tests.support.oom import diagnosed, ran_out


def written(trainwarden: Trainwarden, what: str, *options: str) -> Path:
    """The report that the command wrote."""
    path = trainwarden.directory / f"{what}.html"
    done = trainwarden("report", what, "-o", path, *options)
    assert done.returncode == 0, done.stderr
    return path


def tile(page: Page, name: str) -> str:
    """A figure."""
    return page.locator(f".tiles div:has(dt:text-is('{name}')) dd").inner_text()


def test_a_run(trainwarden: Trainwarden, browser: Browser) -> None:
    """Figures, attempts, curves and incidents of the ledger; nothing of what the job
    printed is markup; it asks for nothing, and axe finds nothing, in both themes."""
    finished_in_two(trainwarden.state)
    (told,) = trainwarden.json("history")
    path = written(trainwarden, "digits")
    with visit(browser, path.as_uri(), size=WIDE) as seen:
        page = seen.page
        assert tile(page, "state") == told["state"]
        assert tile(page, "attempts") == str(told["attempts"])
        assert tile(page, "steps done again") == str(told["lost_steps"])
        peak = format_size(told["device_peak_bytes"])
        assert tile(page, "device memory, run peak") == peak
        assert tile(page, "main memory, run peak") == format_size(
            told["host_peak_bytes"]
        )
        assert tile(page, "steps") == str(told["steps"])
        assert page.locator(".attempts tbody tr").count() == told["attempts"]
        titles = page.locator("figcaption").all_inner_texts()
        for title in ("Loss", "Step time (smoothed)", "accuracy, by epoch",
                      "Device memory (allocator)", "Main memory"):  # fmt: skip
            assert title in titles
        device = page.get_by_role("img", name="Device memory (allocator)")
        assert "limit 280 MiB" in (device.text_content() or "")
        assert "#1" in (device.text_content() or "")
        page.keyboard.press("Tab")
        assert seen.focused() == "To the content"
        page.get_by_text("Loss as a table").focus()
        page.keyboard.press("Enter")
        first = page.locator("details[open] tbody tr").first.inner_text()
        assert first.split() == ["0", "2"]
        seen.check(only=path.as_uri())
    with visit(browser, path.as_uri(), size=NARROW) as seen:
        seen.check(only=path.as_uri())


def test_an_incident_of_somebody_hostile(
    trainwarden: Trainwarden, browser: Browser
) -> None:
    """Its log is shown as it is, as text."""
    finished_in_two(trainwarden.state)
    path = written(trainwarden, "1")
    with visit(browser, path.as_uri(), size=NARROW) as seen:
        assert HOSTILE in seen.page.locator("#log").inner_text()
        assert "4 steps done again" in seen.page.locator("#decision").inner_text()
        seen.check(only=path.as_uri())


def test_what_a_redacted_report_leaves_out(trainwarden: Trainwarden) -> None:
    """Directories, the environment, user and host; not what happened."""
    finished_in_two(trainwarden.state)
    logs = trainwarden.state.glob("jobs/digits/run-1/attempts/*/output.log")
    told = f"{TOKEN} {trainwarden.state}/x {socket.gethostname()} 10.1.2.3 a@b.org\n"
    for log in logs:
        log.write_text(f"{told}File '{SCRIPT}', line 3\n{Path.home()}/a\n")
    for what in ("digits", "1"):
        plain = written(trainwarden, what).read_text()
        assert "ada" in plain or what == "digits"
        text = written(trainwarden, what, "--redact").read_text()
        for hidden in (TOKEN, str(trainwarden.state), "My Project", "ada", "10.1.2.3",
                       "a@b.org", socket.gethostname(), f"{Path.home()}/a"):  # fmt: skip
            whole = re.search(rf"(?<!\w){re.escape(hidden)}(?!\w)", text)
            assert whole is None, hidden
        assert "the device ran out of memory" in text
        assert "train.py" in text or what == "digits"


@pytest.mark.slow
def test_no_free_block_is_as_large_as_the_request(
    trainwarden: Trainwarden, browser: Browser
) -> None:
    """The report of a real fragmentation shows it in the picture: the bar of the request
    is longer than that of every free block, in one scale, and the map has them all."""
    outcome = ran_out(trainwarden.directory / "real", "fragmentation", jit=False)
    diagnosis = diagnosed(outcome)
    memory = diagnosis.memory
    assert memory is not None
    asked, largest = memory.requested_bytes or 0, memory.largest_free_bytes or 0
    with a_run(trainwarden.state, "fragments") as shown:
        an_attempt(shown, 1, steps=range(12), began=0.0)
        remedy = Remedy(kind=RemedyKind.RESTART, because="one piece", changes={})
        effect = RecordIncident(
            attempt=1, diagnosis=diagnosis, remedy=remedy, failed_step=2
        )
        shown.ledger.record_incident(shown.row.id, effect, now=BEGAN + 12.0)
        root = shown.paths.attempt(1).root
        shutil.rmtree(root)
        shutil.copytree(outcome.paths.root, root)
        assert RunArchive(shown.ledger).series(shown.row.id, 1).points
    path = written(trainwarden, "1")
    with visit(browser, path.as_uri()) as seen:
        page = seen.page
        bars = page.get_by_role(
            "img", name="What was asked for, beside the free blocks"
        )
        request = bars.locator("rect.asked").bounding_box()
        blocks = [box.bounding_box() for box in bars.locator("rect.free").all()]
        widths = [box["width"] for box in blocks if box is not None]
        assert request is not None
        assert len(widths) >= 10
        assert max(widths) < request["width"]
        assert max(widths) / request["width"] == pytest.approx(
            largest / asked, abs=0.02
        )
        assert "no free block is as large as the request" in page.content()
        drawn = page.get_by_role("img", name="The allocator's pool").locator("rect")
        fills = drawn.evaluate_all(
            "all => all.map(one => [one.className.baseVal, one.getBBox().width])"
        )
        free = sum(width for fill, width in fills if fill == "fill-free")
        whole = sum(width for _, width in fills)
        share = (memory.free_bytes or 0) / (memory.pool_bytes or 1)
        assert free / whole == pytest.approx(share, abs=0.02)
        assert tile(page, "asked for") == format_size(asked)
        assert format_size(memory.limit_bytes or MIB) in page.content()
        seen.check(only=path.as_uri())


def test_what_cannot_be_reported(trainwarden: Trainwarden) -> None:
    """A sentence, and the exit code of a wrong name or of a failure."""
    finished_in_two(trainwarden.state)
    unknown = trainwarden("report", "nobody", "-o", trainwarden.directory / "a.html")
    assert unknown.returncode == 2
    assert "there is no job 'nobody'" in unknown.stderr
    none = trainwarden("report", "17", "-o", trainwarden.directory / "a.html")
    assert "there is no incident 17" in none.stderr
    nowhere = trainwarden("report", "digits", "-o", "/no/such/place.html")
    assert nowhere.returncode == 1
    assert "cannot write" in nowhere.stderr
    assert written(trainwarden, "digits").exists()
