#!/bin/sh
# Serve's HAProxy, with its metrics and statistics on this machine alone: Serve has both listen on every address, and
# knows no other way (haproxy_templates.py of Ray 2.60). haproxy.py names the program to start.
for config; do
  case $config in
    *.cfg) sed -E -i "s/^( *bind )\*?:($RAY_SERVE_HAPROXY_METRICS_PORT|$RAY_SERVE_HAPROXY_STATS_PORT)\$/\1127.0.0.1:\2/" "$config" ;;
  esac
done
exec "$GREENWAVE_HAPROXY" "$@"
