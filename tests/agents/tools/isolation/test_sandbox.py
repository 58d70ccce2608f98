"""Nothing outside the sandbox folder can be read, written or replaced, by whatever name and at whatever moment."""

import os
import shutil
import socket
import tarfile
import threading
import time
import unicodedata
from contextlib import suppress
from pathlib import Path

import pytest

from agents.errors import PathRefused
from agents.tools.isolation import sandbox as beneath
from agents.tools.isolation.sandbox import (
    MAX_READ,
    MAX_WRITE,
    Quota,
    Sandbox,
    best_opener,
    open_by_kernel,
    open_by_walk,
)

pytestmark = pytest.mark.parity

SECRET = "the secret outside"
OPENERS = [open_by_walk, *([open_by_kernel] if best_opener() is open_by_kernel else [])]


def furnish(tmp_path):
    """Return a sandbox's folder with neighbours that would like to be read."""
    inside = tmp_path / "sandbox"
    (inside / "deep").mkdir(parents=True)
    (inside / "notes.txt").write_text("inside")
    (inside / "deep" / "more.txt").write_text("deeper")
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "sandbox-evil").mkdir()
    (tmp_path / "sandbox-evil" / "s").write_text(SECRET)
    (inside / "to-file").symlink_to(tmp_path / "secret.txt")
    (inside / "to-folder").symlink_to(tmp_path)
    (inside / "relative").symlink_to("../secret.txt")
    (inside / "itself").symlink_to("itself")
    (inside / "to-notes").symlink_to("notes.txt")
    (inside / "to-root").symlink_to("/")
    (inside / "to-self").symlink_to("/proc/self")
    os.link(tmp_path / "secret.txt", inside / "hard")
    os.mkfifo(inside / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(inside)  # a socket's path may have 107 characters and no more
        listener.bind("socket")
        os.chdir(here)
    with (inside / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    return inside


@pytest.fixture
def folder(tmp_path):
    return furnish(tmp_path)


@pytest.fixture(params=OPENERS, ids=lambda opener: opener.__name__)
def sandbox(folder, request):
    return Sandbox(folder, opener=request.param, quota=Quota(max_bytes=0))  # one file is a terabyte of zeros


UPWARDS = """
    ../secret.txt deep/../../secret.txt ../sandbox/notes.txt ./../secret.txt .. deep/.. . ./ deep/. ../sandbox-evil/s
    -evil/../../sandbox-evil/s
""".split()
ABSOLUTE = """
    /etc/passwd //etc/passwd / /proc/self/environ /proc/self/root/etc/passwd /proc/self/fd/0 /dev/zero /dev/stdin
""".split()
THROUGH_LINKS = """
    to-file to-folder/secret.txt to-folder/sandbox-evil/s relative itself to-notes to-root/etc/passwd to-self/environ
""".split()
NO_FILES = "hard fifo socket deep deep/ notes.txt/x".split()
RESERVED = [".callboard-1", "deep/.callboard-0123456789abcdef"]
UNREADABLE = ["", "a\0b", "notes.txt\0", "notes.txt\n", "\x1b[31mred", "half \ud800", "gpj.\u202etxt"]
TOO_LONG = ["x" * 256, "a/" * 600 + "b", "a/" * 3000 + "b", "x" * 5000]
OUTSIDE = [*UPWARDS, *ABSOLUTE, *THROUGH_LINKS, *NO_FILES, *UNREADABLE, *TOO_LONG, *RESERVED]


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: ascii(path)[:40])
def test_reading_is_refused(sandbox, path):
    with pytest.raises(PathRefused) as caught:
        sandbox.read_text(path)

    assert SECRET not in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: ascii(path)[:40])
def test_writing_is_refused_and_changes_nothing_outside(sandbox, folder, path):
    with pytest.raises(PathRefused):
        sandbox.write_text(path, "changed")

    assert (folder.parent / "secret.txt").read_text() == SECRET
    assert (folder.parent / "sandbox-evil" / "s").read_text() == SECRET
    assert sorted(os.listdir(folder.parent)) == ["sandbox", "sandbox-evil", "secret.txt"]
    assert (folder / "notes.txt").read_text() == "inside"
    assert not [name for name in os.listdir(folder) if name.startswith(".callboard-")]


LITERAL = [
    *r"%2e%2e%2fsecret.txt ..%2fsecret.txt ~root ~/x C:\secret.txt \\host\share file:secret.txt".split(),
    *r"．．／secret.txt ..\secret.txt ... a..b notes.txt. -rf $HOME * Ⅷ.txt NOTES.TXT .hidden".split(),
    "notes.txt ",
    " notes.txt",
    "x" * 255,
]


@pytest.mark.parametrize("path", LITERAL, ids=lambda path: ascii(path)[:40])
def test_what_only_looks_like_a_way_out_is_a_name(sandbox, folder, path):
    with pytest.raises(PathRefused, match="no such file"):
        sandbox.read_text(path)

    sandbox.write_text(path, "mine")

    assert (folder / path).read_text() == "mine"
    assert sandbox.read_text(path) == "mine"
    assert (folder / "notes.txt").read_text() == "inside"


def test_two_forms_of_one_letter_are_two_names(sandbox):
    sandbox.write_text(unicodedata.normalize("NFC", "é.txt"), "one")
    sandbox.write_text(unicodedata.normalize("NFD", "é.txt"), "two")

    assert sandbox.read_text(unicodedata.normalize("NFC", "é.txt")) == "one"


def test_a_url_is_no_path_of_a_file(sandbox, folder):
    with pytest.raises(PathRefused, match="it has empty or"):
        sandbox.write_text("file:///etc/passwd", "mine")

    assert not (folder / "file:").exists()


