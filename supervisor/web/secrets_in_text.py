"""The secrets in a text, by what stands before them: names, options, headers, and their form.

What a person calls a secret is in its name (``DB_PASSWORD``, ``--hub-token``); a name too
many costs a reader a word, one too few a key.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

_WORD = (
    r"(?:pass(?:word|wd|phrase|code)|(?<![a-z])(?:pass|pwd|auth|dsn)|secret|token"
    r"|(?:api|auth|access|secret|private)[_-]?key|credentials?)(?:[_-]?id)?"
)
"""What such a name ends in: ``max_tokens`` and ``tokenizer`` do not. What stands before it
is not looked at, which would take long in a line that is all dashes."""
_VALUE = r"""(?:\[\w+\]|"[^"\n]*"|'[^'\n]*'|[^\s,;&"')\]}]+)"""
_ASSIGNED = re.compile(
    rf"""(?P<before>{_WORD}["']?[ \t]*(?:=>|[=:])[ \t]*){_VALUE}""", re.IGNORECASE
)
_OPTION = re.compile(
    rf"""(?P<before>(?<![\w-])--?[\w.-]{{0,40}}?{_WORD}(?:["'][ \t]*,)?[ \t]+)(?!-){_VALUE}""",
    re.IGNORECASE,
)
_HEADER = re.compile(
    r"""(?P<before>\b(?:proxy-)?authorization\b["']?[ \t]*[:=,]?[ \t]*["']?"""
    r"""(?:(?:basic|bearer|token|digest|negotiate)[ \t]+)?)[^\s"',;]+""",
    re.IGNORECASE,
)
_BEARER = re.compile(
    r"(?P<before>\b(?:bearer|basic)[ \t]+)[\w.~+/=-]{8,}", re.IGNORECASE
)
_KNOWN_FORM = re.compile(
    r"(?<![\w-])(?:hf_|gh[pousr]_|github_pat_|glpat-|sk-|xox[abposr]-|AKIA|ASIA|AIza|ya29\.|eyJ)"
    r"[\w.-]{12,}"
)
"""Tokens of Hugging Face, GitHub, GitLab, OpenAI, Slack, AWS, Google, and JWT."""
_LOGIN = re.compile(r"(?<![\w/.+:@-])[\w.+-]+:[^\s:@/'\"]+@(?=[\w.-])")
"""``user:password@host``, without a scheme before it."""
_IS_NAME = re.compile(rf"[\w.-]{{0,80}}?{_WORD}", re.IGNORECASE)
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
    for pattern in (_HEADER, _OPTION, _ASSIGNED, _BEARER):
        text = pattern.sub(_hidden, text)
    return _LOGIN.sub(f"{HIDDEN}@", _KNOWN_FORM.sub(HIDDEN, text))


def _hidden(match: re.Match[str]) -> str:
    return f"{match['before']}{HIDDEN}"


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
        elif word.startswith("-") and at + 1 < len(args):
            yield word, args[at + 1]
