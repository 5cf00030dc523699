"""Incidents in plain words: what is known is said, what is not is left out."""

from dataclasses import replace
from typing import Any

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.advice import ADVICE, OUT_OF_REMEDIES
from supervisor.core.diagnosis.explain import (
    HEADLINES,
    OWN_CHARACTERS,
    REFUSED,
    asks_for_log,
    explain_incident,
    own_text,
    own_text_of,
    summarise_incident,
    verdict_sentence,
)
from supervisor.core.diagnosis.result import (
    FIGURES,
    MOST_FOUND,
    Diagnosis,
    Reason,
    RemedyKind,
    changed_to,
    remedy_words,
    slices_asked,
    with_slices,
)
from supervisor.core.text.units import local_time
from supervisor.wire.reasons import RefusalReason


def incident(**known: Any) -> dict[str, Any]:
    """An incident about which little is known, and ``known``."""
    return {
        "id": 3,
        "job": "digits",
        "attempt": 2,
        "at": "2026-01-31T12:00:00+00:00",
        "cause": "device_oom",
        "because": [],
        "remedy": {"kind": "stop", "changes": {}, "because": "no slice fits"},
        "failed_step": None,
        "restored_step": None,
        "lost_steps": None,
        "downtime_seconds": None,
        "memory": None,
        "advice": "",
        "deviations": [],
        **known,
    }


def test_every_cause_has_a_headline() -> None:
    """No cause is told by its name alone."""
    assert set(HEADLINES) == set(Cause)


def test_nothing_was_done_where_the_run_was_to_end() -> None:
    """The kind of that remedy is no word for a person."""
    remedy: dict[str, Any] = {
        "kind": "none",
        "changes": {},
        "because": "the run was asked to end",
    }
    told = explain_incident(incident(remedy=remedy))
    assert told.endswith("What was done: nothing: the run was asked to end.")


@pytest.mark.parametrize("kind", RemedyKind)
def test_remedies_are_told_in_words(kind: RemedyKind) -> None:
    """JSON has the value; people read words, without the underscores of code."""
    remedy: dict[str, Any] = {"kind": kind.value, "changes": {}, "because": "so"}
    known = incident(remedy=remedy)
    assert summarise_incident(known).endswith(f"→ {kind.words}")
    done = "nothing" if kind is RemedyKind.GO_ON else kind.words
    assert explain_incident(known).endswith(f"What was done: {done}: so.")
    assert "_" not in kind.words
    assert remedy_words("of_tomorrow") == "of tomorrow"


def test_little_known() -> None:
    """Nothing is made up: no step, no memory, no outcome."""
    text = explain_incident(incident())
    assert text == (
        "Attempt 2 of digits ended: the device ran out of memory.\n\n"
        "What was done: stop: no slice fits."
    )
    line = summarise_incident(incident())
    assert line.startswith(
        f"#3 {local_time(incident()['at'])} digits attempt 2: the device ran"
    )
    assert line.endswith("[device_oom] → stop")


def test_who_has_seen_it() -> None:
    """What nobody has seen is told apart from the rest."""
    at = "2026-01-31T13:00:00+00:00"
    assert "seen" not in summarise_incident(incident(acknowledged_at=None))
    seen = incident(acknowledged_at=at, acknowledged_by="alice")
    assert summarise_incident(seen).endswith("→ stop, seen by alice")
    assert summarise_incident(incident(acknowledged_at=at)).endswith("→ stop, seen")


def test_a_path_stays_in_one_piece() -> None:
    """It is there to be copied, however long it is."""
    path = "/srv/a-stranger/" + "long-" * 20 + "/train.py"
    because = [{"text": f"The file {path} is missing.", "line": None}]
    assert path in explain_incident(incident(because=because))


def test_advice_does_not_contradict_what_was_said() -> None:
    """A version before advised what had been tried; a refusal says itself what to do."""
    advice = ADVICE[Cause.DEVICE_OOM].partition(". ")[0]
    whole = ADVICE[Cause.DEVICE_OOM]
    going_on: dict[str, Any] = {
        "kind": "microbatch",
        "changes": {},
        "because": "it does not fit",
    }
    refused = [{"line": None, "text": "no such Keras", "signature": "refused"}]
    assert advice in explain_incident(incident(advice=whole, remedy=going_on))
    for told in ({}, {"cause": "user_error", "because": refused}):
        assert advice not in explain_incident(incident(advice=whole, **told))
    assert "advise SCRIPT" in explain_incident(incident(advice=OUT_OF_REMEDIES))


