#!/bin/bash
set -eu
echo "bc $(echo '6*7' | bc)"
echo "tree $(tree --version | cut -d' ' -f2 | head -c1)"
python3 -c 'import six, idna; print("six", six.__version__, "idna", idna.encode("ždeň").decode())'
