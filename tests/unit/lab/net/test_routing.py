"""Damaged nets are refused in a sentence."""

import gzip

import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from lab.net.demand import InvalidDemandError
from lab.net.routing import Roads
from models.networks.shipped import NET_FILE

PACKED = gzip.compress(NET_FILE.read_bytes(), mtime=0)


@pytest.mark.parametrize(
    "content",
    [PACKED[:5000], PACKED[:10] + b"\xff" * 50, PACKED[:-8] + bytes(8), PACKED[:5]],
    ids=["cut off", "overwritten", "with another checksum", "without a body"],
)
def test_a_damaged_archive_is_not_a_net(tmp_path, content):
    path = tmp_path / "town.net.xml.gz"
    path.write_bytes(content)
    with pytest.raises(InvalidDemandError, match=r"is not a SUMO network|cannot be read"):
        Roads(path)
