"""The command ``greenwave``: puts the services' code on the path, and runs their command line."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

NO_SERVICES = "This command needs the services. Install them: pip install greenwave"


def app_folder() -> Path:
    """Return the folder of ``serve_app``: within this package in a wheel, beside it elsewhere."""
    here = Path(__file__).parent
    packaged = here / "_app"
    return packaged if packaged.is_dir() else here.parent


def main() -> int:
    """Run a command, and return its exit code.

    The folder comes first on the path of this process and of all that it starts: a user's own
    ``models`` or ``lab`` must not take the place of ours.
    """
    folder = str(app_folder())
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, inherited]))
    sys.path.insert(0, folder)
    try:
        command_line = import_module("serve_app.cli.main")
    except ModuleNotFoundError:
        sys.stderr.write(f"{NO_SERVICES}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    code: int = command_line.main()
    return code


if __name__ == "__main__":
    sys.exit(main())
