"""What is written, and where: links, modes, devices and pipes."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

import gswarm


@pytest.fixture(scope="module")
def result() -> gswarm.Result:
    return gswarm.run(gswarm.generate("simple", requests=5), "baseline", gpus=4)


def test_what_is_no_file_is_written_to_and_stays(result: gswarm.Result, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left on device") as raised:
        result.save("/dev/full")
    assert raised.value.filename == "/dev/full"
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    result.save(pipe)
    reader.join(timeout=120)
    assert read == [result.log()]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_links_are_followed_and_modes_are_kept(result: gswarm.Result, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "log.json"
    link = tmp_path / "link.json"
    link.symlink_to(target)
    result.save(link)
    assert link.is_symlink()
    assert target.read_bytes() == result.log(), "one that leads nowhere makes the file"
    target.chmod(0o600)
    target.write_text("old")
    result.save(link)
    assert target.read_bytes() == result.log()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    page = result.report(tmp_path / "page.html")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(page.stat().st_mode) == 0o666 & ~mask
    assert not list(tmp_path.rglob(".*partial"))


def test_errors_name_the_path_that_was_given(result: gswarm.Result, tmp_path: Path) -> None:
    for path in (tmp_path / "absent" / "log.json", tmp_path):
        with pytest.raises(OSError) as raised:  # noqa: PT011
            result.save(path)
        assert raised.value.filename == str(path)
        assert "partial" not in str(raised.value)
