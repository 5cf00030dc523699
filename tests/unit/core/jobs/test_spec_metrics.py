"""How a spec says that metrics are served with TLS."""

import pytest

from supervisor.core.jobs.spec import SpecError, build_spec


def problems_of(**metrics: object) -> dict[str, str]:
    """What is wrong with a spec that has this table."""
    with pytest.raises(SpecError) as caught:
        build_spec({"script": "a", "metrics": metrics})
    return {problem.path: problem.expected for problem in caught.value.problems}


def test_tls() -> None:
    """A certificate and its key, and if wanted an authority for readers."""
    given = {"certificate": "/etc/a.pem", "key": "/etc/a.key", "client_ca": "/etc/ca"}
    metrics = build_spec({"script": "a", "metrics": given}).metrics
    assert (metrics.certificate, metrics.key) == ("/etc/a.pem", "/etc/a.key")
    assert metrics.client_ca == "/etc/ca"
    off = dict.fromkeys(given, "off")
    plain = build_spec({"script": "a", "metrics": off})
    assert plain == build_spec({"script": "a"})


@pytest.mark.parametrize("key", ["certificate", "key", "client_ca"])
def test_files_are_named_from_the_root(key: str) -> None:
    """Where the command runs must not decide which file is meant."""
    expected = "expected the absolute path of a PEM file"
    for value in ("a.pem", 7):
        assert expected in problems_of(**{key: value})[f"metrics.{key}"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"certificate": "/a"}, "certificate and key belong together"),
        ({"key": "/a"}, "certificate and key belong together"),
        ({"client_ca": "/a"}, "client_ca needs a certificate"),
    ],
)
def test_half_of_it(given: dict[str, object], sentence: str) -> None:
    """A certificate without its key is told before anything starts."""
    assert sentence in problems_of(**given)["metrics"]
