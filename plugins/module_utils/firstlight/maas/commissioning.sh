#!/bin/sh
# Written by Firstlight, which reads what this prints: each disk before anything is written to it, and the clock.
# It runs in MAAS's commissioning environment, reads the first MiB of every disk, and changes nothing.
# POSIX shell, and of the tools only what busybox and Ubuntu both have.
#
# Output, separated by tabs:
#   firstlight-disks  1
#   disk  name  bytes  SHA-256 of the first MiB (- where it cannot be read)  blank: yes|no|unknown  serial  wwid  model
#   clock  seconds since 1970, at the end
LC_ALL=C
export LC_ALL
SYS=${FIRSTLIGHT_SYS:-/sys}
DEV=${FIRSTLIGHT_DEV:-/dev}
MIB=1048576

limit=
timeout 5 true 2>/dev/null && limit='timeout 30' # a dying drive must not hold up the others

first_mib() {
    $limit dd if="$1" bs=$MIB count=1 2>/dev/null | { sha256sum 2>/dev/null || echo -; }
}

# Printable, without blanks around it, and with single ones within.
one_line() {
    # shellcheck disable=SC2046 # split on purpose
    set -- $(tr -c '[:alnum:][:punct:] ' ' ' 2>/dev/null)
    printf '%s\n' "$*"
}

# The first of these files that says something, on one line.
text_of() {
    for file in "$@"; do
        [ -r "$file" ] || continue
        text=$(one_line <"$file")
        [ -n "$text" ] && printf '%s\n' "$text" && return
    done
}

# Of a SCSI disk, which SATA drives are too: four bytes of header, then the serial number.
scsi_serial() {
    [ -r "$1" ] && dd if="$1" bs=1 skip=4 count=64 2>/dev/null | one_line
}

set -f # what drives say of themselves is no pattern of file names
zeros=$(first_mib /dev/zero)
printf 'firstlight-disks\t1\n'
for name in $(ls "$SYS/block" 2>/dev/null); do
    case $name in
    loop* | ram* | zram* | dm-* | md* | sr* | fd* | nbd* | mtdblock* | mmcblk*boot* | zd*) continue ;;
    esac
    block=$SYS/block/$name
    [ "$(cat "$block/hidden" 2>/dev/null)" = 1 ] && continue # one of several paths to an NVMe drive
    sectors=$(cat "$block/size" 2>/dev/null)
    case $sectors in
    '' | 0 | *[!0-9]*) continue ;; # an empty card reader
    esac
    sum=$(first_mib "$DEV/$name")
    sum=${sum%% *}
    blank=no
    [ "$sum" = "${zeros%% *}" ] && blank=yes
    # of nothing at all: it could not be read
    [ "$sum" = e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 ] && sum=-
    [ "$sum" = - ] && blank=unknown
    serial=$(text_of "$block/device/serial" "$block/serial")
    [ -n "$serial" ] || serial=$(scsi_serial "$block/device/vpd_pg80")
    wwid=$(text_of "$block/wwid" "$block/device/wwid")
    model=$(text_of "$block/device/model")
    printf '%s\t' disk "$name" "$((sectors * 512))" "$sum" "$blank" "$serial" "$wwid"
    printf '%s\n' "$model"
done
printf 'clock\t%s\n' "$(date +%s)"
