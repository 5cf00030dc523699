"""What is said of a command line that click cannot read: one sentence, and what to do."""

import re

import click

from supervisor.cli.options import fail

KINDS = (
    (re.compile(r"is not a valid integer( range)?$"), "is not a whole number"),
    (re.compile(r"is not a valid float( range)?$"), "is not a number"),
)
"""click's words for a value of the wrong kind, and ours."""

SURPLUS = re.compile(r"Got unexpected extra arguments? \((.*)\)$", re.DOTALL)
"""What is said of words too many."""


def refuse_usage(error: click.ClickException) -> None:
    """End the command with the sentence about ``error``; a group that was called alone
    shows its help instead, which is no error of anybody's, and the caller goes on."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return
    fail(usage_sentence(error), exit_code=error.exit_code)


def usage_sentence(error: click.ClickException) -> str:
    """What is wrong with the command line, and what to do about it."""
    if isinstance(error, click.NoSuchOption):
        return f"there is no option {error.option_name!r}: {_option(error)}"
    if isinstance(error, click.MissingParameter):
        option = isinstance(error.param, click.Option)  # usage does not name those
        todo = f"{_help(error)} says more" if option else _usage(error)
        return f"{_named(error)} is missing: {todo}"
    if isinstance(error, click.BadParameter):
        return f"{_named(error)}: {_value(error.message)}; {_help(error)} says more"
    if surplus := SURPLUS.match(error.message):
        return f"`{_path(error)}` does not take {surplus[1]!r}: {_usage(error)}"
    text = _uncapitalised(error.format_message())
    if isinstance(error, click.BadOptionUsage):
        return f"{text}: {_help(error)} says more"
    return f"{text}: {_usage(error)}"


def _option(error: click.NoSuchOption) -> str:
    said = [f"{_help(error)} lists them"]
    if _takes_script(error):
        said.insert(
            0,
            "an option of the script stands after the script,"
            f" `{_path(error)} SCRIPT {error.option_name}`",
        )
    meant = " or ".join(map(repr, sorted(error.possibilities or ())))
    return f"{f'did you mean {meant}? ' if meant else ''}{'; '.join(said)}"


def _takes_script(error: click.NoSuchOption) -> bool:
    """Whether the command takes a script with options of its own, which begin there."""
    ctx = error.ctx
    if ctx is None or isinstance(ctx.command, click.Group):
        return False
    return not ctx.allow_interspersed_args


def _named(error: click.BadParameter) -> str:
    """The argument or the option, as help names it."""
    hint = error.param_hint
    if hint is None and error.param is not None:
        hint = error.param.get_error_hint(error.ctx)
    names = "the value" if hint is None else hint
    return (names if isinstance(names, str) else " / ".join(names)).replace("'", "")


def _value(message: str) -> str:
    text = message.removesuffix(".")
    for pattern, ours in KINDS:
        text = pattern.sub(ours, text)
    return text


def _usage(error: click.ClickException) -> str:
    ctx = _context(error)
    if ctx is None:
        return f"{_help(error)} says more"
    pieces = " ".join(ctx.command.collect_usage_pieces(ctx))
    return f"say `{ctx.command_path} {pieces}`; {_help(error)} says more"


def _help(error: click.ClickException) -> str:
    return f"`{_path(error)} --help`"


def _path(error: click.ClickException) -> str:
    ctx = _context(error)
    return "trainwarden" if ctx is None else ctx.command_path


def _context(error: click.ClickException) -> click.Context | None:
    return error.ctx if isinstance(error, click.UsageError) else None


def _uncapitalised(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}".removesuffix(".")
