#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The library exports what its headers declare, all of it and nothing else, with the versions that old binaries ask for.
# usage: check-symbols.sh NM LIBRARY HEADERS
set -u
nm=$1 library=$2 headers=$3
exported=$("$nm" -D --defined-only "$library" | awk '$2 != "A" {sub(/@.*/, "", $3); print $3}' | sort) || exit 1
declared=$(sed -E 's|/\*.*\*/||' "$headers"/*.h | grep -oE '^(extern )?[a-z].*\b(mx_[a-z_0-9]+\(|MX_ERRORS_[A-Z_]+;)' |
	grep -v '^typedef' | grep -oE '(mx__?[a-z_0-9]+\($|MX_ERRORS_[A-Z_]+)' | tr -d '(' | sort)
if [ "$exported" != "$declared" ]; then
	echo "exported (<) and declared (>) differ:"
	diff <(echo "$exported") <(echo "$declared")
	exit 1
fi
versions=$("$nm" -D --defined-only --with-symbol-versions "$library" | grep -oE '[a-z_]+@@MX_[0-9.]+' | sort | tr '\n' ' ')
expected="mx__init_api@@MX_0.92 mx_decompose_endpoint_addr@@MX_0.9 mx_get_info@@MX_0.91 mx_iprobe@@MX_0.91 \
mx_open_endpoint@@MX_0.9 mx_test@@MX_0.91 mx_wait@@MX_0.91 "
if [ "$versions" != "$expected" ]; then
	echo "versions: $versions"
	echo "expected: $expected"
	exit 1
fi
