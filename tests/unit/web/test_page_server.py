"""Whose requests are answered, and what every answer says."""

import pytest

from supervisor.web.page_server import headers, is_ours, new_secret


@pytest.mark.parametrize(
    ("host", "origin", "ours"),
    [
        ("127.0.0.1:8080", None, True),
        ("localhost:8080", None, True),
        ("127.0.0.1:8080", "http://127.0.0.1:8080", True),
        ("127.0.0.1:8080", "http://localhost:8080", False),
        ("127.0.0.1:8080", "https://127.0.0.1:8080", False),
        ("127.0.0.1:8080", "null", False),
        ("127.0.0.1:81", None, False),
        ("rebound.example:8080", None, False),
        (None, None, False),
    ],
)
def test_whose_request(host: str | None, origin: str | None, *, ours: bool) -> None:
    """By the name that was asked for, and the page that asks."""
    assert is_ours(host, origin, port=8080) is ours


def test_the_policy_of_every_answer() -> None:
    """Nothing but our style, our script and our own data; in no other page's frame."""
    policy = headers()["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'self'; connect-src 'self'" in policy
    assert "unsafe" not in policy
    assert new_secret() != new_secret()
