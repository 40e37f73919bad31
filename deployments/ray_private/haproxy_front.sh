#!/bin/sh
# Serve's HAProxy; haproxy_front.py has the reasons. haproxy.py names the interpreter.
exec "${GREENWAVE_PYTHON:-python3}" -I "${0%/*}/haproxy_front.py" "$@"
