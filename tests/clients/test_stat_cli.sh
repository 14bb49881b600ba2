#!/bin/sh
# SPDX-License-Identifier: MIT
# `dropbehind stat` and `dropbehind trace` as they are typed, at an engine that
# a slow bench has: what they print, which socket they find, what they refuse.
set -u

command=${DBH_BUILD:-.}/frontends/cli/dropbehind
if [ ! -x "$command" ]; then
	echo "skipped: there is no $command (set DBH_BUILD)"
	exit 77
fi
here=${DBH_SOURCE:-.}/tests/clients
failed=0
work=$(mktemp -d "${TMPDIR:-/tmp}/test-stat.XXXXXX")
mkdir "$work/dir" "$work/run"
pid=
other=
cleanup() {
	[ -z "$pid" ] || kill "$pid" 2>/dev/null
	[ -z "$other" ] || kill "$other" 2>/dev/null
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

fail() {
	echo "FAILED: $*"
	failed=1
}

# expect STATUS WORD ARGUMENT...: exit status, and a word of what is said
expect() {
	wanted=$1
	word=$2
	shift 2
	timeout 60 "$command" "$@" >"$work/out" 2>"$work/err"
	got=$?
	[ "$got" = "$wanted" ] || fail "'$*' exits $got and should $wanted"
	if ! grep -qF -e "$word" "$work/out" "$work/err"; then
		fail "'$*' does not say '$word': $(cat "$work/err")"
	fi
}

# refused STATUS WORD ARGUMENT...: the same, and nothing on standard output, and
# one line that begins with whose it is.
refused() {
	expect "$@"
	shift 2
	[ ! -s "$work/out" ] || fail "'$*' is refused and prints something"
	grep -q "^dropbehind $1: " "$work/err" || fail "'$*' complains as nobody"
	[ "$(wc -l <"$work/err")" = 1 ] || fail "'$*' complains at length"
}

# serve PATH: an engine with a control socket there, of that name or that of its
# process; a writer that takes its time, so that it lives until it is told to go.
serve() {
	"$command" bench interleaved --dir "$work/dir" --control "$1" \
		--contenders engine:dontcache --records 6000 --threads 2 \
		--gap 20000 --total 64M --dsync no --rounds 1 \
		>/dev/null 2>"$work/bench.err" &
	pid=$!
	i=0
	until [ -S "$1" ] || [ -S "$1/dropbehind-$pid.sock" ]; do
		kill -0 "$pid" 2>/dev/null && [ "$i" -lt 600 ] || {
			fail "no socket: $(cat "$work/bench.err")"
			exit 1
		}
		i=$((i + 1))
		sleep 0.1
	done
}

for sub in stat trace; do
	expect 0 'PID|SOCKET' $sub --help
	expect 0 'PID|SOCKET' help $sub
	refused 2 'which process' $sub
	refused 2 "'--nonsense'" $sub --nonsense 1
	refused 2 "'surplus'" $sub 1 surplus
	refused 1 'no process 4194304' $sub 4194304
	refused 1 '99999999999' $sub 99999999999
	refused 1 'no process has this number' $sub 0
	refused 1 "$work/none" $sub "$work/none"
	: >"$work/file"
	refused 1 "$work/file" $sub "$work/file"
	refused 1 'has no control socket' $sub $$
done
refused 2 "'never'" stat --watch=never 1
refused 2 "'0'" stat --watch=0 1
refused 2 "'-1'" stat --watch=-1 1
refused 2 "'nan'" stat --watch=nan 1
refused 2 'exclude' stat --json --prometheus 1
refused 2 "'0'" trace --count 0 1
refused 2 "'-1'" trace --count=-1 1
refused 2 "'1x'" trace --count 1x 1
refused 2 "''" trace --events '' 1
refused 2 'no list' trace --events 'kick bio' 1
refused 2 "'--count'" trace --count

socket=$work/run/dropbehind.sock
serve "$socket"
refused 1 'no such event' trace --events nonsense "$socket"

# For people: every name that the kernel has, once.
expect 0 BdiWriteback stat "$socket"
for name in BdiWriteback BdiReclaimable BdiDontcacheDirty BdiDirtied BdiWritten \
	BdiDirtyThresh DirtyThresh BackgroundThresh BdiWriteBandwidth \
	WbDirtyThresh WbWriteBandwidth WbCgIno WbWriteback WbReclaimable WbDontcacheDirty WbDirtied WbWritten; do
	[ "$(grep -c "^$name: *[0-9]" "$work/out")" = 1 ] || fail "no one $name"
done
for name in b_dirty b_io b_more_io b_dirty_time state; do
	[ "$(grep -c "^$name: *[0-9a-f]" "$work/out")" = 2 ] ||
		fail "no two $name"
done
for name in write read sync flush write_bio read_bio throttle; do
	grep -q "^$name  *[0-9]" "$work/out" || fail "no latency of $name"
done

# For programs.
expect 0 '"pid"' stat --json "$socket"
[ "$(wc -l <"$work/out")" = 1 ] || fail 'JSON in several lines'
python3 - "$work/out" "$pid" <<'END' || fail 'its JSON is wrong'
import json, sys

stat = json.load(open(sys.argv[1]))
assert stat["pid"] == int(sys.argv[2])
latency = {"count", "sum", "p50", "p99", "p999", "max"}
want = {
    "memory": {"limit_bytes", "used_bytes", "peak_bytes"},
    "pages": {"dirty", "writeback", "dontcache_dirty", "dirtied", "written"},
    "edges": {"live", "completed", "expired", "filled_read", "filled_zero"},
    "kicks": {"rounds", "skips"},
    "sync": {"flushes", "waiters", "waiters_max", "sizes"},
    "bios": {"read", "write"},
    "latency_ns": {"write", "read", "sync", "flush", "write_bio", "read_bio",
                   "throttle"},
    "trace": {"clients", "lost"},
}
for group, names in want.items():
    assert names <= set(stat[group]), (group, stat[group])
for name in want["latency_ns"]:
    assert set(stat["latency_ns"][name]) == latency, name
assert [x["le"] for x in stat["sync"]["sizes"]][-2:] == [64, None]
assert [x["le"] for x in stat["bios"]["read"]["sizes"]] == \
    [4096 << i for i in range(9)]
for bdi in stat["bdi"]:
    assert {"dev", "dirty", "state", "b_dirty_time"} <= set(bdi), bdi
assert len(stat["bdi"]) == 1
END
expect 0 dropbehind_bio_bytes_bucket stat --prometheus "$socket"
python3 "$here/check_prometheus.py" <"$work/out" || fail 'not what Prometheus takes'
if command -v promtool >/dev/null; then
	promtool check metrics <"$work/out" || fail 'promtool does not take it'
fi

# Again and again, until a signal.
"$command" stat --json --watch=0.05 "$socket" >"$work/watch" 2>"$work/err" &
other=$!
until [ "$(wc -l <"$work/watch")" -ge 3 ]; do
	kill -0 "$other" 2>/dev/null || break
	sleep 0.05
done
kill -TERM "$other"
wait "$other"
[ $? = 130 ] || fail "--watch ends otherwise: $(cat "$work/err")"
other=
[ "$(wc -l <"$work/watch")" -ge 3 ] || fail '--watch came too seldom'

expect 0 edge_created trace --count 3 --events edge_created "$socket"
[ "$(grep -c ': edge_created: dev [0-9]*:[0-9]* ino [0-9]* index [0-9]* off [0-9]* len [0-9]*$' \
	"$work/out")" = 3 ] || fail "no three events: $(cat "$work/out")"
expect 0 '"event"' trace --json --count 2 "$socket"
# The engine goes, and with it who watches it.
"$command" trace "$socket" >/dev/null 2>"$work/err" &
other=$!
until "$command" stat --json "$socket" | grep -q '"clients":1'; do
	kill -0 "$other" 2>/dev/null || break
	sleep 0.05
done
kill "$pid"
wait "$pid"
pid=
wait "$other"
[ $? = 1 ] || fail 'trace does not notice that the engine is gone'
other=
grep -q 'the engine is gone' "$work/err" || fail "it says $(cat "$work/err")"
[ ! -e "$socket" ] || fail 'the socket stays'
refused 1 "$socket" stat "$socket"

# A process: by what it listens at; then by the directory that is looked at
# first, and not if what lies there is another's.
serve "$work/run"
expect 0 "\"pid\":$pid" stat --json "$pid"
XDG_RUNTIME_DIR=$work/run expect 0 "\"pid\":$pid" stat --json "$pid"
ln -s "dropbehind-$pid.sock" "$work/run/dropbehind-$$.sock"
XDG_RUNTIME_DIR=$work/run refused 1 'has no control socket' stat $$
kill "$pid"
wait "$pid"
pid=

exit "$failed"
