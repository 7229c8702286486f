#!/bin/busybox sh
# The ephemeral system's only program: finds its network, asks the rack what to do, does it, and says how it went.
# Kernel parameters: rack=URL task=commission|install BOOTIF=01-MAC
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev

parameter() { sed -n "s/.*\b$1=\([^ ]*\).*/\1/p" /proc/cmdline; }
say() { echo "ephemeral $(cut -d' ' -f1 /proc/uptime): $*" >/dev/console; }
post() { wget -q -O /dev/null --post-file "$2" "$rack/$1/$mac"; }
die() {
  say "FAILED: $*"
  echo "$*" >/tmp/failed
  post failed /tmp/failed
  sleep 2; poweroff -f
}

rack=$(parameter rack) task=$(parameter task)
mac=$(parameter BOOTIF | cut -d- -f2- | tr - :)
say "simulator's ephemeral system: $task"
for module in virtio_pci virtio_net nvme ext4; do modprobe $module; done

# ---------------------------------------------------------------- network

interface=
for try in $(seq 50); do
  for each in /sys/class/net/*; do
    if [ "$(cat "$each/address")" = "$mac" ]; then interface=${each##*/}; fi
  done
  [ -n "$interface" ] && break
  usleep 200000
done
cat >/etc/udhcpc.sh <<'END'
#!/bin/sh
[ "$1" = bound ] && ip addr add "$ip/${mask:-24}" dev "$interface"
exit 0
END
chmod +x /etc/udhcpc.sh
ip link set lo up
ip link set "$interface" up || { say "no port with MAC $mac"; sleep 5; poweroff -f; }
udhcpc -q -n -t 10 -i "$interface" -s /etc/udhcpc.sh >/dev/null 2>&1 || { say "no DHCP answer"; sleep 5; poweroff -f; }
say "network on $interface"

# ---------------------------------------------------------------- disks

disks() {  # one a line: name, serial, size in bytes, model
  for each in /sys/block/*; do
    [ -e "$each/device/serial" ] || continue
    echo "disk ${each##*/} $(tr -d ' ' <"$each/device/serial") $(($(cat "$each/size") * 512)) $(cat "$each/device/model")"
  done
}
wanted=$(parameter disks)
for try in $(seq 50); do  # the drives answer one after the other
  [ "$(disks | wc -l)" -ge "${wanted:-1}" ] && break
  usleep 200000
done

commission() {
  { disks
    for each in /sys/class/net/*; do
      [ -e "$each/device" ] && echo "nic ${each##*/} $(cat "$each/address")"
    done
    echo "cpus $(grep -c ^processor /proc/cpuinfo)"
    echo "memory $(($(sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo) / 1024))"
  } >/tmp/found
  # scripts that MAAS holds: a line each, NAME; run one after the other, as root, with the machine's disks
  wget -q -O /tmp/scripts "$rack/scripts/$mac" || die "no list of commissioning scripts"
  mkdir /tmp/results
  while read -r name; do
    wget -q -O /tmp/script "$rack/script/$mac?name=$name" || die "no commissioning script $name"
    chmod +x /tmp/script
    timeout 300 /tmp/script >/tmp/out 2>/dev/console
    status=$?
    say "script $name: status $status"
    wget -q -O /dev/null --post-file /tmp/out "$rack/output/$mac?name=$name&status=$status"
  done </tmp/scripts
  post commissioned /tmp/found || die "the rack does not take the results"
  say "commissioned"
  poweroff -f
}

install() {
  wget -q -O /tmp/deployment "$rack/deployment/$mac" || die "no deployment for $mac"
  serial=$(sed -n 's/^serial //p' /tmp/deployment)
  [ -n "$serial" ] || die "the region names no disk"
  target=$(disks | while read -r word name its rest; do [ "$its" = "$serial" ] && echo "$name"; done)
  [ "$(echo "$target" | wc -w)" = 1 ] || die "disks with serial $serial: ${target:-none}; there are: $(disks | tr '\n' ';')"
  say "writing to $target, serial $serial"
  { wget -q -O - "$rack/disk.zst" || echo "the image did not come" >/tmp/broken
  } | { zstd -q -dc || echo "the image is broken" >/tmp/broken
  } | dd of="/dev/$target" bs=1M iflag=fullblock 2>/tmp/dd || die "writing $target: $(tail -n1 /tmp/dd)"
  [ -e /tmp/broken ] && die "$(cat /tmp/broken)"
  sync
  say "written: $(tail -n1 /tmp/dd)"
  blockdev --rereadpt "/dev/$target"
  root=/dev/${target}p3
  for try in $(seq 50); do [ -b "$root" ] && break; usleep 200000; done
  mount -t ext4 "$root" /mnt || die "no root file system on $root"
  mkdir -p /mnt/var/lib/cloud/seed/nocloud
  wget -q -O /mnt/var/lib/cloud/seed/nocloud/meta-data "$rack/meta-data/$mac" || die "no meta-data"
  : >/mnt/var/lib/cloud/seed/nocloud/user-data  # cloud-init fetches the real one from the rack
  umount /mnt || die "the root file system cannot be written"
  sync
  post installed /tmp/deployment || die "the rack does not hear that it is installed"
  say "installed"
  reboot -f
}

case $task in
  commission) commission ;;
  install) install ;;
  *) die "no task $task" ;;
esac
