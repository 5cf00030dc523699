"""Losses as logs show them: which line is the first of a loss that is no number."""

from collections.abc import Callable
from operator import contains

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.advice import ADVICE
from supervisor.core.diagnosis.diagnose import diagnose, diagnose_log
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.exit_status import record_of
from supervisor.core.diagnosis.explain import HEADLINES, diagnosis_headline
from supervisor.core.diagnosis.log_scanner import BLOCK, scan
from supervisor.core.diagnosis.training_output import Loss, LostLosses, losses_in

FINE, LOST = "8/8 - 1s - loss: 0.5 - val_loss: 0.4", "8/8 - 1s - loss: nan"
FAR = "8/8 - 1s - loss: 0.5\n" * (2 * BLOCK // 21)
"""A healthy part that is longer than what is kept of a log."""
GONE = f"{LOST} - val_loss: nan\n" * (2 * BLOCK // 37)


def lines_of(*texts: str) -> tuple[Loss, ...]:
    """The losses that these lines show."""
    return losses_in(list(enumerate(texts, start=1)))


@pytest.mark.parametrize(
    ("texts", "line"),
    [
        ((FINE, LOST, LOST), 2),
        ((LOST, FINE, LOST, LOST), 3),
        ((LOST, LOST, FINE), 3),
    ],
)
def test_a_loss_is_quoted_from_where_it_is_no_number(
    texts: tuple[str, ...], line: int
) -> None:
    """The first line since which it has been none; a number is quoted where it is last."""
    loss = next(one for one in lines_of(*texts) if one.name == "loss")
    assert loss.line == line


def test_a_diagnosis_quotes_the_first_line() -> None:
    """Of a validation that is lost before the loss is, too."""
    text = (
        f"{FINE}\n8/8 - loss: 0.5 - val_loss: nan\n" + f"{LOST} - val_loss: nan\n" * 9
    )
    found = diagnose_log(scan(text.encode()))
    assert found.cause is Cause.NON_FINITE_LOSS
    assert [(one.line, one.text) for one in found.because] == [
        (2, "8/8 - loss: 0.5 - val_loss: nan"),
        (3, f"{LOST} - val_loss: nan"),
    ]


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (f"{FINE}\n", "", 2),  # in the first block of a long log
        (FAR, "", FAR.count("\n") + 1),
        (f"{LOST}\n{FAR}", "", FAR.count("\n") + 2),  # it came back in between
    ],
)
def test_it_is_found_in_a_long_log(before: str, after: str, line: int) -> None:
    """Far before its end, all of which is kept."""
    found = scan(f"{before}{GONE}{after}".encode())
    assert {one.name: one.line for one in found.losses} == dict.fromkeys(
        ("loss", "val_loss"), line
    )


def test_a_long_log_that_recovers_shows_no_loss() -> None:
    """A number at its end is what counts."""
    (loss, *_) = scan(f"{GONE}{FAR}".encode()).losses
    assert loss.finite


def test_what_only_looks_like_a_loss_is_none() -> None:
    """Nor does a later sign in a block replace an earlier one, nor an earlier line that is
    found by another sign stay behind a later one."""
    holds: Callable[[bytes, bytes], bool] = contains
    lost = LostLosses(holds)
    lost.feed(b"moss: nan\n", 1)
    assert lost.first == {}
    lost.feed(b"step 1 loss=nan\nstep 2 loss: nan\nval_loss: 3 loss: nan\n", 2)
    assert {name: one.line for name, one in lost.first.items()} == {"loss": 2}
    lost.feed(b"step 4 loss: nan\n", 5)
    assert lost.first["loss"].line == 2
    lost.feed(b"step 5 loss: nan without an end", 6)
    lost.feed(b"step 6 loss: 0.5\n", 7)
    assert lost.first == {}


FALLS = "8/8 - loss: 0.9 - val_loss: nan\n8/8 - loss: 0.5 - val_loss: nan\n"


@pytest.mark.parametrize(
    "text",
    [
        FALLS,
        "train_loss=0.5, val_loss=nan",
        "epoch 3: train loss 0.7, loss: 0.5, validation loss: nan",
        "{'loss': 0.5}\n{'eval_loss': nan}",
    ],
)
def test_a_validation_loss_alone_is_told_as_that(text: str) -> None:
    """Training was well: the line that shows it, and what the loss of training was."""
    found = diagnose_log(scan(f"{text}\n".encode()))
    assert found.cause is Cause.NON_FINITE_LOSS
    assert (
        diagnosis_headline(found) == "only the validation loss became NaN or infinite"
    )
    first, second = found.because
    assert "nan" in first.text
    assert "stayed finite: " in second.text
    assert second.text.endswith("loss 0.5.")
    assert "validation data" in found.advice
    assert "learning rate" not in found.advice


@pytest.mark.parametrize(
    "text",
    [
        "8/8 - loss: nan - val_loss: nan",
        "8/8 - val_loss: nan",  # nothing is known of training
        "8/8 - loss: 0.5 - aux_loss: nan - val_loss: 0.4",
        "8/8 - loss: 0.5 - aux_loss: nan - val_loss: nan",
        "{'loss': 0.0}\n{'eval_loss': nan}",  # as transformers prints NaN
        "8/8 - loss: 0.5 - val_loss: nan\nInvalid loss, terminating training",
    ],
)
def test_a_loss_of_training_that_is_lost_or_not_known_is_told_as_before(
    text: str,
) -> None:
    """Where it cannot be told that training was well, nobody says so."""
    found = diagnose_log(scan(f"{text}\n".encode()))
    assert diagnosis_headline(found) == HEADLINES[Cause.NON_FINITE_LOSS]
    assert found.advice == ADVICE[Cause.NON_FINITE_LOSS]


def test_a_validation_loss_ends_no_process() -> None:
    """An exception behind it, a signal, an exit code of the script's own say more; of a run
    of ours that came to its end it is told."""
    log = scan(FALLS.encode())
    raised = scan(f"{FALLS}ValueError: own words\n".encode())
    assert diagnose_log(raised).cause is Cause.USER_ERROR
    killed = Evidence(exit=record_of(None, 15))
    assert diagnose_log(log, evidence=killed).cause is Cause.PREEMPTED
    left = Evidence(exit=record_of(3, None), log=log, script_exit_code=3)
    assert diagnose(left).cause is Cause.USER_ERROR
    done = diagnose(Evidence(exit=record_of(0, None), log=log, finished=True))
    assert diagnosis_headline(done).startswith("only the validation loss")
    assert "validation data" in done.advice
