"""What others write: specs, event files, pages and requests of any kind do no harm.

Few of each here; `make fuzz` makes 100,000 (10,000 specs).
"""

import contextlib
import gc
import json
import math
import os
import resource
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supervisor.core.jobs.authorization import AccessRules, Caller
from supervisor.core.jobs.job_status import JobState, status_json
from supervisor.core.jobs.spec import (
    NotifySpec,
    Problem,
    SpecError,
    build_spec,
    read_toml,
)
from supervisor.daemon.api.routes import ROUTES, answer
from supervisor.daemon.api_service import ApiService
from supervisor.daemon.launcher_factory import SingleUserFactory
from supervisor.daemon.run_starter import RunStarter
from supervisor.daemon.scheduler import Scheduler
from supervisor.host.control.control_server import Request
from supervisor.host.exporter.machine_monitor import MachineMonitor
from supervisor.host.ledger.job_book import JobBook
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.service.clock import Clock
from supervisor.host.service.journal import Journal
from supervisor.host.telemetry.attempt_news import learned
from supervisor.host.telemetry.attempt_view import AttemptView, fold
from supervisor.runtime.alerts.disk_notifications import DiskNotifications
from supervisor.runtime.alerts.run_notifications import NotificationSenders
from supervisor.runtime.status_builder import RunFacts, job_status
from supervisor.wire.event_file import RecordKind, parse_line
from supervisor.wire.page import MAGIC, PAGE_BYTES, parse
from supervisor.wire.paths import StatePaths

