#!/bin/sh
# test_write_file.sh PROGRAM: what the example writes is what it was given.
set -eu

dir=$(mktemp -d "${TMPDIR:-/var/tmp}/dropbehind.XXXXXX")
trap 'rm -rf "$dir"' EXIT

for size in 0 1 4096 47008 1000001; do
	head -c "$size" /dev/urandom >"$dir/data"
	"$1" "$dir/copy" <"$dir/data"
	cmp "$dir/data" "$dir/copy"
done
