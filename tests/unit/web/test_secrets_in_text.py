"""What is a secret by its name or its form, and what only looks like one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.web.redaction import Redactor
from supervisor.web.secrets_in_text import (
    HIDDEN,
    is_secret_name,
    secrets_of,
    without_secrets,
)

KEPT = "hunter2"


@pytest.mark.parametrize(
    "text",
    [
        "password=hunter2",
        "password: hunter2",
        "db.password = 'hunter2 and more'",
        '{"password": "hunter2", "epochs": 3}',
        "{'api_key': 'hunter2'}",
        "HF_TOKEN=hunter2 python train.py",
        "export WANDB_API_KEY=hunter2;",
        "train.py --token hunter2 --epochs 3",
        "train.py --token=hunter2",
        "train.py --hub-token hunter2",
        "sys.argv: ['train.py', '--token', 'hunter2']",
        "authToken=hunter2",
        "Uid=ada;Pwd=hunter2;",
        "?user=a&passwd=hunter2&x=1",
        "Authorization: Bearer hunter2",
        "Authorization: Basic hunter2==",
        "{'Authorization': 'Bearer hunter2'}",
        "authorization: hunter2",
        "got Bearer hunter2hunter2",
        "postgres at ada:hunter2@db.example:5432",
        "https://ada:hunter2@host.example/x",
        "s3://key:hunter2@bucket/prefix",
        "AWS_SECRET_ACCESS_KEY: hunter2",
        "curl -H 'X-Api-Key: hunter2'",
        "login with hf_hunter2hunter2hunter2",
        "ghp_hunter2hunter2hunter2hunter2",
    ],
)
def test_it_is_left_out(text: str) -> None:
    """In arguments, environments, headers, addresses and lines of a log."""
    told = Redactor(environment={})(text)
    assert KEPT not in told
    assert "[secret]" in told or "[url]" in told


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=4096 num_tokens: 12",
        "tokenizer=bert, tokens 3",
        "keras.layers.Dense, key 3, monkey=1",
        "loss: 0.5 - accuracy: 0.9",
        "the token was read",
        "--token --verbose",
        "passes: 3, compass: north",
        "author: somebody",
        "Epoch 1/8 at 12:00:26",
    ],
)
def test_what_happened_stays(text: str) -> None:
    """Names that have such a word in them, and words without a value."""
    assert without_secrets(text) == text


def test_a_name_says_it() -> None:
    """Of options, variables and keys."""
    for name in (
        "--token",
        "-password",
        "HF_TOKEN",
        "MY_SECRET",
        "apiKey",
        "aws_access_key_id",
    ):
        assert is_secret_name(name), name
    for name in ("--epochs", "PATH", "TOKENIZERS_PARALLELISM", "OLDPWDX", "max_tokens"):
        assert not is_secret_name(name), name


def test_its_value_is_left_out_wherever_it_is_printed() -> None:
    """As a whole word; a switch, or a number, stands in too much else."""
    args = ["--token", "abcd", "--epochs", "3", "db.password=xyz!", "--secret"]
    switches = {"USE_AUTH": "true", "EOS_TOKEN": "50256", "PWD": "/home"}
    found = secrets_of(
        args, ({"API_KEY": "k-12", "SEED": "7", "MY_TOKEN": ""}, switches)
    )
    assert found == {"abcd", "xyz!", "k-12"}
    redact = Redactor(environment={}, secrets=found)
    told = redact("using abcd and k-12, abcde 3 7 true")
    assert told == "using [secret] and [secret], abcde 3 7 true"
    assert redact("train.py --token abcd at 3") == "train.py --token [secret] at 3"


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    """Nothing is added where there is nothing to hide."""
    told = without_secrets(text)
    assert told == text or HIDDEN in told


@pytest.mark.parametrize("mark", ["-", "_", "a", "=", "a_", "--a", ":", "a:", "'"])
def test_a_long_line_is_read_in_time(mark: str) -> None:
    """A bar of progress, or a file in base64, is one word without an end."""
    assert without_secrets(mark * 30_000) == mark * 30_000
