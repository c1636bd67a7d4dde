#!/bin/sh
# Puts doctest, the test framework, at DIR/doctest/doctest.h without root: from DOCTEST_DIR, from
# the system, or unpacked from the distribution's package.
#   doctest.sh DIR CXX
set -eu
dir=$1
cxx=$2
mkdir -p "$dir/doctest"
header=$dir/doctest/doctest.h
# Takes its name when it is whole: another make may be at the same.
put() { cp "$1" "$header.$$" && mv -f "$header.$$" "$header"; }

if [ -n "${DOCTEST_DIR:-}" ]; then
  for found in "$DOCTEST_DIR/doctest/doctest.h" "$DOCTEST_DIR/doctest.h"; do
    if [ -f "$found" ]; then put "$found"; exit 0; fi
  done
  echo "DOCTEST_DIR=$DOCTEST_DIR holds neither doctest/doctest.h nor doctest.h." >&2
  exit 1
fi

found=$(echo '#include <doctest/doctest.h>' | "$cxx" -x c++ -M - 2>/dev/null |
        tr ' \\' '\n\n' | grep '/doctest/doctest\.h$' || true)
if [ -n "$found" ]; then put "$found"; exit 0; fi

work=$(mktemp -d "$(cd "$dir" && pwd)/package.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial"
if command -v apt-get >/dev/null && command -v dpkg >/dev/null; then
  echo "  FETCH   doctest-dev"
  private="-o Dir::State=$work/state -o Dir::State::status=/var/lib/dpkg/status
           -o Dir::Cache=$work/cache"
  (
    cd "$work"
    # shellcheck disable=SC2086  # $private is a list of options
    apt-get -qq download doctest-dev >log 2>&1 ||
      { apt-get -qq $private update && apt-get -qq $private download doctest-dev; } >>log 2>&1 &&
      dpkg -x doctest-dev_*.deb unpacked
  ) || true
  if [ -f "$work/unpacked/usr/include/doctest/doctest.h" ]; then
    put "$work/unpacked/usr/include/doctest/doctest.h"
    exit 0
  fi
fi
echo "The tests need doctest: install the package doctest-dev (Debian, Ubuntu) or doctest-devel" \
  "(Fedora), or unpack it anywhere and say make test DOCTEST_DIR=<the folder above doctest/>." >&2
exit 1
