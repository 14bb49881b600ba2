#!/bin/sh
# SPDX-License-Identifier: MIT
# `dropbehind bench` as it is typed: help, what it refuses and how, the table,
# and that a signal leaves nothing behind.
set -u

command=${DBH_BUILD:-.}/frontends/cli/dropbehind
if [ ! -x "$command" ]; then
	echo "skipped: there is no $command (set DBH_BUILD)"
	exit 77
fi
failed=0
work=$(mktemp -d "${TMPDIR:-/tmp}/test-bench.XXXXXX")
mkdir "$work/dir"
pid=
cleanup() {
	[ -z "$pid" ] || kill "$pid" 2>/dev/null
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

fail() {
	echo "FAILED: $*"
	failed=1
}

# status WANTED WORD ARGUMENTS: exit status, and a word of what is said
expect() {
	wanted=$1
	word=$2
	shift 2
	"$command" "$@" >"$work/out" 2>"$work/err"
	got=$?
	[ "$got" = "$wanted" ] || fail "'$*' exits $got and should $wanted"
	if ! grep -qF -e "$word" "$work/out" "$work/err"; then
		fail "'$*' does not say '$word': $(cat "$work/err")"
	fi
}

# the same for `bench interleaved`; nothing may be printed on stdout
refused() {
	word=$1
	shift
	expect 2 "$word" bench interleaved "$@"
	[ ! -s "$work/out" ] || fail "'$*' is refused and prints something"
}

expect 0 'dropbehind ' --version
expect 0 'bench' --help
expect 0 'interleaved' help bench
expect 0 'interleaved' bench --help
expect 0 '--records' bench interleaved --help
expect 2 'Usage' 
expect 2 "'nonsense'" nonsense
expect 2 "'--nonsense'" --nonsense
expect 2 "'nonsense'" help nonsense
expect 2 'which workload' bench
expect 2 "'nonsense'" bench nonsense

refused "'--nonsense'" --nonsense
refused "'-x'" -x
refused 'surplus' surplus
refused '--threads needs a value' --threads
refused '--threads: 0' --threads 0
refused "--threads: 'two'" --threads two
refused '--threads: 99999' --threads 99999
refused "--records: '0'" --records 0
refused "--records: ''" --records 4096,,8192
refused "--records: '-1'" --records -1
refused "--records: '4096x'" --records 4096x
refused '4096 is named twice' --records 4096,4096
refused '1048577' --total 1M --records 1048577
refused "--total: 'much'" --total much
refused '99999999999G' --total 99999999999G
refused "'kernel:magic'" --contenders kernel:none,kernel:magic
refused 'kernel:none is named twice' --contenders kernel:none,kernel:none
refused "--dsync: 'maybe'" --dsync maybe
refused '--rounds: 0' --rounds 0
refused "--gap: 'x'" --gap x
refused "--budget: '1k'" --budget 1k
refused "'zfs'" --scratch=zfs
refused '--block-size needs --scratch' --block-size 4k
refused '3000' --scratch --block-size 3000
refused 'btrfs' --scratch=btrfs --block-size 4k
refused 'exclude each other' --scratch --dir .
refused 'takes no value' --json=yes
refused '--warm' --warm --total 8k --records 4096
expect 1 '/nonexistent' bench interleaved --dir /nonexistent

if [ "$(id -u)" = 0 ] && setpriv --reuid 65534 --clear-groups true; then
	chmod 755 "$work"
	if setpriv --reuid 65534 --clear-groups test -x "$command"; then
		setpriv --reuid 65534 --clear-groups "$command" bench \
			interleaved --scratch >"$work/out" 2>"$work/err"
		[ $? = 2 ] || fail 'a user without root may use --scratch'
		grep -q 'needs root' "$work/err" || fail 'it does not say why'
	fi
elif [ "$(id -u)" != 0 ]; then
	refused 'needs root' --scratch
fi

# The table, on no terminal: no progress, and everything is removed.
expect 0 'verified' bench interleaved --dir "$work/dir" --total 256k \
	--records 6000 --rounds 2 --threads 4
[ ! -s "$work/err" ] || fail "something on stderr: $(cat "$work/err")"
for name in kernel:none kernel:dontcache kernel:direct engine:dontcache; do
	grep -q " $name " "$work/out" || fail "no $name in the table"
done
grep -q 'kernel:direct *missing: not applicable' "$work/out" ||
	fail 'kernel:direct does not say why it is missing'
[ -z "$(ls "$work/dir")" ] || fail "left behind: $(ls "$work/dir")"

# What there is of process $1: loop devices, mounts, directories. The mount of
# a scratch file system is in a namespace of its own and never seen.
traces() {
	cat /sys/block/loop*/loop/backing_file 2>/dev/null |
		grep "dropbehind-bench-$1"
	grep "dropbehind-bench-$1-" /proc/mounts
	ls -d "/tmp/dropbehind-bench-$1"-* 2>/dev/null
	ls "$work/dir"
}

# interrupted SIGNAL SECONDS ARGUMENTS
interrupted() {
	signal=$1
	seconds=$2
	shift 2
	# Background jobs of a script ignore SIGINT unless told otherwise.
	env --default-signal=INT "$command" bench interleaved "$@" \
		--records 1000 --total 64M >"$work/out" 2>"$work/err" &
	pid=$!
	sleep "$seconds"
	during=$(traces "$pid")
	kill -s "$signal" "$pid"
	wait "$pid"
	got=$?
	[ "$got" = 130 ] || fail "$signal after $seconds s: exits $got: $*"
	[ ! -s "$work/out" ] || fail "$signal: half a report: $*"
	# The last one to close a loop device may be someone who looked at it.
	sleep 0.2
	[ -z "$(traces "$pid")" ] ||
		fail "$signal after $seconds s leaves $(traces "$pid"): $*"
	pid=
}

for seconds in 0.1 0.7; do
	interrupted INT "$seconds" --dir "$work/dir"
	interrupted TERM "$seconds" --dir "$work/dir" --overwrite --json
done
[ -n "$during" ] || fail 'a run in a directory leaves no trace to look for'
if [ "$(id -u)" = 0 ] && [ -e /dev/loop-control ]; then
	for seconds in 0.05 0.3 1.5; do
		interrupted INT "$seconds" --scratch
		interrupted TERM "$seconds" --scratch --json
	done
	echo "$during" | grep -q memfd ||
		fail "no loop device to look for, only: $during"
else
	echo 'not root, or no loop devices: --scratch is not interrupted'
fi

exit $failed
