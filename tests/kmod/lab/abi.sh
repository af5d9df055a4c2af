#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# abi.sh: the device's structs are the same for 64-bit and for 32-bit programs (abi.c says what they are).
. "$(dirname "$0")/common.sh"

check=(gcc -Wall -Wextra -Werror -fsyntax-only -I"$root/kmod")
"${check[@]}" "$root/tests/kmod/abi.c"
# The headers of the other width differ in none that is used here.
narrow=("${check[@]}" -m32 -idirafter "/usr/include/$(gcc -print-multiarch)")
echo '#include <linux/types.h>' | "${narrow[@]}" -x c - 2>/dev/null || skip "this compiler has no -m32"
"${narrow[@]}" "$root/tests/kmod/abi.c"
