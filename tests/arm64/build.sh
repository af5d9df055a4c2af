#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# build.sh SOURCE BUILD ROOT: builds all that is installed, and the unit tests, for arm64; a warning fails. ROOT holds the packages
# of that machine which are linked with.
set -euo pipefail
source=$1
build=$2
root=$3
triplet=aarch64-linux-gnu
for tool in cmake ninja $triplet-gcc; do
	command -v "$tool" >/dev/null || { echo "SKIP: $tool is not installed (see tests/kmod/README.md)" && exit 77; }
done
# libfabric's headers are the same everywhere, but what lies beside them is not
mkdir -p "$build/include"
ln -sfn /usr/include/rdma "$build/include/rdma"
cmake -S "$source" -B "$build" -G Ninja -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=$triplet-gcc \
	-DCMAKE_ASM_COMPILER=$triplet-gcc -DSENNIT_WERROR=ON -DLIBFABRIC_INCLUDE_DIR="$build/include" \
	-DCMOCKA_LIBRARY="$root/usr/lib/$triplet/libcmocka.so" -DCMOCKA_INCLUDE="$root/usr/include" >/dev/null
# Not the manual page: the command prints a part of it, and does not run here.
nice cmake --build "$build" -j 2 --target sennit myriexpress sennit_command sennit-fi sennit-heap sennit-mpi unit_tests
