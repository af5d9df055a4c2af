# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the other scripts here. The lab's cache folder holds one folder a kernel:
#   CACHE/KERNEL/vmlinuz and, unpacked, vmlinux  CACHE/KERNEL/build (what modules are built against)  CACHE/KERNEL/mod/NAME (what was built)
set -euo pipefail

lab=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$lab/../../.." && pwd)

skip() {
	echo "SKIP: $*"
	exit 77
}

need() {
	local tool
	for tool in "$@"; do
		command -v "$tool" >/dev/null || skip "$tool is not installed (see tests/kmod/README.md)"
	done
}

# Unpacks Debian packages into a folder; "$@" after the folder: further options of apt. Never installs anything.
unpack_packages() {
	local to=$1 deb
	shift
	mkdir -p "$to.deb"
	(cd "$to.deb" && timeout -k 5 300 apt-get -qq "${apt_options[@]}" download "$@" >apt.log 2>&1) ||
		skip "cannot download $* ($(tail -n 1 "$to.deb/apt.log"))"
	for deb in "$to.deb"/*.deb; do
		dpkg-deb -x "$deb" "$to"
	done
	rm -r "$to.deb"
}
apt_options=(-o APT::Sandbox::User=root)

# A folder "$tree" that becomes an emulated machine's root, with a user in it.
make_tree() {
	tree=$(mktemp -d)
	chmod 755 "$tree"
	trap 'rm -rf "$tree"' EXIT
	mkdir -p "$tree/etc"
	printf '%s\n' root:x:0:0:root:/root:/bin/sh user:x:1000:1000:user:/tmp:/bin/sh >"$tree/etc/passwd"
	printf '%s\n' root:x:0: user:x:1000: >"$tree/etc/group"
}

# Files, to the place that they have here, and the libraries that they need.
bring() {
	local file
	for file in "$@"; do
		mkdir -p "$tree$(dirname "$file")"
		cp -Lp "$file" "$tree$file"
	done
}
bring_libraries() {
	bring $(ldd "$@" | sed -n 's/.* => \(\/[^ ]*\) (.*/\1/p; s/^\t\(\/[^ ]*\) (.*/\1/p' | sort -u)
}
bring_programs() {
	bring "$@"
	bring_libraries "$@"
}
