#!/bin/sh
# test_probes.sh LIBRARY: the library has the probes that the manual names, with
# so many arguments, and bpftrace takes the scripts beside this file.
set -eu

lib=$1
page=$DBH_SOURCE/man/dropbehind-trace.1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

command -v readelf >/dev/null || {
	echo 'SKIP: no readelf'
	exit 77
}
readelf -n "$lib" >"$out/notes" 2>/dev/null
if ! grep -q 'Provider: dropbehind' "$out/notes"; then
	if echo '#include <sys/sdt.h>' | ${CC:-cc} -E - >/dev/null 2>&1; then
		echo 'sys/sdt.h is there and the library has no probes'
		exit 1
	fi
	echo 'SKIP: built without sys/sdt.h'
	exit 77
fi
awk '/Name:/ { name = $2 }
	/Arguments:/ { print name, NF - 1 }' "$out/notes" | sort -u >"$out/have"

# In the manual: ".It Cm NAME , NAME", and a line with the arguments.
sed -n '/^Their arguments are/,/^\.El/p' "$page" | awk '
	/^\.It Cm/ { n = split($0, word, / +/); next }
	/^\./ || /^Their/ { next }
	{
		gsub(/\([^)]*\)/, "")
		count = split($0, unused, ",")
		for (i = 3; i <= n; i++)
			if (word[i] != ",")
				print word[i], count
	}' | sort -u >"$out/want"
status=0
diff "$out/want" "$out/have" || {
	echo 'the manual and the library differ about probes (< > )'
	status=1
}
[ "$(wc -l <"$out/have")" -ge 13 ] || {
	echo 'there are too few'
	status=1
}

for script in "$DBH_SOURCE"/examples/*.bt; do
	grep -o 'dropbehind:[a-z_]*$' "$script" | sort -u | cut -d: -f2 >"$out/used"
	[ -s "$out/used" ] || {
		echo "$script uses no probe"
		status=1
	}
	while read -r name; do
		grep -q "^$name " "$out/have" || {
			echo "$script: there is no probe $name"
			status=1
		}
	done <"$out/used"
done
[ "$status" = 0 ] || exit 1

if ! command -v bpftrace >/dev/null || [ "$(id -u)" != 0 ]; then
	echo 'not parsed: no bpftrace, or not root'
	exit 0
fi
for script in "$DBH_SOURCE"/examples/*.bt; do
	sed "s|usdt:[*]libdropbehind[*]:|usdt:$lib:|" "$script" >"$out/script.bt"
	timeout 60 bpftrace -d "$out/script.bt" >"$out/said" 2>&1 || {
		echo "$script: bpftrace does not take it:"
		grep -v '^;' "$out/said" | tail -n 20
		status=1
	}
done
exit "$status"
