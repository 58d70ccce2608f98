"""Mount lists as kernels write them, and what is on a network disk by them."""

from pathlib import Path

import pytest

from tests.web.doctor.conftest import only
from web.doctor.database import check_disks, mount_of, read_mounts

LAPTOP = """\
22 28 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw
24 28 0:5 / /dev rw,nosuid,relatime shared:2 - devtmpfs udev rw,size=8098404k,nr_inodes=2024601,mode=755,inode64
28 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
95 28 259:1 / /boot/efi rw,relatime shared:46 - vfat /dev/nvme0n1p1 rw,fmask=0077,dmask=0077,codepage=437
310 28 0:52 / /home/ada/remote rw,nosuid,nodev,relatime shared:161 - fuse.sshfs ada@build:/srv rw,user_id=1000
320 28 0:55 / /mnt/media\\040box rw,relatime shared:170 - cifs //nas/media rw,vers=3.1.1,username=ada
"""
SERVER = """\
25 30 0:23 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
30 1 252:1 / / rw,relatime shared:1 - xfs /dev/vda1 rw,attr2,inode64,logbufs=8,logbsize=32k,noquota
41 30 0:36 / /srv rw,relatime shared:22 - nfs4 10.0.0.5:/export rw,vers=4.2,hard,proto=tcp,sec=sys,addr=10.0.0.5
42 41 252:16 / /srv/local rw,relatime shared:23 - ext4 /dev/vdb rw
"""
CONTAINER = """\
733 649 0:66 / / rw,relatime master:244 - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/AB,upperdir=/u
734 733 0:69 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
740 733 0:71 /volumes/data /data rw,relatime - 9p drvfs rw,dirsync,aname=drvfs;path=C:\\134,trans=virtio
741 733 254:1 /docker/volumes/cb/_data /data/fast rw,relatime master:30 shared:9 - ext4 /dev/vda1 rw
742 733 0:80 / /stack rw - ext4 /dev/vdc rw
743 742 0:81 / /stack rw - ceph 10.1.0.2:6789:/ rw,name=admin
"""


@pytest.mark.parametrize(
    ("mountinfo", "path", "kind", "is_network"),
    [
        (LAPTOP, "/home/ada/callboard/.callboard", "ext4", False),
        (LAPTOP, "/home/ada/remote/state", "fuse.sshfs", True),
        (LAPTOP, "/home/ada/remote-not/state", "ext4", False),
        (LAPTOP, "/mnt/media box/state", "cifs", True),
        (SERVER, "/srv/callboard", "nfs4", True),
        (SERVER, "/srv/local/callboard", "ext4", False),
        (SERVER, "/srv/localhost", "nfs4", True),
        (CONTAINER, "/app/.callboard", "overlay", False),
        (CONTAINER, "/data/callboard.db", "9p", True),
        (CONTAINER, "/data/fast/callboard.db", "ext4", False),
        (CONTAINER, "/stack/x", "ceph", True),
    ],
)
def test_a_path_is_on_the_longest_mount_above_it_and_the_last_of_equals(mountinfo, path, kind, is_network):
    mount = mount_of(Path(path), mountinfo)

    assert mount is not None
    assert (mount.kind, mount.is_network) == (kind, is_network)


def test_what_is_no_mount_is_passed_over():
    assert read_mounts("") == []
    assert read_mounts("garbage\n1 2 3\n" + SERVER.splitlines()[1] + " - \n") != []
    assert mount_of(Path("/x"), "36 35 98:0 / /mnt rw - ext4 /dev/sda rw\n") is None


def test_this_machines_own_list_can_be_read():
    mount = mount_of(Path("/proc/self"), Path("/proc/self/mountinfo").read_text())

    assert mount is not None
    assert mount.kind == "proc"


def test_sqlite_on_a_network_disk_is_refused(settings):
    there = settings.model_copy(update={"database_url": "sqlite:////srv/callboard.db"})

    verdict, text = only(check_disks(there, SERVER))

    assert verdict == "fail"
    assert "/srv/callboard.db" in text
    assert "nfs4 at /srv" in text
    assert "Postgres" in text


def test_a_state_folder_on_a_network_disk_is_a_warning_where_the_database_is_not(settings, tmp_path):
    elsewhere = {"state_dir": Path("/srv/state"), "database_url": "postgresql+psycopg://callboard@db/callboard"}
    there = settings.model_copy(update=elsewhere)

    verdict, text = only(check_disks(there, SERVER))

    assert (verdict, "CALLBOARD_STATE_DIR" in text) == ("warn", True)


def test_the_database_in_such_a_state_folder_is_reported_first(settings):
    there = settings.model_copy(update={"state_dir": Path("/srv/state"), "database_url": None})

    findings = list(check_disks(there, SERVER))

    assert [verdict for verdict, _ in findings] == ["fail", "warn"]


def test_a_disk_of_this_machine_is_fine(settings):
    assert only(check_disks(settings, SERVER))[0] == "ok"
    assert only(check_disks(settings))[0] == "ok"
