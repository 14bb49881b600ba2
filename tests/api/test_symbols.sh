#!/bin/sh
# test_symbols.sh LIBRARY: what the shared library exports is what its map
# names, and that is what the public headers declare and the manual describes.
set -eu

library=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

nm -D --defined-only "$library" |
	awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
	sort >"$out/exported"

sed -n '/global:/,/local:/s/^[[:space:]]*\([a-z0-9_]*\);.*/\1/p' \
	"$DBH_SOURCE/lib/dropbehind.map" | sort >"$out/map"

# A name right before a bracket, outside comments and preprocessor lines, that
# is no type.
cat "$DBH_SOURCE"/include/dropbehind/*.h |
	awk '{ text = text $0 "\n" }
	END {
		while ((at = index(text, "/*")) > 0) {
			rest = substr(text, at + 2)
			text = substr(text, 1, at - 1) " " \
			    substr(rest, index(rest, "*/") + 2)
		}
		printf "%s", text
	}' | grep -v '^#' | tr '\n' ' ' |
	awk '{
		n = split($0, statements, ";")
		for (i = 1; i <= n; i++) {
			s = statements[i]
			if (s ~ /typedef/ ||
			    !match(s, /dbh_[a-z0-9_]+[ ]*\(/))
				continue
			name = substr(s, RSTART, RLENGTH)
			sub(/[ ]*\($/, "", name)
			print name
		}
	}' | sort >"$out/header"

status=0
diff -u --label map --label exported "$out/map" "$out/exported" || status=1
diff -u --label header --label map "$out/header" "$out/map" || status=1
test -s "$out/header" || status=1
while read -r name; do
	grep -q "^\.Fn $name " "$DBH_SOURCE/man/dropbehind.3" || {
		echo "$name is not in man/dropbehind.3"
		status=1
	}
done <"$out/header"
echo "$(wc -l <"$out/header") functions"
exit "$status"
