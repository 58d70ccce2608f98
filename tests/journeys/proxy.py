"""nginx, Caddy and Traefik of a test's own, with configurations from docs/deployment/proxies.md or changed ones."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from config.folders import ROOT
from tests.certificates import Pair
from tests.conftest import need

PAGE = ROOT / "docs" / "deployment" / "proxies.md"
NAME = "callboard.example.org"
FOLDER = "/etc/ssl/callboard"
NGINX = """\
daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr;
events {{ worker_connections 256; }}
http {{
access_log off;
client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
{servers}
}}
"""


def example(language: str, beginning: str = "") -> str:
    """Return the page's only example in this language that begins so."""
    (snippet,) = re.findall(rf"^```{language}\n({beginning}.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return str(snippet)


def adapted(text: str, pair: Pair, port: int, web_port: int) -> str:
    """Return an example with a test's own ports, files and name."""
    text = text.replace("127.0.0.1:8000", f"127.0.0.1:{web_port}").replace(NAME, "localhost")
    text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl").replace("localhost {", f"localhost:{port} {{")
    return text.replace(f"{FOLDER}/server.pem", str(pair.certificate)).replace(f"{FOLDER}/server.key", str(pair.key))


@contextmanager
def nginx(servers: str, folder: Path, port: int) -> Iterator[None]:
    program = need(shutil.which("nginx") or shutil.which("/usr/sbin/nginx"), "nginx")
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, servers=servers))
    with running([program, "-p", str(folder), "-c", str(config), "-e", "stderr"], folder, port):
        yield


@contextmanager
def caddy(site: str, folder: Path, port: int) -> Iterator[None]:
    config = folder / "Caddyfile"
    config.write_text(f"{{\n\tadmin off\n\tauto_https disable_redirects\n}}\n{site}")
    program = need(shutil.which("caddy"), "caddy")
    with running([program, "run", "--config", str(config), "--adapter", "caddyfile"], folder, port):
        yield


@contextmanager
def traefik(dynamic: str, folder: Path, port: int, program: str) -> Iterator[None]:
    config = folder / "callboard.yaml"
    config.write_text(dynamic)
    options = [f"--entryPoints.websecure.address=127.0.0.1:{port}", f"--providers.file.filename={config}"]
    quiet = ["--global.checkNewVersion=false", "--global.sendAnonymousUsage=false"]
    with running([program, *options, *quiet], folder, port):
        until_ready(port)  # it listens before it has read the file
        yield


def until_ready(port: int) -> None:
    """Return once the web process answers through the proxy."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    deadline = time.monotonic() + 30
    while True:
        try:
            with closing(http.client.HTTPSConnection("localhost", port, context=context, timeout=5)) as connection:
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
        except (OSError, http.client.HTTPException):
            pass
        assert time.monotonic() < deadline
        time.sleep(0.05)  # another process; only its answers show that it serves


@contextmanager
def running(command: list[str], folder: Path, port: int) -> Iterator[None]:
    """Run a proxy until it accepts connections, and end it afterwards."""
    log, home = (
        folder / "proxy.log",
        {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)},
    )
    with log.open("wb") as out:
        child = subprocess.Popen(command, cwd=folder, env={**os.environ, **home}, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert child.poll() is None, log.read_text()[-3000:]
                assert time.monotonic() < deadline, log.read_text()[-3000:]
                time.sleep(0.05)  # another process; only its port shows that it serves
        yield
    finally:
        child.terminate()
        child.wait(15)
