"""The secrets in a text, by what stands before them: names, options, headers, and their form.

What a person calls a secret is in its name (``DB_PASSWORD``, ``--hub-token``); a name too
many costs a reader a word, one too few a key.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence

_KEY = (
    r"(?:api|auth|access|secret|private|account|shared|storage|master|signing|encryption"
    r"|license|subscription|client|service|deploy|session|app|ssh)[ _-]?keys?"
)
_SHORT = (
    r"(?<![a-z])(?:pass|pwd|auth|dsn)|(?-i:(?<=[a-z])(?:Pass|Pwd|Auth))"
    r"|(?-i:(?<=[A-Z])(?<!COM)(?<!BY)PASS|(?<=[A-Z])PWD)"
    r"|(?<=db)(?:pass|pwd)|(?<=sql)pass|(?<=user)pass|(?<=root)pass|(?<=admin)pass"
)
"""``compass`` is none, ``DBPASS`` and ``dbPass`` are."""
_NOT_PADDING = r"(?<!(?:pad|eos|bos|unk|sep|cls)[_ -])(?<!mask[_ -])token"
"""What a tokenizer pads with is none."""
_TAIL = (
    r"(?:\d{1,3}(?!\w))?(?-i:(?:_[A-Z0-9]{1,20}){1,3}(?!\w))?"
    r"(?:[_-](?:read|write|rw|ro|prod|dev|test|staging|main|old|new|value|str|string|text"
    r"|plain|b64|base64|env|\d{1,3})(?!\w)|[_-]?id(?!\w))?"
)
"""``HF_NOT_PADDING_READ``, ``PASSWORD2``; ``max_tokens``, ``token_count`` and ``tokenizer`` end
in something else."""
_WORD = (
    rf"(?P<name>(?:pass(?:words?|wd|phrase|code)|{_SHORT}|secrets?|{_NOT_PADDING}|{_KEY}"
    rf"|credentials?){_TAIL})"
)
"""What such a name ends in. What stands before it is not looked at, which would take long
in a line that is all dashes."""
_STRING = (
    r"""[bru]{0,2}(?:"{3}(?s:.{0,4000}?)"{3}|"{3}[^\n]*|'{3}(?s:.{0,4000}?)'{3}|'{3}[^\n]*"""
    r"""|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?"""
    r"""|(?P<mark>\\+["'])(?:[^\n]*?(?<!\\)(?P=mark)|[^\n]*))"""
)
"""In quotes: to the same quotes, or else to the end of the line. Those of JSON in JSON have
backslashes before them, of which what is inside has more."""
_NEXT = r"""(?:[ \t]{0,80},\s{0,80}(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))*"""
_CALL = r"(?:[\w.]{0,60}[\[(]\s{0,80}(?:\w{1,30}[ \t]*=[ \t]*)?){0,3}"
"""``SecretStr(``, ``[``."""
_BARE = (
    r"""(?:[^\s,;&"')\]}]|[,"')\]}](?=[^\s,;&"')\]}])"""
    r"""|[;&](?=[^\s;&])(?![\w .-]{1,40}=))+"""
)
"""Without quotes: to a space, to what closes around it, or to the next of ``a=1;b=2``."""
_TYPE = (
    r"(?:(?:(?<=:)|(?<=:[ \t]))[\w.\[\]]{1,60}"
    r"(?:[ \t]?\|[ \t]?[\w.\[\]]{1,60}){0,3}[ \t]*=[ \t]*)?"
)
"""``str =`` of ``password: str = ``."""
_VALUE = (
    rf"(?P<value>\[\w+\]|\{{[^}}\n]*\}}?|{_TYPE}{_CALL}{_STRING}{_NEXT}"
    rf"""|\[[^\]\n"']*\]?|{_TYPE}{_BARE})"""
)
_EQUALS = r"(?:=>|->|:=|[=!]=|[+?]?=|:)"
_ASSIGNED = re.compile(
    rf"""(?P<before>{_WORD}(?:\\*["'][ \t]*(?:\][ \t]*)?(?:{_EQUALS}|,)|[ \t]*{_EQUALS})"""
    rf"""[ \t]*){_VALUE}""",
    re.IGNORECASE,
)
_OPTION = re.compile(
    rf"""(?P<before>(?<![\w-])--?[\w.-]{{0,40}}?{_WORD}(?:\\*["'][ \t]*,)?[ \t]+)(?!-)"""
    rf"{_VALUE}",
    re.IGNORECASE,
)
_LINE = rf"""(?:\[\w+\]|{_STRING}|[^\n'"]+(?:"[^"\n]*"[^\n'"]*)*)"""
"""Of a header: all of it."""
_HEADER = re.compile(
    r"""(?P<before>\b(?:(?:proxy-)?authorization|(?:set-)?cookies?)\\*["']?[ \t]*"""
    rf"""(?:[:=,][ \t]*|(?=(?:basic|bearer|token|digest|negotiate|apikey)[ \t])))"""
    rf"{_LINE}",
    re.IGNORECASE,
)
_NETRC = re.compile(
    r"(?P<before>\blogin\s+\S{1,200}\s+password\s+|^[ \t]*password[ \t]+(?=\S+[ \t]*$))\S+",
    re.IGNORECASE | re.MULTILINE,
)
_BEARER = re.compile(r"(?P<before>\bbearer[ \t]+)[\w.~+/=-]{8,}", re.IGNORECASE)
_BASIC = re.compile(r"(?P<before>\bbasic[ \t]+)(?P<value>[\w+/=-]{6,})", re.IGNORECASE)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,8}-----(?:(?s:.{0,16000}?)"
    r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,8}-----"
    r"|[^\n]*(?:\n[A-Za-z0-9+/=]{16,}[ \t\r]*)*)"
)
_KNOWN_FORM = re.compile(
    r"(?<![\w-])(?:(?:hf_|gh[pousr]_|github_pat_|glpat-|xox[abposr]-|xapp-|AKIA|ASIA|AIza"
    r"|ya29\.|eyJ|gsk_|nvapi-|[rs]k_(?:live|test)_)[\w.-]{12,}"
    r"|sk-(?:(?:proj|ant|svcacct|admin|or)-[\w-]{12,}|[\w-]{0,40}?[A-Za-z0-9]{16,}[\w-]*)"
    r"|(?:npm|r8)_[A-Za-z0-9]{12,}|pypi-(?=[\w-]{0,80}[A-Z0-9])[\w-]{12,})"
)
"""Tokens of Hugging Face, GitHub, GitLab, Slack, AWS, Google, JWT, Groq, NVIDIA, Stripe,
OpenAI and those who write theirs alike (no ``sk-resnet50``), npm, Replicate, PyPI."""
_LOGIN = re.compile(
    r"(?:(?<=://)[^\s@:/]{0,200}:[^\s@][^\s]{0,300}@"
    r"|(?<![\w/.+:@-])[\w.+-]+:(?!//|-?\d*\.\d+(?:e-?\d+)?@)[^\s'\"]{1,200}@(?!sha\d+:))"
    r"(?=[\w.\[-])"
)
"""``user:password@host``; no digest of an image, nor a figure at a step."""
_IS_NAME = re.compile(rf"[\w.-]{{0,80}}?{_WORD}", re.IGNORECASE)
_FIGURE = re.compile(
    r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?(?:%|[mu]?s)?", re.IGNORECASE
)
_COUNTED = re.compile(
    r"\b(?:forward|backward|first|second|third|next|last|each|per|one|this|full)[ -]$",
    re.IGNORECASE,
)
"""``forward pass: 12``, ``per token: 0.5``."""
_BEFORE = 12
"""Characters of such a word, at most."""
_NO_SECRETS = frozenset({"PWD", "OLDPWD"})
"""The working directory, for shells."""
_SHORTEST = 4
"""A shorter value stands in too much else: it is left out beside its name alone."""
_SWITCHES = frozenset({"true", "false", "none", "null"})
HIDDEN = "[secret]"


