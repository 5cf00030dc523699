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
IN_BASE64 = "YWRhOmh1bnRlcjI"


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
        r"{\"api_key\": \"hunter2\"}",
        r"{\"api_key\": \"a \\\" hunter2\", \"epochs\": 3}",
        "os.environ['HF_TOKEN'] = 'hunter2'",
        "os.environ.get('HF_TOKEN', 'hunter2')",
        "setenv('API_KEY', 'hunter2')",
        "('password', 'hunter2')",
        "password=b'hunter2'",
        'token=SecretStr("hunter2")',
        'token=SecretStr(secret_value="a hunter2")',
        '"token": ["hunter2"]',
        '"token": ["one", "hunter2"]',
        "token: [one, hunter2]",
        '"token": [\n  "one",\n  "hunter2"\n]',
        '"token": {"value": "hunter2"}',
        'password: str = "hunter2"',
        'password: str | None = "hunter2"',
        "password: hunter2 and a=3",
        'token == "hunter2"',
        'password="""hunter2"""',
        'password="""one\nhunter2"""',
        'password="""a hunter2',
        "password=ab,hunter2",
        "password=ab'hunter2",
        "password=ab)hunter2",
        "password=ab&hunter2",
        'password="a\\"hunter2"',
        'password="a, hunter2',
        "Authorization: ApiKey hunter2",
        "Authorization ApiKey hunter2",
        'Authorization: Digest username="ada", response="hunter2"',
        "Using API key: hunter2",
        "DBPASS=hunter2",
        "dbPass: hunter2",
        "HF_TOKEN_READ=hunter2",
        "hf_token_read=hunter2",
        "PASSWORD2=hunter2",
        "AccountKey=hunter2",
        "Cookie: session=hunter2",
        "Cookie: a=b; session=hunter2",
        "Set-Cookie: id=hunter2; Path=/",
        "{'Cookie': 'session=hunter2'}",
        "machine h login ada password hunter2",
        "machine h\n  login ada\n  password hunter2\n",
        "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----",
        "private_key: -----BEGIN RSA PRIVATE KEY-----\\nhunter2\\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2hunter2hunter2",
        "npm_hunter2hunter2hunter2",
        "pypi-AgEIhunter2hunter2",
        "r8_hunter2hunter2hunter2",
        "sk-hunter2hunter2hunter2",
        "sk-proj-hunter2-hunter2",
        "ada:pa/hunter2@host",
        "ada:pa:hunter2@host",
        "https://u:pa'hunter2@host/x",
        "https://u:pa/hunter2@host/x",
        "ada:pa@hunter2@host",
        "got Basic YWRhOmh1bnRlcjI=",
        "train.py --token 'a hunter2'",
        "password=12345 token=hunter2",
    ],
)
def test_it_is_left_out(text: str) -> None:
    """In arguments, environments, headers, addresses and lines of a log."""
    told = Redactor(environment={})(text)
    assert KEPT not in told
    assert IN_BASE64 not in told
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
        "loss per token: 0.53",
        "forward pass: 12 ms",
        "pad_token_id=0",
        "eos_token_id: 50256, token_count=3",
        "pad_token='<pad>'",
        "Authorization failed for user",
        "basic operations",
        "a basic BatchNormalization layer",
        "sk-resnet50-imagenet1k",
        "image:tag@sha256:0123456789abcdef",
        "loss:0.123@step",
        "COMPASS=north BYPASS=1",
        "/job:localhost/replica:0/task:0/device:CPU:0",
        "npm_config_registry, pypi-attestations",
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
    """Within a word, too; a switch, or a number, stands in too much else. What follows a
    switch is another option."""
    args = [
        "--auth",
        "--batches",
        "--token",
        "abcd",
        "--epochs",
        "3",
        "db.password=xyz!",
        "--secret",
    ]
    switches = {"USE_AUTH": "true", "EOS_TOKEN": "50256", "PWD": "/home"}
    found = secrets_of(
        args, ({"API_KEY": "k-12", "SEED": "7", "MY_TOKEN": ""}, switches)
    )
    assert found == {"abcd", "xyz!", "k-12"}
    redact = Redactor(environment={}, secrets=found)
    told = redact("using abcd and k-12, abcde xabcd_ 3 7 true")
    assert told == "using [secret] and [secret], [secret]e x[secret]_ 3 7 true"
    assert redact("train.py --token abcd at 3") == "train.py --token [secret] at 3"


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    """Nothing is added where there is nothing to hide."""
    told = without_secrets(text)
    assert told == text or HIDDEN in told


@pytest.mark.parametrize(
    "mark",
    ["-", "_", "a", "=", "a_", "--a", ":", "a:", "'", "://a:", "a[", "x:a,"],
)
def test_a_long_line_is_read_in_time(mark: str) -> None:
    """A bar of progress, or a file in base64, is one word without an end."""
    assert without_secrets(mark * 30_000) == mark * 30_000


def test_what_begins_and_does_not_end_is_read_in_time() -> None:
    """Quotes, brackets and keys of which a line has thousands."""
    for mark in ("token=", "pass[", 'token="', "-----BEGIN PRIVATE KEY-----", "a:b@"):
        assert HIDDEN in without_secrets(f"{mark * 5_000} token=hunter2")
