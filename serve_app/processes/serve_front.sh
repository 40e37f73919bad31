#!/bin/sh
# Serve's HAProxy; serve_front.py has the reasons. haproxy.py names the interpreter.
exec "${GREENWAVE_PYTHON:-python3}" -I "${0%/*}/serve_front.py" "$@"
