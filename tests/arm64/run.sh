#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# run.sh CACHE BUILD COMMAND...: boots the lab's arm64 machine, without the kernel module, and runs each COMMAND there, which is a
# program of BUILD/bin with its arguments in one word. All must pass; 77 is counted as skipped, and said.
. "$(dirname "$0")/../kmod/lab/common.sh"
cache=$1
build=$2
shift 2
triplet=aarch64-linux-gnu
[ -e "$build/bin/sennit" ] || skip "nothing is built for arm64"
make_tree
mkdir -p "$tree"/{lib,bin}
for library in ld-linux-aarch64.so.1 libc.so.6 libdl.so.2 libpthread.so.0 libm.so.6; do
	cp -L "/usr/$triplet/lib/$library" "$tree/lib/"
done
cp -L "$cache/arm64/root/usr/lib/$triplet/libcmocka.so.0" "$tree/lib/"
cp -L "$build"/lib/*.so* "$tree/lib/"
{
	echo "#!/bin/busybox sh"
	echo "export SENNIT_TUNE=no SENNIT_HEAP_LIB=/lib/libsennit-heap.so SENNIT_MPI_LIB=/lib/libsennit-mpi.so"
	echo "failed=0 passed=0"
	for command in "$@"; do
		cp -u "$build/bin/${command%% *}" "$tree/bin/"
		echo "/bin/$command >/tmp/said 2>&1; status=\$?; echo \"\$(cut -d ' ' -f 1 /proc/uptime) s: $command: status \$status\""
		echo "case \$status in 0) passed=\$((passed + 1)) ;; 77) tail -n 1 /tmp/said ;; *) failed=1; cat /tmp/said ;; esac"
	done
	echo "[ \$failed = 0 ] && [ \$passed -gt 0 ]"
} >"$tree/each"
chmod +x "$tree/each"
"$lab/boot.sh" -n -r "$tree" "$cache" arm64 "$tree/each"