MANY = int(os.environ.get("TRAINWARDEN_FUZZ", "200"))
MOST_GROWTH = 128 << 20
"""Most of it is what hypothesis keeps of a round."""
ROUND = 1000
"""Examples a test: hypothesis remembers all of a test, and grows slow and large."""
often = settings(
    max_examples=min(MANY, ROUND),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
seldom = settings(often, max_examples=min(max(MANY // 10, 100), ROUND))


@pytest.fixture(params=range(max(MANY // ROUND, 1)))
def round_of_many(request: pytest.FixtureRequest) -> int:
    """Which of the rounds this is."""
    return int(request.param)


@pytest.fixture(params=range(max(MANY // 10 // ROUND, 1)))
def round_of_some(request: pytest.FixtureRequest) -> int:
    """A tenth as many."""
    return int(request.param)


many_rounds = pytest.mark.usefixtures("round_of_many")
some_rounds = pytest.mark.usefixtures("round_of_some")


NAMES = st.sampled_from(
    ["script", "args", "name", "python", "gpus", "gpu_count", "memory", "snapshots",
     "drain", "metrics", "environment", "priority", "liveness", "remedies", "cpu",
     "every", "keep", "grace", "listen", "../x", "", "\x00", "__class__"]
)  # fmt: skip
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=40),
    st.sampled_from(
        ["30s", "600MiB", "1%", "off", "/", "GPU-1", "-1s", "1e999GiB", "\ud800"]
    ),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(NAMES | st.text(max_size=8), inner, max_size=6)
    ),
    max_leaves=20,
)
TABLES = st.dictionaries(NAMES | st.text(max_size=8), VALUES, max_size=10)
KINDS = st.sampled_from([v for k, v in vars(RecordKind).items() if k.isupper()])


def resident() -> int:
    """Bytes of this process in memory now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.fixture(autouse=True, scope="module")
def memory() -> Iterator[None]:
    """All of them together do not make this process grow by much."""
    before = resident()
    yield
    assert resident() - before < MOST_GROWTH


def problems_of(tables: dict[str, Any]) -> tuple[Problem, ...]:
    """All that is wrong; a spec that can be used can be written down as well."""
    try:
        spec = build_spec(tables)
    except SpecError as error:
        return error.problems
    json.dumps(spec.model_dump(mode="json"))
    return ()


@some_rounds
@seldom
@given(TABLES)
def test_specs(tables: dict[str, Any]) -> None:
    """A spec is one, or every problem of it is told in a line."""
    for problem in problems_of(tables):
        assert problem.expected
        assert len(str(problem)) < 2000


@some_rounds
@seldom
@given(st.text(max_size=300) | st.just("[" * 20000) | st.just("a = " + "{" * 5000))
def test_spec_files(text: str) -> None:
    """What is no TOML is refused as such, however deep."""
    with contextlib.suppress(SpecError):
        read_toml(text)


def line_of(kind: object, ns: object, fields: dict[str, Any]) -> bytes:
    """A line as an event file has them, if all of it were what it should be."""
    return json.dumps({**fields, "kind": kind, "ns": ns}).encode()


FIELDS = st.sampled_from(
    ["step", "tier", "batch", "slices", "size", "because", "jit", "sentence", "bits",
     "planned", "deviations", "bytes", "exit_code", "memory_seconds", "durable_seconds",
     "seconds", "stall_seconds", "snapshots", "reason", "source"]
)  # fmt: skip
LINES = st.one_of(
    st.binary(max_size=400),
    st.builds(
        line_of, KINDS | LEAVES, LEAVES, st.dictionaries(FIELDS, VALUES, max_size=8)
    ),
    st.just(b"[" * 100000),
)


@many_rounds
@often
@given(LINES)
def test_event_lines(line: bytes) -> None:
    """A line is a record, or it is none; records of any content are folded in."""
    record = parse_line(line)
    if record is not None:
        view = fold(AttemptView(), [record])
        learned(record)
        json.dumps(status_json(_status(view, None)), allow_nan=False)


@many_rounds
@often
@given(
    st.integers(min_value=0, max_value=2**64 - 1),
    st.binary(min_size=0, max_size=PAGE_BYTES),
)
def test_pages(sequence: int, body: bytes) -> None:
    """A page is read, or it is none; figures of any size are shown."""
    content = MAGIC + sequence.to_bytes(8, "little") + body.ljust(PAGE_BYTES, b"\xff")
    page = parse(content)
    parse(body)
    if page is not None:
        json.dumps(status_json(_status(AttemptView(), page)), allow_nan=False)


def _status(view: AttemptView, page: Any) -> Any:
    facts = RunFacts(job="j", state=JobState.RUNNING, attempt=1, message="", view=view)
    return job_status(facts, page, pid=1, now=math.pi)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiService]:
    """The desk of a box without jobs, whose user is nobody here."""
    with closing(Ledger(tmp_path / "ledger.sqlite")) as ledger:
        senders = NotificationSenders(spec=NotifySpec(), directory=tmp_path)
        say = Journal().say
        starter = RunStarter(
            paths=StatePaths(tmp_path),
            ledger=ledger,
            clock=Clock(),
            launcher_factory=SingleUserFactory(user="nobody-here"),
            say=Journal().say_of,
            observer=MachineMonitor(places={}, gpus=None),
            senders=senders,
            disks=DiskNotifications(senders=senders, clock=Clock(), say=say),
        )
        box = Scheduler(book=JobBook(ledger), starter=starter, gpus=tuple, say=say)
        yield ApiService(
            scheduler=box,
            rules=AccessRules(members="m", admins="a", own_uid=1, trusts_itself=True),
        )


CALLERS = st.sampled_from(
    [
        Caller(uid=0, name="root"),
        Caller(uid=1000, name="alice", groups=frozenset({"m"})),
        Caller(uid=1001, name="eve"),
    ]
)
PATHS = st.sampled_from([route.path for route in ROUTES]).flatmap(
    lambda path: st.text(max_size=12).map(
        lambda word: (
            path.replace("{job}", word)
            .replace("{gpu}", word)
            .replace("{incident}", word)
        )
    )
) | st.text(max_size=30)


REQUESTS = st.builds(
    Request,
    caller=CALLERS,
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH"]),
    path=PATHS,
    query=st.dictionaries(
        st.sampled_from(["attempt", "offset", "job"]), st.text(max_size=9)
    ),
    body=VALUES | st.fixed_dictionaries({"spec": TABLES}),
)


@many_rounds
@often
@given(REQUESTS)
def test_requests(api: ApiService, asked: Request) -> None:
    """Every request gets an answer with a status of its kind; none gets a 500, and who
    is not a member gets a no."""
    response = answer(api, asked)
    assert response.status in {200, 201, 202, 400, 403, 404, 405, 409, 503}
    if response.status >= 400:
        assert response.body["error"]
    elif asked.caller.name == "eve":
        assert asked.path == "/v1/openapi.json"
    if not isinstance(response.body, bytes):
        json.dumps(response.body)
