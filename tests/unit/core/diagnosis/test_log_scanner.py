"""The scanner: what it finds does not depend on how the bytes arrive."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.core.diagnosis import log_scanner
from supervisor.core.diagnosis.log_scanner import NO_FINDINGS, Hit, LogScanner, scan

OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
PLAIN = b"step %d of a training that goes on and on and on, loss: 0.25\n"


def long_log(*, size: int, middle: bytes = b"", end: bytes = b"") -> bytes:
    """About ``size`` bytes of healthy lines with something in the middle."""
    lines = [PLAIN % number for number in range(size // len(PLAIN))]
    half = len(lines) // 2
    return b"".join([*lines[:half], middle, *lines[half:], end])


pieces = st.lists(
    st.sampled_from(
        [
            OOM,
            PLAIN % 3,
            b"\xff\xfe\x00broken\n",
            b"no newline ",
            b"\n",
            b"ValueError: x\n",
            b"5/8 [==>] - loss: nan\r6/8 [===>] - loss: nan\n",
            b"Limit:     400\nInUse:   300\nMaxAllocSize:   1\n",
        ]
    ),
    max_size=30,
)


@settings(deadline=None)
@given(pieces, st.lists(st.integers(0, 400), max_size=10))
def test_the_cut_of_the_pieces_does_not_matter(
    parts: list[bytes], cuts: list[int]
) -> None:
    """Any split of the same bytes gives the same findings."""
    data = b"".join(parts)
    scanner = LogScanner()
    last = 0
    for cut in [*sorted(cuts), len(data)]:
        scanner.feed(data[last:cut])
        last = max(last, cut)
    assert scanner.findings() == scan(data)


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=600), st.integers(1, 80))
def test_any_bytes_are_a_log(noise: bytes, repeat: int) -> None:
    """Nothing raises, and asking twice gives the same answer."""
    scanner = LogScanner()
    scanner.feed(noise * repeat)
    assert scanner.findings() == scanner.findings()


def test_an_empty_log_says_nothing() -> None:
    """No bytes, no findings."""
    assert scan(b"") == NO_FINDINGS


def test_lines_are_numbered_from_one_and_the_last_needs_no_newline() -> None:
    """A log that ends in the middle of a line has that line."""
    findings = scan(b"\n\nValueError: x")
    assert findings.hits == (Hit(3, "ValueError: x", "python.own_error"),)
    assert (findings.lines, findings.last_line) == (3, "ValueError: x")


def test_a_line_in_the_middle_of_a_long_log_is_found_with_its_number() -> None:
    """Interesting lines are kept wherever they stand, not only at the end."""
    data = long_log(size=3 * log_scanner.BLOCK, middle=OOM)
    number = data[: data.index(OOM)].count(b"\n") + 1
    findings = scan(data)
    assert [(hit.line, hit.signature) for hit in findings.hits] == [
        (number, "torch.out_of_memory")
    ]
    assert findings.lines == data.count(b"\n")
    assert findings.dumps[0].line == number


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("a:1:2 [0] NCCL WARN Call to connect returned: refused", "nccl.warn"),
        ("F x/launch.h:129] Check failed: count > 0 (0 vs. 0)", "process.aborted"),
        ("OOM when allocating tensor with shape[1,270]", "tf.oom_when_allocating"),
        ("NVRM: Xid (PCI:0000:01:00): 79, pid=1122", "driver.xid_hardware"),
        ("java invoked oom-killer: gfp_mask=0xd0, order=0", "kernel.oom_kill"),
        (
            "DataLoader worker (pid 2) is killed by signal: Killed.",
            "torch.worker_killed",
        ),
        (
            "Loss.cu:250: block: [0,0,0], thread: [6,0,0] Assertion `t < n` failed.",
            "cuda.index_assertion",
        ),
        ("Dst tensor is not initialized.", "tf.dst_not_initialized"),
        ("NVML: Driver/library version mismatch", "version.driver"),
        (
            "failed to allocate request for 2.00GiB (2147483648B) on device",
            "xla.allocation_failed",
        ),
    ],
)
def test_failures_that_are_no_exceptions_are_found_in_the_middle(
    line: str, name: str
) -> None:
    """What drivers, kernels and native code say has signs of its own."""
    data = long_log(size=3 * log_scanner.BLOCK, middle=line.encode() + b"\n")
    assert [hit.signature for hit in scan(data).hits] == [name]


def test_who_is_asked_whether_a_sign_is_there() -> None:
    """Between head and tail no block is looked into that is said to hold no sign; head
    and tail are read whatever is said."""
    scanner = LogScanner(holds=lambda _block, _sign: False)
    scanner.feed(long_log(size=4 * log_scanner.BLOCK, middle=OOM, end=b"MemoryError\n"))
    assert [hit.text for hit in scanner.findings().hits] == ["MemoryError"]


def test_of_each_signature_the_first_and_the_last_lines_are_kept() -> None:
    """Ten thousand complaints cost no more than a dozen."""
    lines = [b"ValueError: number %s\n" % bytes([97 + n % 26]) * 2 for n in range(60)]
    data = long_log(size=2 * log_scanner.BLOCK, end=b"".join(lines) * 20)
    findings = scan(data)
    assert len(findings.hits) == 2 * log_scanner.KEPT
    [(name, count)] = findings.counts
    assert name == "python.own_error"
    assert count > 100


def test_a_line_without_end_is_read_around_its_signs() -> None:
    """A progress bar of megabytes, or binary output, hides no failure."""
    data = b"x" * (2 * log_scanner.BLOCK) + OOM[:-1] + b"x" * log_scanner.BLOCK
    findings = scan(data)
    assert {hit.signature for hit in findings.hits} == {"torch.out_of_memory"}
    assert all(len(hit.text) <= log_scanner.MAX_TEXT for hit in findings.hits)
    assert findings.lines == 1


def test_a_log_that_screams_on_every_line_is_sampled() -> None:
    """The effort is bounded: of each block only the first few lines are judged."""
    words = [b"%s Error: failed %s\n" % (w, w * 9) for w in (b"ab", b"cd", b"ef")]
    unique = b"".join(
        words[n % 3].replace(b"failed", bytes(97 + (n >> s) % 26 for s in (0, 4, 8)))
        for n in range(20_000)
    )
    scanner = LogScanner()
    scanner.feed(long_log(size=2 * log_scanner.BLOCK))
    scanner.feed(unique * 3)
    assert scanner.findings().lines > 60_000


def test_lines_of_one_shape_do_not_hide_another() -> None:
    """A line that comes back with other figures is judged a hundred times; what stands
    behind thousands of it is found."""
    same = b"".join(b"Error: batch %d was skipped\n" % n for n in range(2_000))
    middle = same + b"CUDA error: CUDA_ERROR_ILLEGAL_ADDRESS and Error: at last\n"
    findings = scan(long_log(size=4 * log_scanner.BLOCK, middle=middle))
    assert {hit.signature for hit in findings.hits} == {"cuda.fault"}


@pytest.mark.parametrize(
    "before",
    [
        b"Exception ignored in: <function Pool.__del__ at 0x7f>\n",
        b"--- Logging error ---\n",
    ],
)
def test_a_traceback_that_ends_nothing_is_passed_over(before: bytes) -> None:
    """A finaliser's exception, or the logging module's, is no failure."""
    trace = b"Traceback (most recent call last):\n  File x\nTypeError: y\n"
    assert scan(before + trace).hits == ()
    assert len(scan(b"other\n" + trace).hits) == 2


def test_not_a_failure_is_no_dump() -> None:
    """An allocation that was allowed to fail leaves no figures."""
    line = b"Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.55GiB. The "
    assert scan(line + b"caller indicates that this is not a failure\n").dumps == ()


def test_the_last_values_of_the_losses_are_known() -> None:
    """Of a bar that was redrawn only the last state is on the screen."""
    findings = scan(b"1/2 - loss: nan\x08\x08\x082/2 - loss: 0.5 - val_loss: inf\n")
    assert [(each.name, each.value, each.finite) for each in findings.losses] == [
        ("loss", "0.5", True),
        ("val_loss", "inf", False),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "17/100 [===>....] - ETA: 3s",
        " 641/641 ━━━━━━━━━━ 3383s 5s/step",
        "8/8 - 0s - 5ms/step - accuracy: 0.3",
        "Epoch 3/10",
        "  2%|2 | 80/4000 [00:26<18:58,  3.44it/s]",
        "global_step: 290 images_per_sec: 141.3",
        "[epoch: 3] iter 20",
    ],
)
def test_progress_has_many_forms(line: str) -> None:
    """Keras, tqdm, and what people print themselves."""
    assert scan(line.encode()).progress


def test_a_log_of_too_many_shapes_is_still_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Shapes that find no room are judged each time they come."""
    monkeypatch.setattr(log_scanner, "MAX_SHAPES", 1)
    assert len(scan(b"ab\ncd\n" + b"KeyError: 'a'\n" * 3).hits) == 3
