#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# wide.sh CACHE KERNEL PROGRAM [ARGUMENT...]: PROGRAM with a module that lingers where another thread may come between two steps
# (sn_linger), on a kernel that fills memory that was freed with a pattern, so that who uses it still falls.
. "$(dirname "$0")/common.sh"

"$lab/build.sh" "$1" "$2" wide
exec "$lab/boot.sh" -b wide -a "preempt=full slub_debug=FP" "$@"
