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
expect 0 '--records' help bench interleaved
expect 2 "'nonsense'" help bench nonsense
expect 2 "'surplus'" help bench interleaved surplus
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
refused '--warm and --overwrite' --warm --overwrite
refused '--warm and --overwrite' --overwrite --warm
refused '--scratch=xfs?' --scratch xfs
refused "argument 'xfs'" xfs

refused_noisy() {
	word=$1
	shift
	expect 2 "$word" bench noisy "$@"
	[ ! -s "$work/out" ] || fail "'noisy $*' is refused and prints something"
}
expect 0 '--hot' help bench noisy
expect 0 '--hot' bench noisy --help
refused_noisy "'--threads'" --threads 4
refused_noisy "'--dsync=no'" --dsync=no
refused_noisy '--writers: 0' --writers 0
refused_noisy '--readers: 0' --readers 0
refused_noisy "--cache: 'none'" --cache none
refused_noisy '--hot' --hot 0
refused_noisy '--read-size: 8192 bytes are more than --hot 4096' \
	--hot 4k --read-size 8k
refused_noisy '--rate: 2000000' --rate 2000000
refused_noisy '--seconds: 0' --seconds 0
refused_noisy '--budget: 1048576 bytes do not hold --hot 4194304' \
	--hot 4M --budget 1M
refused_noisy "'kernel:magic' (idle, kernel:none" --contenders kernel:magic
refused_noisy '1048577' --total 1M --records 1048577
refused "'idle'" --contenders idle
expect 1 '/nonexistent' bench noisy --dir /nonexistent
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
	--records 6000 --rounds 2 --threads 4 --latency
[ ! -s "$work/err" ] || fail "something on stderr: $(cat "$work/err")"
for name in kernel:none kernel:dontcache kernel:direct engine:dontcache; do
	grep -q " $name " "$work/out" || fail "no $name in the table"
done
grep -q 'p99.9' "$work/out" || fail 'no latencies in the table'
grep -q 'kernel:direct *missing: not applicable' "$work/out" ||
	fail 'kernel:direct does not say why it is missing'
[ -z "$(ls "$work/dir")" ] || fail "left behind: $(ls "$work/dir")"

expect 0 'verified' bench noisy --dir "$work/dir" --total 2M --hot 1M \
	--records 6000 --rounds 1 --seconds 1 --latency \
	--contenders idle,kernel:none,engine:dontcache
for name in idle kernel:none engine:dontcache; do
	grep -q " $name *kernel " "$work/out" || fail "noisy: no $name"
done
grep -q ' engine:dontcache *engine ' "$work/out" ||
	fail 'noisy: nobody reads through the engine'
[ -z "$(ls "$work/dir")" ] || fail "noisy leaves $(ls "$work/dir")"

# What there is of process $1: loop devices, mounts, directories. The mount of
# a scratch file system is in a namespace of its own and never seen.
loop_device() {
	cat /sys/block/loop*/loop/backing_file 2>/dev/null |
		grep -F "memfd:dropbehind-bench-$1 "
}
traces() {
	loop_device "$1"
	grep "dropbehind-bench-$1-" /proc/mounts
	ls -d "/tmp/dropbehind-bench-$1"-* 2>/dev/null
	ls "$work/dir"
}
gone() {
	[ -z "$(traces "$1")" ]
}

# What process $1 has come to. The table of mounts is its own.
in_dir() {
	ls "$work/dir" | grep -q "^dropbehind-bench-$1-"
}
in_file() {
	ls "$work/dir/dropbehind-bench-$1"-*/file >/dev/null 2>&1
}
in_scratch_dir() {
	ls -d "/tmp/dropbehind-bench-$1"-* >/dev/null 2>&1
}
in_loop() {
	[ -n "$(loop_device "$1")" ]
}
in_mount() {
	grep -qF "/tmp/dropbehind-bench-$1-" "/proc/$1/mountinfo" 2>/dev/null
}

ended() {
	case $(cut -d ' ' -f 3 "/proc/$1/stat" 2>/dev/null) in
	'' | Z) return 0 ;;
	esac
	return 1
}

# await CONDITION PID: for as long as the process lives, and two minutes at
# most: a machine under load is slow, and only one that hangs takes so long.
await() {
	tries=0
	until "$1" "$2"; do
		tries=$((tries + 1))
		[ "$tries" -le 2400 ] || return 1
		! ended "$2" || return 1
		sleep 0.05
	done
}

