#!/bin/sh
# Builds the Debian package of this checkout:
#   deploy/debian/build.sh PYTHON OUT     OUT/trainwarden_VERSION_ARCH.deb; PYTHON has pip
#   deploy/debian/build.sh --files ROOT   what is not Python alone, into ROOT
# The program is a virtual environment of Debian's own python3, with the versions that
# constraints.txt names, and without pip. It is made aside and written as it will lie:
# nothing in it knows where it was built. The same commit gives the same bytes.
set -eu
umask 022
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
home=usr/lib/trainwarden
docs=usr/share/doc/trainwarden
# What the supervisor itself can use. Nobody can add to an environment without pip.
extras=notify,remote,stacks

files() { # ROOT: units, rules, configuration, pages
  root=$1
  cd "$top/deploy/systemd"
  # The units are those of deploy/install.sh; only the paths are the package's.
  for unit in trainwarden.service trainwarden-gpu.service trainwarden.slice \
    trainwarden-run@.service; do
    ours "$unit" "$root/usr/lib/systemd/system/$unit"
  done
  ours trainwarden-ui.service "$root/usr/lib/systemd/user/trainwarden-ui.service"
  ours trainwarden-attempt.service.in "$root/$home/share/trainwarden-attempt.service.in"
  put trainwarden.sysusers.conf "$root/usr/lib/sysusers.d/trainwarden.conf"
  put trainwarden.tmpfiles.conf "$root/usr/lib/tmpfiles.d/trainwarden.conf"
  put 50-trainwarden.rules "$root/usr/share/polkit-1/rules.d/50-trainwarden.rules"
  put trainwarden.toml "$root/etc/trainwarden/trainwarden.toml"
  put trainwarden.default "$root/etc/default/trainwarden"
  put "$here/lintian-overrides" "$root/usr/share/lintian/overrides/trainwarden"
  # Where they lie in the repository, so that their links lead somewhere.
  cd "$top"
  for page in README.md docs/*.md docs/pictures/* deploy/*.md deploy/compose.yml \
    deploy/runbooks/*.md deploy/systemd/*.toml deploy/prometheus/* deploy/logs/* \
    grafana/dashboards/* grafana/provisioning/*/*; do
    [ ! -f "$page" ] || put "$page" "$root/$docs/$page"
  done
  gzip -9nc "$here/changelog" | put /dev/stdin "$root/$docs/changelog.gz"
  put "$here/copyright" "$root/$docs/copyright"
}

put() { install -D -m 644 "$1" "$2"; }

ours() {
  sed -e "s|/opt/trainwarden/share/doc/trainwarden|/$docs|" \
    -e "s|/opt/trainwarden/|/$home/|g" "$1" | put /dev/stdin "$2"
}

