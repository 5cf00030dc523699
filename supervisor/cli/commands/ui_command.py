"""``trainwarden ui``: a read-only page in a browser, on loopback."""

import json
import socket
from pathlib import Path

import click

from supervisor.cli.command_hint import placing
from supervisor.cli.options import fail, json_option
from supervisor.cli.sources.box_site import BoxSite
from supervisor.cli.sources.box_source import source_of
from supervisor.cli.sources.daemon_client import box_option, tell_gone
from supervisor.web.page_server import PageServer, new_secret


@click.command()
@json_option
@box_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Of 127.0.0.1. Default: any that is free.",
)
def ui(*, as_json: bool, state_dir: Path | None, port: int) -> None:
    """Show jobs, incidents and GPUs in a browser, live; Ctrl-C ends it.

    It shows what `status` and `report` would show you, and changes nothing. Whoever has
    the address that it prints sees the same, so it has a secret in it: keep it.

    Example: trainwarden ui --port 8080
    """
    site = BoxSite(source=lambda: source_of(state_dir), place=placing())
    if source_of(state_dir).client is None:
        tell_gone(state_dir)
    try:
        server = PageServer(site, port=port, secret=new_secret())
    except OSError as error:
        fail(
            f"cannot listen on 127.0.0.1:{port}: {error.strerror}; name another with "
            "--port, or leave it out for one that is free",
            exit_code=1,
        )
    with server:
        _tell(server, as_json=as_json)
        try:
            server.serve()
        except KeyboardInterrupt:
            click.echo("ended", err=True)


def _tell(server: PageServer, *, as_json: bool) -> None:
    """Where it is: at once, whoever reads."""
    if as_json:
        click.echo(json.dumps({"url": server.url, "port": server.port}))
    else:
        click.echo(f"open {server.url}")
        way = f"ssh -L {server.port}:127.0.0.1:{server.port} {socket.gethostname()}"
        click.echo(
            f"on this machine; from another: `{way}`, and the same address there"
        )
