# test-summary.awk TESTLOG.JSON: what meson's tests came to.
#
# Names each test that failed or was skipped (with the last thing it said: its
# reason), then prints "N passed, N failed, N skipped". A test program that
# reports its cases in cmocka's form counts as many; any other counts as one.

# The string value of a key in a line of JSON, still escaped. A quote inside a
# string is escaped, so that no string can look like a key.
function value(key,    start, rest) {
	start = index($0, "\"" key "\": \"")
	if (!start)
		return ""
	rest = substr($0, start + length(key) + 5)
	gsub(/\\\\/, "\001", rest)
	gsub(/\\"/, "\002", rest)
	rest = substr(rest, 1, index(rest, "\"") - 1)
	return rest
}

function plain(text) {
	gsub(/\\n/, "\n", text)
	gsub(/\\t/, " ", text)
	gsub(/\\u001b\[[0-9;]*m/, "", text)
	gsub(/\002/, "\"", text)
	gsub(/\001/, "\\", text)
	return text
}

function last_line(text,    lines, n) {
	n = split(text, lines, "\n")
	while (n > 0 && lines[n] ~ /^[ ]*$/)
		n--
	return n > 0 ? lines[n] : "no reason given"
}

function count(text, what,    lines, n, i, hits) {
	n = split(text, lines, "\n")
	hits = 0
	for (i = 1; i <= n; i++)
		if (index(lines[i], what) == 1)
			hits++
	return hits
}

# What a case said last before its verdict is the reason for it.
function name_cases(text, what, label, name,    lines, n, i, reason) {
	n = split(text, lines, "\n")
	for (i = 1; i <= n; i++) {
		if (index(lines[i], what) != 1)
			continue
		reason = ""
		if (i > 1 && lines[i - 1] != "" && lines[i - 1] !~ /^\[/)
			reason = ": " lines[i - 1]
		print label " " name ": " substr(lines[i],
		    length(what) + 1) reason
	}
}

{
	name = plain(value("name"))
	result = value("result")
	out = plain(value("stdout"))
	err = plain(value("stderr"))

	ok = count(out, "[       OK ] ")
	bad = count(out, "[  FAILED  ] ")
	skip = count(out, "[  SKIPPED ] ")

	if (result == "SKIP") {
		skipped++
		print "SKIPPED " name ": " last_line(out "\n" err)
		next
	}
	name_cases(out, "[  SKIPPED ] ", "SKIPPED", name)
	name_cases(out, "[  FAILED  ] ", "FAILED", name)
	passed += ok
	failed += bad
	skipped += skip
	if (result == "OK" || result == "EXPECTEDFAIL") {
		if (ok + bad + skip == 0)
			passed++
		else if (bad) {
			# It said that it failed, and exited with 0.
			broken = 1
		}
	} else if (bad == 0) {
		failed++
		print "FAILED " name ": " tolower(result) ": " \
		    last_line(out "\n" err)
	}
}

END {
	if (passed + failed + skipped == 0) {
		print "no test ran"
		failed = 1
	}
	printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
	exit failed || broken
}
