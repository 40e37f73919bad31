"""``make audit``: known vulnerabilities of the pinned packages.

pip-audit skips a package that its database does not answer for, and exits with 0. This module
reports such a package as unchecked, and exits with 2.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

FOUND, NO_VERDICT = 1, 2
TIMEOUT_S = 600.0


def verdict(report: dict[str, Any]) -> tuple[int, list[str]]:
    """Return the exit code and the lines for pip-audit's report."""
    packages = report["dependencies"]
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    found = list(_findings(packages))
    lines = [f"{len(packages) - len(skipped)} packages were looked up, {len(found)} findings."]
    if skipped:
        more = "" if len(skipped) <= 3 else ", …"
        lines.append(
            f"No verdict on {len(skipped)} of {len(packages)} packages: the advisory database does"
            f" not answer for {', '.join(skipped[:3])}{more}."
        )
    return FOUND if found else NO_VERDICT if skipped else 0, found + lines


def _findings(packages: Sequence[dict[str, Any]]) -> Iterator[str]:
    for package in packages:
        for each in package.get("vulns", ()):
            fixed = ", ".join(each["fix_versions"]) or "no version"
            yield f"{package['name']} {package['version']}: {each['id']}, fixed in {fixed}"


def main() -> int:
    requirements = sys.argv[1]
    command = [str(Path(sys.executable).with_name("pip-audit")), "--requirement", requirements]
    command += ["--no-deps", "--disable-pip", "--progress-spinner=off", "--format=json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
        report = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        said = done.stderr.strip().splitlines()[-1:] if isinstance(error, ValueError) else [error]
        why = "".join(map(str, said))
        sys.stdout.write(f"No verdict: the advisory database is out of reach ({why}).\n")
        return NO_VERDICT
    code, lines = verdict(report)
    sys.stdout.write("\n".join(lines) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
