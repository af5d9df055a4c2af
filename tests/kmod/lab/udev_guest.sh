#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# In the emulated machine: what udev makes of the device. See udev.sh.
export PATH=/usr/bin:/bin

# is WHAT "MODE GROUP": the device, when udev has done what it had to.
is() {
	local found
	udevadm settle || exit 1
	found=$(stat -c '%a %G' /dev/sennit)
	echo "  $1: $found"
	[ "$found" = "$2" ] || { echo "FAIL: $1: the device is $found, not $2"; exit 1; }
}

systemd-udevd --daemon || exit 1
# The module gives everybody the device, as the rule does: taken away, so that what is seen is the rule's.
chmod 600 /dev/sennit
udevadm trigger --action=add /sys/class/misc/sennit || exit 1
is "the rule as it is installed" "666 root"
su user -c 'exec 3<>/dev/sennit' || { echo "FAIL: a user may not open it"; exit 1; }

# As the rule's comment says for a site that wants less.
grep -q 'MODE="0660", GROUP="name"' /lib/udev/rules.d/60-sennit.rules || { echo "FAIL: the comment says something else"; exit 1; }
sed -i 's/MODE="0666"/MODE="0660", GROUP="mpi"/' /lib/udev/rules.d/60-sennit.rules
echo mpi:x:2000: >>/etc/group
udevadm control --reload && rmmod sennit && insmod /sennit.ko || exit 1
is "kept to a group, when the module comes" "660 mpi"
! su user -c 'exec 3<>/dev/sennit' 2>/dev/null || { echo "FAIL: a user of another group may open it"; exit 1; }
sed -i 's/^mpi:.*/&user/' /etc/group
su user -c 'exec 3<>/dev/sennit' || { echo "FAIL: a user of the group may not open it"; exit 1; }
udevadm control --exit
