"""What the runners' tests need of the machine: a container engine with an image, a server, and the processes left."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil

from tests.conftest import need

PLACES = "/usr/bin:/bin:/usr/sbin:/sbin"
BEHAVE = Path(__file__).with_name("behave.sh")
PROGRAMS = "sed sh cat wc yes head sleep setsid env sort tr id ls touch wget echo seq".split()


def container_engine(storage: Path) -> str:
    """Return the setting of an engine with a storage of its own; skips the test where the machine has none."""
    podman, runc = (need(shutil.which(name, path=PLACES), name) for name in ("podman", "runc"))
    places = f"--root {storage / 'root'} --runroot {storage / 'run'} --tmpdir {storage / 'tmp'}"
    return f"{podman} {places} --storage-driver vfs --runtime {runc} --cgroup-manager cgroupfs --events-backend none"


def import_image(engine: str, folder: Path, name: str) -> str:
    """Make an image of busybox and ``behave.sh``, and return its name."""
    busybox = need(shutil.which("busybox", path=PLACES), "busybox-static")
    root = folder / "image"
    for directory in ("bin", "tmp"):
        (root / directory).mkdir(parents=True)
    shutil.copy(busybox, root / "bin" / "busybox")
    for program in PROGRAMS:
        (root / "bin" / program).symlink_to("busybox")
    shutil.copy(BEHAVE, root / "behave.sh")
    archive = folder / "image.tar"
    subprocess.run(["tar", "--create", f"--file={archive}", f"--directory={root}", "."], check=True)
    subprocess.run([*engine.split(), "import", str(archive), name], check=True, capture_output=True)
    return name


def containers(engine: str) -> list[str]:
    """Return the names of all containers of an engine, also of those that have ended."""
    listing = [*engine.split(), "ps", "--all", "--format", "{{.Names}}"]
    return subprocess.run(listing, check=True, capture_output=True, text=True).stdout.split()


def processes_with(variable: str) -> list[psutil.Process]:
    """Return the living processes whose environment has ``NAME=value``."""
    processes = []
    for process in psutil.process_iter():
        try:
            if variable.encode() in Path(f"/proc/{process.pid}/environ").read_bytes():
                processes.append(process)
        except OSError:
            continue
    return [candidate for candidate in processes if candidate.is_running() and candidate.pid != os.getpid()]


def eventually(is_true: Callable[[], object], timeout_s: float = 10.0) -> bool:
    """Return whether it becomes true in time."""
    until_s = time.monotonic() + timeout_s
    while not is_true():
        if time.monotonic() > until_s:
            return False
        time.sleep(0.02)
    return True


class _Behaviour(BaseHTTPRequestHandler):
    """Does what the argument ``do`` of a call says."""

    protocol_version = "HTTP/1.0"
    seen: list[dict[str, str]]
    stop: threading.Event

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append(dict(self.headers))
        does = json.loads(body).get("do")
        answers = {
            "echo": (200, body),
            "size": (200, str(len(body)).encode()),
            "not_json": (200, b"three words here"),
            "nothing": (200, b""),
            "fail": (500, "the reason: kein Fünfer".encode()),
            "gateway": (502, b"no answer"),
        }
        if does == "flood":
            self._flood()
            return
        if does not in answers:
            self.stop.wait(60)
        status, text = answers.get(does, (200, b"0"))
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        except OSError:
            return

    def _flood(self) -> None:
        """Send a text of 100 MB whose length is not declared, in pieces: this process is the one that is measured."""
        piece = b"x" * 1_000_000
        with suppress(OSError):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'"')
            for _ in range(100):
                self.wfile.write(piece)

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def endpoint() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Serve the behaviours over HTTP; yields the address, and the headers of the requests so far."""
    kind = type("Handler", (_Behaviour,), {"seen": [], "stop": threading.Event()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/do", kind.seen  # type: ignore[attr-defined]
    finally:
        kind.stop.set()  # type: ignore[attr-defined]
        server.shutdown()
        server.server_close()
        thread.join()
