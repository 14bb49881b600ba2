#!/bin/sh
# The public header compiles by itself as C99 and as C++, without a warning.
set -eu

include=$DBH_SOURCE/include
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
strict='-Wall -Wextra -pedantic -Werror'

compile() {
	echo "$*"
	# shellcheck disable=SC2086 # flags are a list
	"$@" $strict -I"$include" -c "$DBH_SOURCE/tests/api/header.c" \
		-o "$out/header.o"
}

# shellcheck disable=SC2086 # CC may have arguments
compile ${CC:-cc} -x c -std=c99 -D_DEFAULT_SOURCE -D_FILE_OFFSET_BITS=64
# shellcheck disable=SC2086
compile ${CC:-cc} -x c -std=gnu11
command -v c++ >/dev/null || {
	echo 'SKIP: no C++ compiler'
	exit 77
}
compile c++ -x c++ -std=c++11
compile c++ -x c++ -std=gnu++17