def test_reads_and_writes_in_folders(sandbox, folder):
    size = sandbox.write_text("a/b/c.txt", "grüß\n")

    assert size == 7
    assert (folder / "a" / "b" / "c.txt").read_text() == "grüß\n"
    assert sandbox.read_text("deep/more.txt") == "deeper"


@pytest.mark.parametrize("path", "./notes.txt .//notes.txt deep//more.txt deep/./more.txt ././deep/more.txt".split())
def test_a_file_has_one_path(sandbox, path):
    usual = "notes.txt" if "deep" not in path else "deep/more.txt"

    for operation in (sandbox.read_text, lambda path: sandbox.write_text(path, "x"), sandbox.files):
        with pytest.raises(PathRefused, match=f"write '{usual}'"):
            operation(path)


def test_writing_twice_replaces_and_leaves_nothing_behind(sandbox, folder):
    sandbox.write_text("notes.txt", "longer than before")
    sandbox.write_text("notes.txt", "new")

    assert (folder / "notes.txt").read_text() == "new"
    assert not [name for name in os.listdir(folder) if name.startswith(".callboard-")]


def test_sizes_are_capped(sandbox, folder):
    (folder / "large").write_bytes(b"x" * (MAX_READ + 1))
    (folder / "fits").write_bytes(b"x" * MAX_READ)

    with pytest.raises(PathRefused, match="at most 262,144 are read"):
        sandbox.read_text("large")
    with pytest.raises(PathRefused, match="at most 1,048,576 are written"):
        sandbox.write_text("new", "é" * (MAX_WRITE // 2 + 1))
    assert len(sandbox.read_text("fits")) == MAX_READ


def test_a_huge_file_without_content_is_not_read(sandbox):
    with pytest.raises(PathRefused, match="1,099,511,627,776 bytes"):
        sandbox.read_text("sparse")


def test_bytes_that_are_no_text_are_replaced(sandbox, folder):
    (folder / "odd").write_bytes(b"a\xffb")

    assert sandbox.read_text("odd") == "a\ufffdb"


def test_lists_plain_files_only(sandbox):
    assert [(file.path, file.size) for file in sandbox.files()] == [
        ("deep/more.txt", 6),
        ("hard", len(SECRET)),
        ("notes.txt", 6),
        ("sparse", 1 << 40),
    ]
    assert [file.path for file in sandbox.files("deep")] == ["deep/more.txt"]


@pytest.mark.parametrize("path", ["..", "/", "to-folder", "to-root", "notes.txt", "fifo", "nowhere"])
def test_listing_elsewhere_is_refused(sandbox, path):
    with pytest.raises(PathRefused):
        sandbox.files(path)


def test_writing_through_an_unpacked_link_is_refused(sandbox, folder, tmp_path):
    archive = tmp_path / "evil.tar"
    with tarfile.open(archive, "w") as tar:
        link = tarfile.TarInfo("docs")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        tar.addfile(link)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="fully_trusted")

    with pytest.raises(PathRefused):
        sandbox.write_text("docs/planted.txt", "x")
    assert not (tmp_path / "planted.txt").exists()


@pytest.mark.parametrize("opener", OPENERS)
def test_another_file_system_below_the_folder_is_not_entered(opener):
    for path in ("proc/version", "proc/self/environ", "proc/self/root/etc/hostname", "proc/1/fd/0", "dev/shm/x"):
        with pytest.raises(PathRefused):
            Sandbox(Path("/"), opener=opener).read_text(path)


def test_the_sandbox_folder_itself_may_be_behind_a_link(folder, tmp_path):
    (tmp_path / "alias").symlink_to(folder)

    assert Sandbox(tmp_path / "alias").read_text("notes.txt") == "inside"


def test_a_swap_between_folder_and_link_never_lets_anything_out(sandbox, folder, tmp_path):
    """A thread swaps a folder for a link to the outside, over and over, while we read and write through it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file.txt").write_text(SECRET)
    name, target, new = folder / "swapped", folder / "real", folder / "new.txt"
    over, swaps = threading.Event(), []

    def swap():
        while not over.is_set():
            with suppress(OSError):
                os.symlink(outside, name)
                swaps.append("link")
                os.unlink(name)
            with suppress(OSError):
                target.mkdir(exist_ok=True)
                new.write_text("inside")
                os.replace(new, target / "file.txt")  # whole at any time: a reader may have opened it before the rename
                os.rename(target, name)
                os.rename(name, target)
            if not name.is_symlink():  # the writer made the folder it needed
                shutil.rmtree(name, ignore_errors=True)

    thread = threading.Thread(target=swap)
    thread.start()
    seen, until = set(), time.monotonic() + 0.4
    while time.monotonic() < until:
        with suppress(PathRefused):
            seen.add(sandbox.read_text("swapped/file.txt"))
        with suppress(PathRefused):
            sandbox.write_text("swapped/file.txt", "inside")
    over.set()
    thread.join()

    assert seen <= {"inside"}
    assert swaps
    assert (outside / "file.txt").read_text() == SECRET
    assert os.listdir(outside) == ["file.txt"]


def test_the_walk_stands_in_where_the_kernel_cannot(monkeypatch):
    def forbidden(*_):
        raise PermissionError

    best_opener.cache_clear()
    monkeypatch.setattr(beneath, "open_by_kernel", forbidden)

    assert best_opener() is open_by_walk
    best_opener.cache_clear()


def test_no_descriptor_is_left_open(sandbox):
    before = len(os.listdir("/proc/self/fd"))
    for path in [*OUTSIDE, "notes.txt", "deep/more.txt"]:
        with suppress(PathRefused):
            sandbox.read_text(path)
        with suppress(PathRefused):
            sandbox.write_text(path, "x")
        with suppress(PathRefused):
            sandbox.files(path)

    assert len(os.listdir("/proc/self/fd")) == before