def test_slices_that_helped_are_not_advised() -> None:
    """Once a step was done in them nothing has to be done; before, after another remedy, and
    of another cause the advice is what it was; nobody advises whom it does not concern."""
    sliced: dict[str, Any] = {
        "kind": "microbatch", "changes": {"slices": [1, 4]}, "because": "it does not fit",
    }  # fmt: skip
    first = ADVICE[Cause.DEVICE_OOM].partition(". ")[0]
    known: dict[str, Any] = {"remedy": sliced, "advice": ADVICE[Cause.DEVICE_OOM]}
    cured = explain_incident(incident(**known, restored_step=3, downtime_seconds=2.0))
    assert "Nothing has to be done" in cured
    assert "smaller batch_size" in cured
    assert first not in cured
    anew = explain_incident(incident(**known, downtime_seconds=2.0))  # from its top
    assert "Nothing has to be done" in anew
    going_on: dict[str, Any] = {"restored_step": 3, "downtime_seconds": None}
    for other in (
        going_on,
        {"remedy": {**sliced, "kind": "restart"}, "downtime_seconds": 2.0},
        {"cause": "host_oom", "downtime_seconds": 2.0},
        {"advice": "Details are for its owner.", "downtime_seconds": 2.0},
    ):
        told = explain_incident(incident(**{**known, **other}))
        assert "Nothing has to be done" not in told
        assert (first in told) == ("advice" not in other)


def test_a_refusal_is_told_as_what_it_is() -> None:
    """No script raised an error where a module was changed; every reason has its words;
    one of an older version, or of a newer one, is a refusal all the same."""
    assert set(REFUSED) == set(RefusalReason)
    said: dict[str, Any] = {"line": None, "text": "x", "signature": "refused"}
    for told, words in (
        ({"code": "module_changed"}, "a module that the script imports was changed"),
        ({"code": "of tomorrow"}, "it was refused before it trained"),
        ({"code": None}, "it was refused before it trained"),
        ({}, "it was refused before it trained"),
    ):
        known = incident(cause="user_error", because=[{**said, **told}])
        assert words in explain_incident(known)
        assert f"{words} [user_error]" in summarise_incident(known)


def test_all_known() -> None:
    """Figures, lines, the change, what was lost, and what deviates are all there."""
    told = incident(
        failed_step=41,
        restored_step=40,
        lost_steps=1,
        downtime_seconds=9.2,
        because=[
            {"line": 812, "text": "ran out of memory", "signature": "bfc"},
            {"line": None, "text": "It ended with exit code 1.", "signature": "exit"},
        ],
        memory={
            "limit_bytes": 600 * 2**20,
            "in_use_bytes": 500 * 2**20,
            "requested_bytes": 200 * 2**20,
            "fragmentation": 0.25,
        },
        remedy={
            "kind": "microbatch",
            "changes": {"slices": [1, 4]},
            "because": "128 samples at once do not fit",
        },
        deviations=["BatchNorm sees slices"],
        advice="Nothing to do.",
    )
    text = " ".join(explain_incident(told).split())
    for part in (
        "after step 41",
        "200 MiB were asked for while 500 MiB of 600 MiB were in use.",
        "Fragmentation was 25%.",
        "log line 812: ran out of memory",
        "It ended with exit code 1.",
        "smaller slices (slices 1 → 4)",
        "went on from step 40; 1 step done again; 9.2 s without a step.",
        "Note: BatchNorm sees slices.",
        "Nothing to do.",
    ):
        assert part in text
    assert "resumed at step 40, 1 step done again" in summarise_incident(told)


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        ({"requested_bytes": 2**20}, " 1 MiB were asked for."),
        (
            {"limit_bytes": 2**21, "in_use_bytes": 2**20},
            " It had 1 MiB of 2 MiB in use.",
        ),
        ({"limit_bytes": 2**20}, ""),
    ],
)
def test_memory_of_which_only_a_part_is_known(
    memory: dict[str, int], said: str
) -> None:
    """Half the figures make half a sentence, and a whole one at that."""
    text = explain_incident(incident(memory=memory))
    assert text.splitlines()[0].endswith(f"out of memory.{said}")


def test_a_script_that_began_anew_was_not_resumed() -> None:
    """There was nothing to resume from."""
    told = incident(restored_step=0, lost_steps=75)
    assert ", begun anew, 75 steps done again" in summarise_incident(told)
    assert explain_incident(told).endswith("its top; 75 steps done again.")


def test_an_outcome_without_a_number_of_lost_steps() -> None:
    """Where nobody knows how far the attempt had come, no number is given."""
    text = explain_incident(incident(restored_step=40))
    assert text.endswith("Training went on from step 40.")


