"""The daemon's configuration."""

import pytest

from supervisor.core.jobs.config import build_config
from supervisor.core.jobs.spec import SpecError


def test_everything_has_a_default() -> None:
    """An empty file is a configuration."""
    config = build_config("")
    assert config.state_dir == "/var/lib/trainwarden"
    assert config.jobs == "/var/lib/trainwarden/jobs.d"
    assert config.control == "/var/lib/trainwarden/control.sock"
    assert (config.launcher, config.group) == ("auto", "trainwarden")
    assert config.metrics.listen is None


def test_what_is_given_wins() -> None:
    """Over the file; places may be anywhere."""
    text = """
        state_dir = "/a"
        jobs_dir = "/b"
        socket = "/c"
        launcher = "direct"
        group = "research"
        [metrics]
        listen = "127.0.0.1:9464"
        [gpus]
        use = ["GPU-1"]
        quota = 2
        probe = "/e"
    """
    config = build_config(text, state_dir="/d")
    assert (config.state_dir, config.jobs, config.control) == ("/d", "/b", "/c")
    assert config.gpus.use == ("GPU-1",)
    assert config.gpus.probe == "/e"
    assert config.group == "research"
    assert str(config.metrics.listen) == "127.0.0.1:9464"
    assert build_config("[metrics]\nlisten = 'off'").metrics.listen is None


def test_every_problem_is_told() -> None:
    """Each with its path, and what was expected."""
    text = """
        state_dir = "here"
        launcher = "magic"
        group = "A b"
        stat_dir = "/x"
        [metrics]
        listen = 7
        [gpus]
        quota = -1
    """
    with pytest.raises(SpecError) as caught:
        build_config(text)
    assert {problem.path for problem in caught.value.problems} == {
        "state_dir", "launcher", "group", "stat_dir", "metrics.listen", "gpus.quota",
    }  # fmt: skip
    assert "did you mean 'state_dir'?" in str(caught.value)
