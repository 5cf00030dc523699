"""What is looked at in ``top``, and what a key makes of it.

Pure: ``pressed`` goes from a ``TopView`` and a key to a ``TopView``. What a key can reach
depends on what is there to be seen: ``TopReach``.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from supervisor.cli.views.top.job_listing import SORT_LETTERS, SortKey
from supervisor.cli.views.top.key_input import Key

MOST_TYPED = 200
"""Characters of a filter."""


class TopPage(enum.Enum):
    """What fills the screen."""

    JOBS = enum.auto()
    JOB = enum.auto()
    LOG = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopView:
    """What is looked at."""

    page: TopPage = TopPage.JOBS
    before_log: TopPage = TopPage.JOBS
    """Where the log was opened: there it leads back to."""
    sort: SortKey = SortKey.GIVEN
    backwards: bool = False
    filter: str = ""
    typing: bool = False
    """Whether keys go into the filter."""
    job: str | None = None
    """The selected one; None: nobody has selected any, and it is the first."""
    position: int = 0
    """Its row in the list."""
    first: int = 0
    """The first row of the list that is seen."""
    scroll: int = 0
    """Lines down from the beginning of a job's page, or up from the end of a log."""
    helping: bool = False
    over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopReach:
    """What is there to be seen."""

    jobs: Sequence[str]
    """Those that are listed, in their order."""
    height: int
    """Lines of a page that the screen has room for."""
    lines: int
    """... and that the page has."""

    @property
    def most_scroll(self) -> int:
        """How far the page can be scrolled."""
        return max(self.lines - self.height, 0)


def settled(view: TopView, reach: TopReach) -> TopView:
    """``view`` within what there is now: the selected job is followed to its row, and
    seen; where it is not listed any more its row goes to another."""
    if view.page is not TopPage.JOBS:
        return replace(view, scroll=min(view.scroll, reach.most_scroll))
    last = max(len(reach.jobs) - 1, 0)
    position = min(view.position, last)
    if view.job in reach.jobs:
        position = reach.jobs.index(view.job)
    first = min(view.first, max(len(reach.jobs) - reach.height, 0))
    first = max(min(first, position), position - max(reach.height, 1) + 1)
    return replace(view, position=position, first=first)


def pressed(view: TopView, key: str, reach: TopReach) -> TopView:
    """What ``key`` makes of ``view``; one that means nothing changes nothing."""
    if view.helping:
        return replace(view, helping=False)
    if view.typing:
        return settled(_typed(view, key, reach), reach)
    if key in {"?", "h"}:
        return replace(view, helping=True)
    return settled(_ON_PAGE[view.page](view, key, reach), reach)


def _typed(view: TopView, key: str, reach: TopReach) -> TopView:
    """A key while a filter is typed."""
    if key == Key.ENTER:
        return replace(view, typing=False)
    if key == Key.ESCAPE:
        return replace(view, typing=False, filter="")
    if key == Key.BACKSPACE:
        return replace(view, filter=view.filter[:-1])
    if key == Key.CLEAR:
        return replace(view, filter="")
    if len(key) == 1:
        return replace(view, filter=(view.filter + key)[:MOST_TYPED])
    return _selected(view, key, reach)


def _on_jobs(view: TopView, key: str, reach: TopReach) -> TopView:
    """A key in the list."""
    if key in {"q", Key.ESCAPE}:
        clears = key == Key.ESCAPE and view.filter
        return replace(view, filter="") if clears else replace(view, over=True)
    if key == "/":
        return replace(view, typing=True)
    if key in _OPENS:
        return _opened(view, _OPENS[key], reach)
    if key in _SORTS:
        return _sorted(view, key)
    return _selected(view, key, reach)


_OPENS = {Key.ENTER: TopPage.JOB, Key.RIGHT: TopPage.JOB, "l": TopPage.LOG}
_SORTS = {"s", "r", "I", *SORT_LETTERS}


def _sorted(view: TopView, key: str) -> TopView:
    """Another order; the letter of the present one turns it round."""
    wanted = view.sort.next if key == "s" else SORT_LETTERS.get(key, view.sort)
    turned = wanted is view.sort and not view.backwards
    return replace(view, sort=wanted, backwards=turned)


def _on_job(view: TopView, key: str, reach: TopReach) -> TopView:
    """A key on the page of a job."""
    if key in {"q", Key.ESCAPE, Key.LEFT, Key.BACKSPACE}:
        return replace(view, page=TopPage.JOBS, scroll=0)
    if key == "l":
        return replace(view, page=TopPage.LOG, before_log=TopPage.JOB, scroll=0)
    far = view.scroll + _distance(key, reach.height, reach.lines)
    return replace(view, scroll=max(far, 0))


def _on_log(view: TopView, key: str, reach: TopReach) -> TopView:
    """A key in a log."""
    if key in {"q", "l", Key.ESCAPE, Key.LEFT, Key.BACKSPACE}:
        return replace(view, page=view.before_log, scroll=0)
    far = view.scroll - _distance(key, reach.height, reach.lines)
    return replace(view, scroll=max(far, 0))


_ON_PAGE: Mapping[TopPage, Callable[[TopView, str, TopReach], TopView]] = {
    TopPage.JOBS: _on_jobs,
    TopPage.JOB: _on_job,
    TopPage.LOG: _on_log,
}


def _opened(view: TopView, page: TopPage, reach: TopReach) -> TopView:
    """A page of the job in the selected row."""
    if not reach.jobs:
        return view
    job = reach.jobs[min(view.position, len(reach.jobs) - 1)]
    return replace(view, page=page, before_log=TopPage.JOBS, job=job, scroll=0)


def _selected(view: TopView, key: str, reach: TopReach) -> TopView:
    """Another row."""
    by = _distance(key, reach.height, len(reach.jobs))
    if not by or not reach.jobs:
        return view
    position = max(min(view.position + by, len(reach.jobs) - 1), 0)
    return replace(view, position=position, job=reach.jobs[position])


def _distance(key: str, height: int, whole: int) -> int:
    """How many lines down a key goes; 0: it does not go."""
    far = {
        Key.UP: -1,
        "k": -1,
        Key.DOWN: 1,
        "j": 1,
        Key.PAGE_UP: -height,
        Key.PAGE_DOWN: height,
        " ": height,
        Key.HOME: -whole,
        "g": -whole,
        Key.END: whole,
        "G": whole,
    }
    return far.get(key, 0)
