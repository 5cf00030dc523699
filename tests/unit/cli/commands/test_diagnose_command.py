"""The command ``diagnose``: its JSON shape, its words, its errors."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from supervisor.cli.commands.diagnose_command import diagnose
from supervisor.core.diagnosis.explain import NOT_WRITTEN

OOM = (
    "CUDA out of memory. Tried to allocate 20.00 GiB (GPU 0; 7.79 GiB total capacity; "
    "4.62 GiB already allocated; 1.11 GiB free; 4.65 GiB reserved in total)\n"
)


def test_the_json_has_the_documented_shape() -> None:
    """Cause, reasons with lines, memory and advice; nothing else."""
    result = CliRunner().invoke(diagnose, ["--json", "-"], input="step 1\n" + OOM)
    value = json.loads(result.output)
    assert list(value) == ["cause", "because", "memory", "advice"]
    assert value["cause"] == "device_oom"
    assert value["because"][0] == {
        "line": 2,
        "text": OOM.strip(),
        "signature": "torch.out_of_memory",
    }
    assert list(value["memory"]) == [
        "limit_bytes",
        "in_use_bytes",
        "requested_bytes",
        "largest_free_bytes",
        "fragmentation",
    ]
    assert value["memory"]["requested_bytes"] == 20 * 1024**3


def test_a_person_gets_words(tmp_path: Path) -> None:
    """The cause, the lines with their numbers, and what would help."""
    log = tmp_path / "output.log"
    log.write_text("step 1\nKeyError: 'a'\n")
    result = CliRunner().invoke(diagnose, [str(log)])
    assert result.exit_code == 0
    assert result.output.startswith(
        "user_error: the script raised an error of its own\n"
    )
    assert "line 2: KeyError: 'a'" in result.output


def test_a_log_without_a_failure_is_none() -> None:
    """In words and as JSON."""
    result = CliRunner().invoke(diagnose, ["-"], input="5/5 - 0s - loss: 0.1\n")
    assert result.output == "none: this log shows no failure.\n"
    result = CliRunner().invoke(diagnose, ["-", "--json"], input="")
    assert json.loads(result.output) == {
        "cause": "none",
        "because": [],
        "memory": None,
        "advice": "",
    }


@pytest.mark.parametrize(
    ("status", "cause"), [("SIGSEGV", "native_crash"), ("0", "none"), ("1", "unknown")]
)
def test_the_exit_status_is_evidence(status: str, cause: str) -> None:
    """What the log does not say."""
    arguments = ["-", "--json", "--exit", status]
    result = CliRunner().invoke(diagnose, arguments, input="words\n")
    assert json.loads(result.output)["cause"] == cause


@pytest.mark.parametrize("arguments", [["/nowhere/x.log"], ["/"], ["-", "--exit", "x"]])
def test_errors_are_one_sentence_and_exit_2(arguments: list[str]) -> None:
    """A file that is not there, a directory, a status that is none."""
    result = CliRunner().invoke(diagnose, arguments, input="")
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_what_is_known_more_exactly_than_the_cause_is_the_headline() -> None:
    """As ``run`` and ``explain`` tell it."""
    log = "OSError: [Errno 30] Read-only file system: '/data/out.csv'\n"
    told = CliRunner().invoke(diagnose, ["-"], input=log).output
    assert told.startswith(f"user_error: {NOT_WRITTEN}\n")


@pytest.mark.parametrize("status", ["137", "SIGKILL", "-9"])
@pytest.mark.parametrize("log", ["8/8 - loss: 0.5\n", "Worker 3 died\n"])
def test_sigkill_of_a_program_that_ran_elsewhere(status: str, log: str) -> None:
    """Most often it is memory, and where that can be looked up; nobody says that it was, nor
    speaks of a supervisor and a counter that were not there."""
    arguments = ["-", f"--exit={status}"]
    told = CliRunner().invoke(diagnose, arguments, input=log).output
    assert ("line 1: Worker 3 died" in told) == log.startswith("Worker")
    assert told.startswith("preempted: SIGKILL ended it: most often the kernel")
    for place in ("dmesg", "journalctl -k", "sacct -j JOB --format=State,MaxRSS"):
        assert place in told
    for foreign in ("Trainwarden", "counter", "host_oom"):
        assert foreign not in told


@pytest.mark.parametrize(
    ("end", "signature", "headline", "advised"),
    [
        (
            " DUE TO TIME LIMIT",
            "slurm.time_limit",
            "Slurm ended the job at its time limit",
            ("#SBATCH --time=", "#SBATCH --signal=B:TERM@180", "RequeueExit=75"),
        ),
        (
            " DUE TO PREEMPTION",
            "slurm.preempted",
            "Slurm preempted the job",
            ("#SBATCH --requeue", "PreemptMode=REQUEUE", "docs/slurm.md"),
        ),
        (
            "",
            "slurm.cancelled",
            "Slurm's job was cancelled (scancel, or an administrator)",
            ("sacct -j JOB", "submit it again"),
        ),
        (
            " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS",
            "scheduler.ended_it",
            "something other than Trainwarden ended the process",
            (),
        ),
    ],
)
def test_what_slurm_says_is_told_in_words_of_its_own(
    end: str, signature: str, headline: str, advised: tuple[str, ...]
) -> None:
    """The time limit, a preemption, scancel: what helps differs; nothing is said of who else
    may have ended it."""
    log = (
        f"slurmstepd: error: *** JOB 1 ON n CANCELLED AT 2024-12-03T12:47:09{end} ***\n"
    )
    told = CliRunner().invoke(diagnose, ["-"], input=log).output
    assert told.startswith(f"preempted: {headline}\n")
    assert f"[{signature}]" in told
    assert [words for words in advised if words not in told] == []
    assert not advised or "a key" not in told
