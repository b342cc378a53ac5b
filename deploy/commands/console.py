"""``headrace console``: the web console on a port of this machine, while this command runs."""

import ipaddress
from typing import Annotated

import typer

from deploy.commands.options import ConfigDir, DataDir, Json, paths_of
from deploy.errors import NotRunning, PortTaken
from deploy.launcher.lock import is_running

HOST, PORT = "127.0.0.1", 8420
URL = f"http://{HOST}:{PORT}/console"
"""Where it is while `headrace console` runs, unless that is told another place."""


def console(
    data_dir: DataDir,
    config_dir: ConfigDir,
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)] = PORT,
    host: Annotated[str, typer.Option(help="Address to listen on. Another than loopback needs --behind-https.")] = HOST,
    behind_https: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name under which a proxy with TLS serves it: reviews.example.com")
    ] = None,
    json: Json = False,
) -> None:
    """Serve the web console for reviewers and ML engineers until Ctrl+C.

    It asks for a key of role reviewer, trainer or admin, and for a purpose; every read is on record with it. Make a key with
    `headrace keys create --tenant acme --role reviewer`.

    Example: headrace console --port 8420
    """
    import msgspec

    from dataproxy.console.relay import create_relay, listen, server_on

    if behind_https is None and not _is_loopback(host):
        raise typer.BadParameter(
            f"{host} is open to others, and keys would cross the network in the clear; put a proxy with TLS in front and name "
            "it by --behind-https",
            param_hint="--host",
        )
    paths = paths_of(data_dir, config_dir)
    if not is_running(paths.run_dir):
        raise NotRunning(
            f"No Headrace runs on {paths.data_dir}. Start it with `headrace up`, or point --data-dir and --config-dir at it."
        )
    try:
        listener = listen(host, port)
    except OSError as error:
        raise PortTaken(f"Cannot listen on {host} port {port}: {error.strerror}. Choose another by --port.") from error
    bound = listener.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    names = {f"{shown}:{bound}", f"localhost:{bound}"} if behind_https is None else {behind_https}
    url = f"https://{behind_https}/console" if behind_https is not None else f"http://{shown}:{bound}/console"
    print(msgspec.json.encode({"url": url}).decode() if json else f"{url}   (Ctrl+C ends it)", flush=True)
    with listener:
        server_on(create_relay(paths.socket, names, behind_https is not None)).run(sockets=[listener])


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
