#!/bin/sh
# Installs Trainwarden on a box with systemd, as root, from a clone of the repository:
#   deploy/install.sh                 the program into /opt/trainwarden, then the service
#   deploy/install.sh --units-only    the service alone; the program is there already
# It overwrites what an earlier version installed, and never what you edited in
# /etc/trainwarden or /etc/default.
set -eu
cd "$(dirname "$0")/systemd"
etc=/etc/systemd/system

if [ "${1:-}" != --units-only ]; then
  python3 -m venv /opt/trainwarden
  /opt/trainwarden/bin/pip install -c ../../constraints.txt "../..[tensorflow-gpu]"
fi

install -D -m 644 trainwarden.sysusers.conf /etc/sysusers.d/trainwarden.conf
install -D -m 644 trainwarden.tmpfiles.conf /etc/tmpfiles.d/trainwarden.conf
# Moved there: polkit reads rules as soon as they are there, and never again.
rules=/etc/polkit-1/rules.d/50-trainwarden.rules
install -D -m 644 50-trainwarden.rules "$rules.new"
mv "$rules.new" "$rules"
install -D -m 644 trainwarden-attempt.service.in /opt/trainwarden/share/trainwarden-attempt.service.in
(cd ../.. && for page in README.md docs/*.md deploy/*.md deploy/runbooks/*.md; do
  install -D -m 644 "$page" "/opt/trainwarden/share/doc/trainwarden/$page"
done)
# What enable-user wrote, anew. What you changed with "systemctl edit" lies beside it,
# and stays.
for template in "$etc"/trainwarden-attempt-*@.service; do
  [ -f "$template" ] || continue
  user=${template##*/trainwarden-attempt-}
  sed "s/@USER@/${user%@.service}/g" trainwarden-attempt.service.in |
    install -m 644 /dev/stdin "$template"
done
install -m 644 trainwarden.service trainwarden-gpu.service trainwarden.slice \
  trainwarden-run@.service "$etc/"
install -D -m 644 trainwarden-ui.service /etc/systemd/user/trainwarden-ui.service
[ -e /etc/trainwarden/trainwarden.toml ] ||
  install -D -m 644 trainwarden.toml /etc/trainwarden/trainwarden.toml
[ -e /etc/default/trainwarden ] ||
  install -D -m 644 trainwarden.default /etc/default/trainwarden

systemd-sysusers
install -d -m 711 -o trainwarden -g trainwarden-data /var/lib/trainwarden
systemd-tmpfiles --create trainwarden.conf
systemctl daemon-reload
echo "next: /opt/trainwarden/bin/trainwarden enable-user NAME"
echo "      systemctl enable --now trainwarden"
