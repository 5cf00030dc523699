#!/bin/sh
# pod.sh STATE WORK SHM_SIZE COMMAND...: run COMMAND as the container of
# deploy/kubernetes/job.yaml is run: first process of its own process tree, no capabilities and
# none to be gained, a root that cannot be written to, /dev/shm and /tmp of its own, empty.
# STATE and WORK appear as /srv and /media. Inside of `unshare --mount --pid --fork`.
set -eu
state=$1 work=$2 size=$3
shift 3
mount --make-rprivate /
mount --bind "$state" /srv
mount --bind "$work" /media
# What has mounts of its own below stays as it is, but nobody is left who may write to it.
mount --options remount,bind,ro /
mount --options remount,bind,ro /media
mount -t tmpfs -o "size=$size" tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
mount -t proc proc /proc
cd /media
exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all "$@"