program() { # PIP_PYTHON ROOT WORK
  pip="$1 -m pip --disable-pip-version-check -qq" root=$2 work=$3
  venv=$root/$home
  site=$venv/lib/python$minor/site-packages
  mkdir -p "$venv/bin" "$site" "$work/source" "$root/usr/bin"
  ln -s "/usr/bin/python$minor" "$venv/bin/python$minor"
  ln -s "python$minor" "$venv/bin/python3"
  ln -s "python$minor" "$venv/bin/python"
  printf 'home = /usr/bin\ninclude-system-site-packages = false\nversion = %s\n' \
    "$minor" > "$venv/pyvenv.cfg"
  # From a copy: what an earlier build left in build/ would get into the wheel.
  (cd "$top" && tar --create --exclude=__pycache__ \
    pyproject.toml README.md LICENSE supervisor trainers) |
    tar --extract --directory "$work/source"
  $pip wheel --no-deps --build-constraint "$top/constraints.txt" \
    --wheel-dir "$work" "$work/source"
  wheel=$(echo "$work"/trainwarden-*.whl)
  $pip --python "$venv/bin/python" install --no-compile --only-binary :all: \
    --constraint "$top/constraints.txt" "$wheel[$extras]"
  # Its scripts name the place where they were made; only these are called by anybody.
  find "$venv/bin" -type f ! -name py-spy -delete
  printf '#!/%s/bin/python -I\nfrom supervisor.cli.entry import main\n\nmain()\n' \
    "$home" > "$venv/bin/trainwarden"
  chmod 755 "$venv/bin/trainwarden"
  ln -s ../lib/trainwarden/bin/trainwarden "$root/usr/bin/trainwarden"
  # pip's notes to itself.
  rm -f "$site"/*.dist-info/RECORD "$site"/*.dist-info/INSTALLER \
    "$site"/*.dist-info/REQUESTED "$site"/*.dist-info/direct_url.json
  find "$site" -name __pycache__ -prune -exec rm -r {} +
  completions
  "$venv/bin/python" -I - "$site" >> "$root/$docs/copyright" < "$here/bundled.py"
  ln -sf "../../../bin/python$minor" "$venv/bin/python$minor"
  find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
  # By their times, as Debian's own: the files are never written where they are installed.
  /usr/bin/python3 -I -m compileall -q --invalidation-mode timestamp \
    -s "$root" -p / "$site"
}

completions() {
  while read -r shell file; do
    mkdir -p "$(dirname "$root/$file")"
    _TRAINWARDEN_COMPLETE="${shell}_source" "$venv/bin/python" -IB -c \
      'import sys; sys.argv = ["trainwarden"]
from supervisor.cli.entry import main; main()' > "$root/$file"
  done <<LIST
bash usr/share/bash-completion/completions/trainwarden
zsh usr/share/zsh/vendor-completions/_trainwarden
fish usr/share/fish/vendor_completions.d/trainwarden.fish
LIST
}

control() { # ROOT WORK
  root=$1 work=$2
  mkdir -p "$root/DEBIAN" "$work/debian"
  printf 'Source: trainwarden\n\nPackage: trainwarden\nArchitecture: any\n' \
    > "$work/debian/control"
  libraries=$(cd "$work" && find "$root/$home" -name '*.so*' -type f -print0 |
    xargs -0 dpkg-shlibdeps -O "$root/$home/bin/py-spy" 2> "$work/shlibdeps.log" |
    sed -n 's/^shlibs:Depends=//p')
  [ -n "$libraries" ] || { cat "$work/shlibdeps.log" >&2; exit 1; }
  next=${minor%.*}.$((${minor#*.} + 1))
  sed -e "s|@VERSION@|$version|; s|@ARCHITECTURE@|$architecture|" \
    -e "s|@PYTHON@|$minor|; s|@NEXT@|$next|; s|@LIBRARIES@|$libraries|" \
    -e "s|@SIZE@|$(du --apparent-size -sk "$root" | cut -f 1)|" \
    "$here/control.in" > "$root/DEBIAN/control"
  (cd "$root" && find etc -type f | sort | sed 's|^|/|') > "$root/DEBIAN/conffiles"
  (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) \
    > "$root/DEBIAN/md5sums"
  for script in preinst postinst prerm postrm; do
    install -m 755 "$here/$script" "$root/DEBIAN/$script"
  done
}

if [ "${1:-}" = --files ]; then
  mkdir -p "$2"
  files "$(cd "$2" && pwd)"
  exit
fi
[ $# = 2 ] || { echo "usage: build.sh PYTHON OUT | build.sh --files ROOT" >&2; exit 2; }
for tool in dpkg-deb dpkg-shlibdeps dpkg-parsechangelog; do
  command -v "$tool" >/dev/null ||
    { echo "build.sh: $tool is missing: apt install dpkg-dev" >&2; exit 1; }
done
# The one of the boxes that get the package, whatever this shell has before it.
minor=$(/usr/bin/python3 -I -c 'import sys; print("%d.%d" % sys.version_info[:2])')
version=$(dpkg-parsechangelog -l "$here/changelog" -S Version)
: "${SOURCE_DATE_EPOCH:=$(git -C "$top" log -1 --format=%ct 2>/dev/null ||
  dpkg-parsechangelog -l "$here/changelog" -S Timestamp)}"
export SOURCE_DATE_EPOCH
architecture=$(dpkg --print-architecture)
mkdir -p "$2"
out=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
files "$work/root"
program "$1" "$work/root" "$work"
control "$work/root" "$work"
deb=$out/trainwarden_${version}_$architecture.deb
# One thread: how many there are would show in the bytes.
dpkg-deb --build --root-owner-group --threads-max=1 "$work/root" "$deb" >/dev/null
echo "$deb"
