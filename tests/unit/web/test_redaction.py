"""What is left out of a report that leaves the house, and what stays."""

import pytest

from supervisor.web.redaction import Redactor

LEAVE_OUT = Redactor(
    users=("ada", "a"),
    hosts=("gpu-17", "gpu-17.lab.example"),
    places=("/home/ada", "/data/My Project"),
    environment={"API_TOKEN": "s3cr3t", "N": "1", "LONGER": "s3cr3t-and-more"},
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("open /scratch/x/y/train.py now", "open …/train.py now"),
        ('File "/scratch/my own dir/a b.py", line 3', 'File "…/a b.py", line 3'),
        ("in /data/My Project/train.py: no", "in …/train.py: no"),
        ("/home/ada/.cache/k:/opt/b/c", "…/k:…/c"),
        ("~/code/x.py", "…/x.py"),
        ("key s3cr3t-and-more, s3cr3t", "key [LONGER], [API_TOKEN]"),
        ("ada@gpu-17:~$ canada", "[user]@[host]:~$ canada"),
        ("mail ada@lab.example, 10.0.0.7", "mail [e-mail], [address]"),
        ("see https://user:pw@host.example/a?b=c ok", "see [url] ok"),
        ("on gpu-17.lab.example", "on [host]"),
        (
            "shape[64,40000] on /job:localhost/replica:0/task:0/device:CPU:0",
            "shape[64,40000] on /job:localhost/replica:0/task:0/device:CPU:0",
        ),
        ("sequential_1/dense/MatMul 1/2 N 1", "sequential_1/dense/MatMul 1/2 N 1"),
        ("TensorFlow 2.21.0, 128.00MiB", "TensorFlow 2.21.0, 128.00MiB"),
    ],
)
def test_redaction(text: str, told: str) -> None:
    """Who and where, not what."""
    assert LEAVE_OUT(text) == told
