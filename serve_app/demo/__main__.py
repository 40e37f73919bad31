"""``python -m serve_app.demo``."""

from serve_app.demo.cli import main

raise SystemExit(main())
