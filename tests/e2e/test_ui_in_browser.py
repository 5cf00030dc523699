"""``trainwarden ui`` in a real Chromium: what ``status`` would show, live, by keyboard, for
nobody else."""

import http.client
import json
import re
import signal
from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from supervisor.core.text.units import format_size
from tests.support.browser import NARROW, visit
from tests.support.command import PATIENCE, Trainwarden
from tests.support.looked_at import HOSTILE, crowded, finished_in_two, running

WIDTHS = (320, 360, 400, 440, 480, 500, 520, 521, 560, 600, 640, 700, 760, 900, 1200)
"""Of a window; the largest letters are those below 521."""
EDGES = (320, 520, 521, 900)


@contextmanager
def serving(trainwarden: Trainwarden) -> Generator[str]:
    """The address of the page; Ctrl-C ends it."""
    process = trainwarden.start("ui")
    assert process.stdout is not None
    lines: list[str] = []
    while not (found := re.search(r"open (http://\S+)", "".join(lines))):
        line = process.stdout.readline()
        assert line, lines
        lines.append(line)
    yield found[1]
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0


def answered(url: str, *, method: str = "GET", **headers: str) -> tuple[int, str]:
    """Status and body."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=PATIENCE)
    connection.request(method, parts.path, headers=headers)
    response = connection.getresponse()
    return response.status, response.read().decode()


def test_who_may_look(trainwarden: Trainwarden) -> None:
    """Who has the address; not by another name, for another page, or with another secret;
    nothing can be changed; every answer has its policy."""
    finished_in_two(trainwarden.state)
    with serving(trainwarden) as url:
        parts = urlsplit(url)
        root = f"{parts.scheme}://{parts.netloc}"
        secret = parts.path.strip("/")
        assert len(secret) >= 32
        assert answered(url)[0] == HTTPStatus.OK
        assert answered(url, Origin=root)[0] == HTTPStatus.OK
        for place in ("", "/", f"/{secret}x/", f"/{secret[:-1]}/", f"/x/{secret}/"):
            status, said = answered(root + place)
            assert status == HTTPStatus.FORBIDDEN
            assert "digits" not in said
        assert answered(url, Host="evil.example")[0] == HTTPStatus.FORBIDDEN
        assert answered(url, Origin="https://evil.example")[0] == HTTPStatus.FORBIDDEN
        assert answered(url, Origin="null")[0] == HTTPStatus.FORBIDDEN
        for method in ("POST", "PUT", "DELETE"):
            assert answered(url, method=method)[0] == HTTPStatus.METHOD_NOT_ALLOWED
        for place in ("jobs/nobody", "jobs/", "incidents/9", "incidents/x", "etc/passwd",
                      "jobs/..%2F..%2Fetc", "api/jobs/nobody"):  # fmt: skip
            assert answered(url + place)[0] == HTTPStatus.NOT_FOUND, place
        connection = http.client.HTTPConnection(parts.netloc, timeout=PATIENCE)
        connection.request("GET", parts.path)
        policy = connection.getresponse().headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        told = json.loads(answered(f"{url}api/jobs/digits")[1])
        assert [part["id"] for part in told["parts"]] == [
            "summary", "attempts", "curves", "incidents",
        ]  # fmt: skip


def test_by_keyboard_from_the_box_to_an_incident(
    trainwarden: Trainwarden, browser: Browser
) -> None:
    """Figures of the ledger on each page; nothing is asked for elsewhere, nothing goes
    wrong, and axe has no objection."""
    finished_in_two(trainwarden.state)
    (told,) = trainwarden.json("history")
    with serving(trainwarden) as url, visit(browser, url, size=NARROW) as seen:
        page = seen.page
        row = page.locator("#history tbody tr").inner_text()
        assert format_size(told["device_peak_bytes"]) in row
        seen.check(only=url)
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        while seen.focused() != "digits":
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("digits, run 1")
        expect(page.locator("#seen")).to_contain_text("Last look")
        host = page.locator(".tiles div:has(dt:text-is('main memory, run peak')) dd")
        assert host.inner_text() == format_size(told["host_peak_bytes"])
        seen.check(only=url)
        while not seen.focused().startswith("#1 "):
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator("#log")).to_contain_text(HOSTILE)
        seen.check(only=url)


def test_it_is_live(trainwarden: Trainwarden, browser: Browser) -> None:
    """What the page of the attempt says comes in by itself, the curves grow, and who reads
    on is not disturbed: what is open stays open, and the focus stays."""
    with (
        running(trainwarden.state) as attempt,
        serving(trainwarden) as url,
        visit(browser, f"{url}jobs/live") as seen,
    ):
        page = seen.page
        steps = page.locator(".tiles div:has(dt:text-is('steps')) dd")
        expect(steps).to_have_text("9")
        page.get_by_text("Loss as a table").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#seen")).to_contain_text("Last look")
        before = page.locator("#curves path.curve").first.get_attribute("d") or ""
        for step in (20, 37):
            attempt.set(step=step, loss=1.0 / step)
            expect(steps).to_have_text(str(step), timeout=60_000)
        after = page.locator("#curves path.curve").first.get_attribute("d") or ""
        assert after.count("L") >= before.count("L") + 2
        assert page.locator("details[open]").count() == 1
        assert seen.focused() == "Loss as a table"
        seen.check(only=url)


@pytest.mark.parametrize(
    "widths",
    [EDGES, pytest.param(WIDTHS, marks=pytest.mark.slow)],
    ids=["edges", "all"],
)
def test_labels_stand_apart_at_every_width(
    trainwarden: Trainwarden, browser: Browser, widths: tuple[int, ...]
) -> None:
    """No text lies on another or hangs out of its picture, and nothing scrolls sideways,
    from a phone to a desk, in both themes."""
    finished_in_two(trainwarden.state)
    crowded(trainwarden.state)
    (job,) = {told["job"] for told in trainwarden.json("history")} - {"digits"}
    found: list[str] = []
    with serving(trainwarden) as url:
        for place in ("", "jobs/digits", f"jobs/{job}", "incidents/1"):
            with visit(browser, url + place) as seen:
                for width in widths:
                    found += [f"/{place} {one}" for one in seen.collisions(width)]
                seen.page.emulate_media(color_scheme="dark")
                found += [f"/{place} dark {one}" for one in seen.collisions(500)]
    assert found == []
