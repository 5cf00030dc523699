"""What is said once a run."""

from pathlib import Path

from supervisor.wire.paths import RunPaths
from trainers.backends.tensorflow.allocator.once_per_run import memo, once

SENTENCE = "the cache cannot be used:\nPermission denied"


def test_another_attempt_does_not_say_it_again(tmp_path: Path) -> None:
    """A sentence is said by the first attempt, another sentence by the next."""
    run, said = RunPaths(tmp_path), list[str]()
    for number in (1, 2):
        path = memo(run.attempt(number))
        assert path.parent == run.root
        once(path, said.append)(SENTENCE)
    assert said == [SENTENCE]
    once(memo(run.attempt(3)), said.append)("the cache cannot be used: Is a directory")
    assert len(said) == 2


def test_what_cannot_be_noted_is_said_again(tmp_path: Path) -> None:
    """Neither a directory that is missing nor a memo that is no text is an error."""
    said = list[str]()
    for _ in range(2):
        once(tmp_path / "missing" / "told", said.append)(SENTENCE)
    assert said == [SENTENCE] * 2
    (tmp_path / "told").write_bytes(b"\xff\xff")
    once(tmp_path / "told", said.append)(SENTENCE)
    assert len(said) == 3