def test_a_planned_restart() -> None:
    """It is told as what it averted, not as a failure."""
    told = incident(
        happened="planned",
        cause="host_oom",
        failed_step=12,
        remedy={"kind": "restart", "changes": {}, "because": "a fresh process"},
    )
    text = " ".join(explain_incident(told).split())
    assert "was ended on purpose after step 12, its state saved: main memory" in text
    assert "a planned restart, because main memory" in summarise_incident(told)


def test_memory_nearly_full() -> None:
    """A warning ended nothing."""
    told = incident(happened="device_memory_high", failed_step=12)
    text = explain_incident(told)
    assert "trained on after step 12, but device memory is nearly full." in text


def test_an_autopsy() -> None:
    """Verdict and holders stand in a paragraph of their own."""
    autopsy: dict[str, Any] = {
        "verdict": "capacity",
        "asked_by": "Conv2D",
        "shape": None,
        "dtype": None,
        "jit": None,
        "growth": None,
        "holders": [],
        "tenants": [],
    }
    text = explain_incident(incident(autopsy=autopsy))
    assert "\n\nThe verdict is capacity" in text
    assert "Conv2D asked for it." in " ".join(text.split())


def test_a_line_is_told_with_its_file() -> None:
    """That of the log, unless another one is named."""
    lines = [
        {"text": "Fatal Python error", "line": 1, "source": "fault.log"},
        {"text": "NVRM: Xid", "line": None, "source": "kernel log"},
        {"text": "killed", "line": 7, "source": None},
        {"text": "It was ended by SIGSEGV.", "line": None},
    ]
    text = explain_incident(incident(because=lines))
    assert (
        "  fault.log line 1: Fatal Python error\n  kernel log: NVRM: Xid\n"
        "  log line 7: killed\n  It was ended by SIGSEGV."
    ) in text


def test_stacks_are_pointed_at() -> None:
    """They are long; where they are is one sentence."""
    text = explain_incident(incident(cause="stalled", stacks="Thread 0x1"))
    assert "`trainwarden report 3 -o FILE`" in text
    assert "stacks" not in explain_incident(incident())


ASKS = "OOM when allocating tensor with shape[2] [[{{node dense/MatMul}}]]"


def test_the_op_that_the_evidence_names_is_named() -> None:
    """Whatever the autopsy had read; and of failures that have none."""
    because = [{"text": ASKS, "signature": "crash", "line": None}]
    autopsy: dict[str, Any] = dict.fromkeys(
        ("verdict", "asked_by", "shape", "dtype", "jit", "growth")
    )
    autopsy |= {"holders": [], "tenants": []}
    short = explain_incident(incident(because=because, autopsy=autopsy))
    assert "dense/MatMul asked for it." in " ".join(short.split())
    other = explain_incident(
        incident(because=because, cause="cudnn_exec", autopsy=None)
    )
    assert "It failed in the op dense/MatMul." in " ".join(other.split())


def test_the_cause_comes_before_the_line_that_shows_it() -> None:
    """In words, with the figures; the raw line of the log is last."""
    line = Reason("Allocator (GPU_0_bfc) ran out of memory", "bfc.out_of_memory", 45)
    used = Reason("38 MiB asked for; 143 MiB of 280 MiB in use.", FIGURES)
    left = Reason("It ended with exit code 1.", "exit")
    found = Diagnosis(cause=Cause.DEVICE_OOM, because=(line, left, used))
    assert verdict_sentence(found) == (
        "the device ran out of memory [device_oom]: 38 MiB asked for; 143 MiB of 280 MiB"
        " in use. Allocator (GPU_0_bfc) ran out of memory (log line 45)"
    )
    assert verdict_sentence(replace(found, because=(used,))).endswith("MiB in use.")
    assert verdict_sentence(replace(found, because=())) == (
        "the device ran out of memory [device_oom]"
    )
    other = Reason("its seeds are others", "refused", code=RefusalReason.DATA_CHANGED)
    refused = Diagnosis(cause=Cause.USER_ERROR, because=(other,))
    assert verdict_sentence(refused).startswith(REFUSED[RefusalReason.DATA_CHANGED])


FIGURE = {"text": "2 MiB asked for; 1 MiB of 1 MiB in use.", "signature": FIGURES}
OOM = "OOM when allocating tensor with shape[9,9]"
RAISED = {
    "text": f"tensorflow.python.framework.errors_impl.ResourceExhaustedError: {OOM}",
    "signature": "crash",
}


