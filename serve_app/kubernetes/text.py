"""YAML as people read it: texts of several lines as they are, and everything else in full."""

from __future__ import annotations

from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _write_text)


def to_yaml(*documents: dict[str, Any]) -> str:
    text: str = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False)
    return text
