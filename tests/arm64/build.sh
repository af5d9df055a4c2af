#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# build.sh SOURCE BUILD PACKAGES TEST...: builds all that is installed, and these unit tests, for arm64; a warning fails. PACKAGES
# holds those of that machine which are linked with.
. "$(dirname "$0")/../kmod/lab/common.sh"
source=$1
build=$2
packages=$3
shift 3
triplet=aarch64-linux-gnu
need cmake ninja $triplet-gcc
[ -e "$packages/usr/include/cmocka.h" ] || skip "the packages of arm64 are not in the cache"
# libfabric's headers are the same everywhere, but what lies beside them is not
mkdir -p "$build/include"
ln -sfn /usr/include/rdma "$build/include/rdma"
cmake -S "$source" -B "$build" -G Ninja -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=$triplet-gcc \
	-DCMAKE_ASM_COMPILER=$triplet-gcc -DSENNIT_WERROR=ON -DLIBFABRIC_INCLUDE_DIR="$build/include" \
	-DCMOCKA_LIBRARY="$packages/usr/lib/$triplet/libcmocka.so" -DCMOCKA_INCLUDE="$packages/usr/include" >/dev/null
# Not the manual page: the command prints a part of it, and does not run here.
nice cmake --build "$build" -j 2 --target sennit myriexpress sennit_command sennit-fi sennit-heap sennit-mpi "$@"