@pytest.mark.parametrize(
    ("because", "told"),
    [
        ([], ""),
        ([FIGURE], ""),
        ([FIGURE, {"text": OOM, "signature": "tf.oom"}], OOM),
        (
            [{"text": OOM, "signature": "tf.oom"}, RAISED],
            f"ResourceExhaustedError: {OOM}",
        ),
        ([{"text": "ValueError: no such column"}], "ValueError: no such column"),
        ([{"text": "a.b.c: not an exception"}], "a.b.c: not an exception"),
        ([{"text": "\x1b[1mValueError\x1b[0m: a\n b\x07"}], "ValueError: a b"),
        ([{"text": "ValueError: \ud800"}], "ValueError: ?"),
    ],
)
def test_the_own_text_of_a_failure(because: list[dict[str, str]], told: str) -> None:
    """The exception as its author would look for it, in one line that steers no terminal."""
    assert own_text(because) == told


def test_the_own_text_is_bounded() -> None:
    """Whatever a script raises."""
    assert len(own_text([{"text": "word " * 9999}])) <= OWN_CHARACTERS
    raised = Diagnosis(
        cause=Cause.USER_ERROR, because=(Reason("KeyError: 'label'", "crash"),)
    )
    assert own_text_of(raised) == "KeyError: 'label'"


def test_a_run_that_went_no_further_tells_what_that_took() -> None:
    """There is no step that it went on from, and the time was lost all the same."""
    text = explain_incident(incident(downtime_seconds=12.0))
    assert "12 s passed without a step." in text


def test_a_number_of_slices_says_what_it_is() -> None:
    """Asked for, measured, or in use without: an attempt may find another, and later one
    more."""
    measuring: dict[str, Any] = {"slices": [1, "as many as its first steps find"]}
    remedy: dict[str, Any] = {"kind": "microbatch", "changes": measuring}
    remedy["because"] = "x"
    assert changed_to(remedy, "slices") == measuring["slices"][1]
    remedy["slices"] = slices_asked(measuring)
    assert changed_to(remedy, "slices") == measuring["slices"][1]
    halved = with_slices(remedy, 2, measured=False)
    assert changed_to(halved, "slices") == "2, in use without being measured"
    four = with_slices(remedy, 4, measured=True)
    assert changed_to(four, "slices") == "4, as measured"
    assert with_slices(four, 4, measured=True) == four
    five = with_slices(four, 5, measured=True)
    assert five["changes"]["slices"] == [1, 5]
    assert five["slices"] == {"asked": None, "found": [4, 5], "measured": True}
    told = explain_incident(incident(remedy=five))
    assert "(slices 1 → 5, as measured, 4 at first)" in " ".join(told.split())
    many = five
    for number in range(6, 6 + MOST_FOUND):
        many = with_slices(many, number, measured=True)
    assert len(many["slices"]["found"]) == MOST_FOUND


def test_a_number_that_was_planned_is_told_beside_that_found() -> None:
    """It stays known what the supervisor asked for; of an older version nobody knows."""
    planned: dict[str, Any] = {"slices": [2, 4], "memory growth": ["off", "on"]}
    remedy: dict[str, Any] = {"kind": "microbatch", "changes": planned}
    remedy["because"] = "x"
    assert changed_to(remedy, "slices") == "4"
    remedy["slices"] = slices_asked(planned)
    assert changed_to(remedy, "slices") == "4, as asked for"
    assert changed_to(remedy, "memory growth") == "on"
    found = with_slices(remedy, 5, measured=True)
    assert changed_to(found, "slices") == "5, as measured, 4 asked for"
    assert changed_to(with_slices(remedy, 4, measured=True), "slices") == (
        "4, as measured"
    )


def test_a_remedy_without_slices_is_told_of_none() -> None:
    """What an attempt has found by itself changes nothing of it."""
    remedy: dict[str, Any] = {"kind": "restart", "changes": {}, "because": "x"}
    assert slices_asked({}) is None
    assert with_slices(remedy, 4, measured=True) == remedy


@pytest.mark.parametrize("cause", [Cause.USER_ERROR, Cause.UNKNOWN])
def test_the_log_is_asked_for_where_the_advice_says_so(cause: Cause) -> None:
    """Not where another advice is given, nor where a refusal tells all of it."""
    usual = incident(cause=cause, advice=ADVICE[cause])
    assert asks_for_log(usual)
    assert not asks_for_log({**usual, "advice": "Look elsewhere."})
    assert not asks_for_log(incident(advice=ADVICE[Cause.DEVICE_OOM]))
    refused = [{"line": None, "text": "no such Keras", "signature": "refused"}]
    assert not asks_for_log({**usual, "because": refused})