def is_secret_name(name: str) -> bool:
    """Whether what is called so is a secret: an option, a variable, a key."""
    return name not in _NO_SECRETS and _IS_NAME.fullmatch(name) is not None


def without_secrets(text: str) -> str:
    """``text`` with ``[secret]`` where one stands."""
    text = _PRIVATE_KEY.sub(HIDDEN, text)
    for pattern in (_HEADER, _NETRC, _BEARER):
        text = pattern.sub(_hidden, text)
    text = _BASIC.sub(_hidden_login, text)
    for pattern in (_OPTION, _ASSIGNED):
        text = pattern.sub(_hidden_value, text)
    return _LOGIN.sub(f"{HIDDEN}@", _KNOWN_FORM.sub(HIDDEN, text))


def _hidden(match: re.Match[str]) -> str:
    return f"{match['before']}{HIDDEN}"


def _hidden_value(match: re.Match[str]) -> str:
    return match[0] if _is_figure(match) else _hidden(match)


def _is_figure(match: re.Match[str]) -> bool:
    """A number beside a word that is counted, or that has a number in a vocabulary."""
    name, value = match["name"].lower(), match["value"]
    if _FIGURE.fullmatch(value) is None or not name.startswith(("token", "pass")):
        return False
    at = match.start("name")
    before = match.string[max(0, at - _BEFORE) : at]
    numbered = name in {"token_id", "token-id", "tokenid"}
    return numbered or _COUNTED.search(before) is not None


def _hidden_login(match: re.Match[str]) -> str:
    """``basic`` is a word, too: a login is ``user:password`` in base64 (RFC 7617)."""
    value = match["value"].rstrip("=")
    padded = value + "=" * (-len(value) % 4)
    try:
        login = base64.b64decode(padded, altchars=b"-_")
    except (binascii.Error, ValueError):
        return match[0]
    return _hidden(match) if b":" in login else match[0]


def secrets_of(
    args: Sequence[str], environments: Sequence[Mapping[str, str]]
) -> frozenset[str]:
    """Values that are secrets by their names: wherever else they are printed, they are."""
    named = ((name, value) for one in environments for name, value in one.items())
    return frozenset(
        value
        for name, value in (*_options(args), *named)
        if _tells(value) and is_secret_name(name)
    )


def _tells(value: str) -> bool:
    return (
        len(value) >= _SHORTEST
        and not value.isdecimal()
        and value.lower() not in _SWITCHES
    )


def _options(args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """``--name value`` and ``--name=value``, or ``name=value`` as Hydra has it."""
    for at, word in enumerate(args):
        name, equals, value = word.partition("=")
        if equals:
            yield name, value
        elif word.startswith("-") and not _following(args, at).startswith("-"):
            yield word, _following(args, at)


def _following(args: Sequence[str], at: int) -> str:
    """Another option follows a switch, and is not its value."""
    return args[at + 1] if at + 1 < len(args) else ""
