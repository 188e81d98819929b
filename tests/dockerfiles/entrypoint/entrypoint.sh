#!/bin/bash
set -eu
printf '%s\n' "$@" > /var/lib/app/arguments
[ "$1" = serve ] && exec python3 -m http.server "$2"
exec "$@"
