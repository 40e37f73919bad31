"""A folder is used only if no other user can read, write or replace what is in it."""

import os
import stat
from pathlib import Path

import pytest

from serve_app.errors import InstanceError
from serve_app.processes.haproxy import front_files
from serve_app.processes.instance import LONGEST_FOLDER, Instance
from serve_app.processes.ports import Ports
from serve_app.processes.private_folder import make_private, user_folder

ANOTHER_USER = 65534

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="Only root can give a folder away.")


def mode_of(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def refuse(folder: Path, sentence: str) -> None:
    with pytest.raises(InstanceError, match=sentence) as refused:
        make_private(folder)
    assert "\n" not in str(refused.value)


@pytest.fixture
def shared(tmp_path):
    """Return a folder like /tmp: each user may create entries in it."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def test_one_that_others_could_read_is_closed_and_that_is_reported(shared, caplog):
    folder = shared / "data"
    folder.mkdir()
    folder.chmod(0o755)
    make_private(folder)
    assert mode_of(folder) == 0o700
    assert caplog.messages == [f"{folder} was open to other users; its mode is now 0700."]


def test_one_that_others_could_write_to_is_refused_as_it_is(shared):
    folder = shared / "data"
    folder.mkdir()
    folder.chmod(0o777)
    refuse(folder, f"Other users can write to {folder}. .* run `chmod 700 {folder}`")
    assert mode_of(folder) == 0o777


@as_root
@pytest.mark.parametrize("squatted", ["greenwave-1000", "greenwave-1000/8000"])
def test_one_that_another_user_made_first_is_refused(shared, squatted):
    folder = shared / squatted
    folder.mkdir(mode=0o777, parents=True)
    os.chown(folder, ANOTHER_USER, ANOTHER_USER)
    refuse(shared / "greenwave-1000" / "8000", rf"{folder} belongs to the user \w+\. Have it")


@as_root
def test_a_link_of_another_user_on_the_way_is_refused(shared, tmp_path):
    link = shared / "greenwave-1000"
    link.symlink_to(tmp_path)
    os.lchown(link, ANOTHER_USER, ANOTHER_USER)
    refuse(link / "8000", f"{link} belongs to the user")


@pytest.mark.parametrize("make", [Path.touch, lambda data: data.symlink_to(data.parent)])
def test_a_link_or_a_file_in_its_place_is_refused(shared, make):
    make(shared / "data")
    refuse(shared / "data", f"{shared / 'data'} is a link or a file")


@pytest.mark.parametrize("through_a_link", [False, True])
def test_a_folder_above_in_which_others_can_rename_is_refused(shared, tmp_path, through_a_link):
    shared.chmod(0o777)
    way = shared
    if through_a_link:
        way = tmp_path / "link"
        way.symlink_to(shared)
    refuse(way / "data", rf"replace what is in {shared}. Run `chmod go-w {shared}`, or `chmod \+t`")


@as_root
def test_a_folder_above_may_be_written_by_the_own_group_and_no_other(shared):
    above = shared / "home"
    above.mkdir()
    above.chmod(0o775)
    umask = os.umask(0)
    try:
        make_private(above / "data" / "8000")
    finally:
        os.umask(umask)
    assert mode_of(above / "data") == mode_of(above / "data" / "8000") == 0o700
    os.chown(above, 0, ANOTHER_USER)
    above.chmod(0o775)
    refuse(above / "data", f"replace what is in {above}")


def test_a_system_whose_sockets_would_have_too_long_paths_is_refused_in_one_sentence(tmp_path):
    folder = Path("/tmp", "x" * 40)
    with pytest.raises(InstanceError, match=rf"{folder} has 45 bytes, and more than") as refused:
        Instance(tmp_path, temp_dir=folder).start()
    assert "\n" not in str(refused.value)
    assert not folder.exists()


def test_the_usual_folder_of_every_user_leaves_room_for_sockets(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 2**32 - 2)
    assert user_folder() == Path("/tmp/greenwave-4294967294")
    usual = Instance(tmp_path, Ports.from_base(65035)).runtime_dir
    assert len(str(usual)) <= LONGEST_FOLDER
    files = front_files(usual / "ha" / ("n" * 56))
    sockets = [path for name, path in files.items() if name.endswith("SOCKET_PATH")]
    assert len(sockets) == 2
    assert max(map(len, sockets)) <= 97
    session = usual / "ray" / "session_2026-11-28_01-07-30_123456_4194304"
    assert len(str(session / "sockets" / "plasma_store")) <= 107
