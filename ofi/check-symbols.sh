#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The provider exports its entry point and nothing else, and needs no function of libfabric.
# usage: check-symbols.sh NM MODULE
set -u
nm=$1 module=$2
exported=$("$nm" -D --defined-only "$module" | awk '$2 != "A" {print $3}') || exit 1
if [ "$exported" != fi_prov_ini ]; then
	echo "exported, expected fi_prov_ini only:"
	echo "$exported"
	exit 1
fi
needed=$("$nm" -D --undefined-only "$module" | awk '{print $NF}') || exit 1
if [ -z "$needed" ]; then
	echo "no undefined symbol at all: nm did not read the module"
	exit 1
fi
if grep -E '^(_?fi_|ofi|sn_)' <<<"$needed"; then
	echo "these must not be needed from outside"
	exit 1
fi
