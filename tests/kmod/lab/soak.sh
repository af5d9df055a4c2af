#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# soak.sh CACHE PROGRAMS: every test on 6.12 and on a kernel with KASAN, lockdep, kmemleak and DMA debugging, the fuzzer with
# seeds that go on from SENNIT_SOAK_SEED (default: the date's), for SENNIT_SOAK_ROUNDS (default 3) of a minute each.
. "$(dirname "$0")/common.sh"

[ -n "${SENNIT_SOAK:-}" ] || skip "the soak takes half an hour; SENNIT_SOAK=1 runs it"
cache=$1
programs=$2
for kernel in 6.12 kasan; do
	"$lab/fetch.sh" "$cache" $kernel
	"$lab/build.sh" "$cache" $kernel
done

boot() {
	echo "---- $*"
	"$lab/boot.sh" -t 600 "$@"
}
for kernel in 6.12 kasan; do
	for test in regions copy match trust engine pair net hosts; do
		boot "$cache" $kernel "$programs/kmod_test_$test"
	done
	boot -d channels=2 "$cache" $kernel "$programs/kmod_test_dma"
	boot -d channels=2 -m "dma_threshold=65536 dma_timeout_ms=20000" "$cache" $kernel "$programs/kmod_test_net" dma
	boot -d "channels=2 unordered=1" -m "dma_threshold=65536 dma_timeout_ms=20000" -a swiotlb=force "$cache" $kernel "$programs/kmod_test_net" dma
	boot -d "channels=2 unordered=1" -a swiotlb=force "$cache" $kernel "$programs/kmod_test_dma"
done
seed=${SENNIT_SOAK_SEED:-$(date +%Y%m%d)}
for ((i = 0; i < ${SENNIT_SOAK_ROUNDS:-3}; i++)); do
	for kernel in 6.12 kasan; do
		boot -d channels=2 -m dma_threshold=8192 "$cache" $kernel "$programs/kmod_test_fuzz" $((seed + i)) 60
	done
done
