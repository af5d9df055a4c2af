#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# documented.sh: every counter and every parameter of the module is in its manual page, and the page names no others.
. "$(dirname "$0")/common.sh"

page=$root/docs/man/sennit-kmod.4
status=0
counters=$(grep -o '\[SENNIT_C_[A-Z_]*\] = "[a-z_]*"' "$root/kmod/sennit_ioctl.h" | cut -d '"' -f 2)
parameters=$(grep -h -o '^module_param\(_named\)\?([a-z_]*' "$root"/kmod/*.c | sed 's/.*(//')
[ "$(wc -w <<<"$counters")" -gt 20 ] && [ "$(wc -w <<<"$parameters")" -gt 5 ] || { echo "nothing was found"; exit 1; }
for name in $counters; do
	grep -q -w "$name" <<<"$(sed -n '/^.SH COUNTERS/,/^.SH INSTALLING/p' "$page")" || { echo "counter $name is not in the page"; status=1; }
done
for name in $parameters; do
	grep -q "^\.BR $name \"" "$page" || { echo "parameter $name is not in the page"; status=1; }
done
for name in $(sed -n '/^.SH MODULE PARAMETERS/,/^.SH FILES/s/^\.BR \([a-z_]*\) ".*/\1/p' "$page"); do
	grep -q -w "$name" <<<"$parameters" || { echo "the page has a parameter $name, the module has not"; status=1; }
done
exit $status
