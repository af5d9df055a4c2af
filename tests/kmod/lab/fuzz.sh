#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fuzz.sh CACHE KERNEL PROGRAM: the fuzzer with seeds that go on from SENNIT_SOAK_SEED (default: the date's), for
# SENNIT_SOAK_ROUNDS (default 3) of a minute each.
. "$(dirname "$0")/common.sh"

seed=${SENNIT_SOAK_SEED:-$(date +%Y%m%d)}
for ((i = 0; i < ${SENNIT_SOAK_ROUNDS:-3}; i++)); do
	"$lab/boot.sh" -t 300 -d channels=2 -m dma_threshold=8192 "$1" "$2" "$3" $((seed + i)) 60
done
