#!/bin/sh
# test_fields.sh: the manual describes every field of every structure that the
# public header defines, and every flag and constant.
set -eu

page=$DBH_SOURCE/man/dropbehind.3
header=$DBH_SOURCE/include/dropbehind/dropbehind.h
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# Without comments; what stands in braces after "struct NAME" are its fields.
awk '{ text = text $0 "\n" }
	END {
		while ((at = index(text, "/*")) > 0) {
			rest = substr(text, at + 2)
			text = substr(text, 1, at - 1) " " \
			    substr(rest, index(rest, "*/") + 2)
		}
		printf "%s", text
	}' "$header" >"$out/code"
awk '/^struct [a-z_]+ \{/ { name = $2; next }
	/^\}/ { name = "" }
	name != "" {
		gsub(/\[[^]]*\]|;/, "")
		n = split($0, part, ",")
		for (i = 1; i <= n; i++) {
			m = split(part[i], word, /[ \t*]+/)
			if (word[m] == "" && m > 1)
				m--
			if (word[m] != "")
				print name, word[m]
		}
	}' "$out/code" >"$out/fields"
sed -n 's/^#define \(DBH_[A-Z0-9_]*\) .*/\1/p; s/^\t\(DBH_[A-Z0-9_]*\) = .*/\1/p' \
	"$out/code" | grep -v '^DBH_VERSION_' >"$out/constants"

status=0
# In the part of the manual that speaks of the structure: from its first
# mention in the text on.
while read -r name field; do
	sed -n "/struct $name\"/,\$p" "$page" | grep -qw "$field" || {
		echo "$name.$field is not in man/dropbehind.3"
		status=1
	}
done <"$out/fields"
while read -r name; do
	grep -qw "$name" "$page" || {
		echo "$name is not in man/dropbehind.3"
		status=1
	}
done <"$out/constants"
echo "$(wc -l <"$out/fields") fields, $(wc -l <"$out/constants") constants"
[ "$(wc -l <"$out/fields")" -ge 40 ] && [ "$(wc -l <"$out/constants")" -ge 10 ] ||
	status=1
exit "$status"