# One that does not end by itself: of the workload in $workload.
workload=interleaved
start() {
	# Background jobs of a script ignore SIGINT unless told otherwise.
	env --default-signal=INT "$command" bench "$workload" "$@" \
		--records 1000 --total 64M --rounds 1000 \
		>"$work/out" 2>"$work/err" &
	pid=$!
}

# interrupted SIGNAL CONDITION ARGUMENTS: a signal at that point leaves nothing
interrupted() {
	signal=$1
	point=$2
	shift 2
	start "$@"
	if ! await "$point" "$pid"; then
		kill "$pid" 2>/dev/null
		wait "$pid"
		fail "never $point: $*: $(cat "$work/err")"
		pid=
		return
	fi
	kill -s "$signal" "$pid"
	wait "$pid"
	got=$?
	[ "$got" = 130 ] || fail "$signal when $point: exits $got: $*"
	[ ! -s "$work/out" ] || fail "$signal: half a report: $*"
	# The last one to close a loop device may be someone who looked at it.
	tries=0
	until gone "$pid" || [ "$tries" -gt 600 ]; do
		tries=$((tries + 1))
		sleep 0.05
	done
	gone "$pid" ||
		fail "$signal when $point leaves $(traces "$pid"): $*"
	pid=
}

# killed CONDITION ARGUMENTS: what kill -9 leaves is in $left
killed() {
	point=$1
	shift
	start "$@"
	await "$point" "$pid" || fail "never $point: $*: $(cat "$work/err")"
	kill -s KILL "$pid"
	wait "$pid" 2>/dev/null
	left=$pid
	pid=
}

# Why there can be no scratch file system here; nothing if there can.
no_scratch() {
	if [ "$(id -u)" != 0 ]; then
		echo 'not root'
	elif ! unshare --mount true 2>/dev/null; then
		echo 'root without the right to mount'
	elif ! (: <>/dev/loop-control) 2>/dev/null; then
		echo 'no loop devices'
	elif ! PATH=$PATH:/usr/sbin:/sbin command -v mkfs.xfs >/dev/null; then
		echo 'no mkfs.xfs'
	elif ! "$command" bench interleaved --scratch --total 64M \
		--records 64k --contenders kernel:none --rounds 1 --dsync no \
		>"$work/out" 2>"$work/err" &&
		grep -q 'of free memory' "$work/err"; then
		cat "$work/err"
	fi
}

for point in in_dir in_file; do
	interrupted INT "$point" --dir "$work/dir"
	interrupted TERM "$point" --dir "$work/dir" --overwrite --json
done
workload=noisy
interrupted INT in_file --dir "$work/dir" --hot 1M
workload=interleaved

# What kill -9 leaves goes with the next run, if it is empty and nobody's.
mkdir "$work/dir/dropbehind-bench-$$-abcdef"
: &
wait $!
mkdir "$work/dir/dropbehind-bench-$!-abcdef"
mkdir "$work/dir/dropbehind-bench-$!-abcdeg"
touch "$work/dir/dropbehind-bench-$!-abcdeg/file"
expect 0 'verified' bench interleaved --dir "$work/dir" --total 256k \
	--records 64k --rounds 1 --threads 4 --contenders kernel:none
[ -d "$work/dir/dropbehind-bench-$$-abcdef" ] ||
	fail 'the directory of a process that lives was removed'
[ ! -d "$work/dir/dropbehind-bench-$!-abcdef" ] ||
	fail 'the directory of a process that is gone was not removed'
[ -f "$work/dir/dropbehind-bench-$!-abcdeg/file" ] ||
	fail 'a directory was removed that was not empty'
rm -r "$work/dir"/*

reason=$(no_scratch)
if [ -z "$reason" ]; then
	for point in in_scratch_dir in_loop in_mount; do
		interrupted INT "$point" --scratch
		interrupted TERM "$point" --scratch --json
	done
	killed in_mount --scratch
	ls -d /tmp/dropbehind-bench-"$left"-* >/dev/null ||
		fail 'kill -9 leaves no directory; the manual says that it does'
	expect 0 'verified' bench interleaved --scratch --total 256k \
		--records 64k --rounds 1 --threads 4 --contenders kernel:none
	[ -z "$(traces "$left")" ] ||
		fail "still there after another run: $(traces "$left")"
else
	echo "skipped: --scratch is not interrupted: $reason"
fi

exit $failed
