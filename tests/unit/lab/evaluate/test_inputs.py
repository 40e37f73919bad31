"""All files that SUMO reads are found: those that files name count, too."""

import gzip

from lab.evaluate.comparison import all_inputs


def test_files_that_are_named_by_files_are_found_at_any_depth(tmp_path):
    folder = tmp_path / "more"
    folder.mkdir()
    first, second, third = tmp_path / "a.rou.xml", folder / "b.xml.gz", folder / "c.xml"
    outer = '<include  href = "more/b.xml.gz"/><include href="a.rou.xml"/>'
    first.write_text(f"<routes>{outer}</routes>")
    inner = '<a><variableSpeedSign file="c.xml"/><edgeData file="written.xml"/></a>'
    second.write_bytes(gzip.compress(inner.encode()))
    third.write_text("<vss/>")
    assert set(all_inputs([first])) == {first, second, third}
    (folder / "c.xml").unlink()
    assert set(all_inputs([first])) == {first, second}
