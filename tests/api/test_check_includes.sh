#!/bin/sh
# The tree passes tools/check-includes, and each kind of bad include is found.
set -eu

check=$DBH_SOURCE/tools/check-includes
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
status=0

"$check" "$DBH_SOURCE" || status=1

# A small tree that is in order.
mkdir -p "$tree/include/dropbehind" "$tree/lib/base" "$tree/lib/block" \
	"$tree/lib/mm" "$tree/frontends/cli" "$tree/frontends/fuse" "$tree/bench"
cat >"$tree/include/dropbehind/dropbehind.h" <<'END'
#include <stddef.h>
END
echo '#include <stddef.h>' >"$tree/lib/base/list.h"
echo '#include "base/list.h"' >"$tree/lib/block/block.h"
cat >"$tree/lib/mm/folio.h" <<'END'
#include "base/list.h"
#include "block/block.h"
END
cat >"$tree/lib/mm/folio.c" <<'END'
#include "mm/folio.h"
#include <errno.h>
END
cat >"$tree/lib/api.c" <<'END'
#include <dropbehind/dropbehind.h>
#include "mm/folio.h"
END
echo '#include <dropbehind/dropbehind.h>' >"$tree/bench/bench.h"
cat >"$tree/frontends/cli/main.c" <<'END'
#include <dropbehind/dropbehind.h>
#include "bench/bench.h"
END
echo '#include <stdio.h>' >"$tree/frontends/fuse/main.h"
"$check" "$tree" || {
	echo 'a good tree is refused'
	status=1
}

# bad FILE INCLUDE...: with that text the file is refused.
bad() {
	file=$tree/$1
	shift
	saved=
	[ ! -e "$file" ] || saved=$(cat "$file")
	printf '#include %s\n' "$@" >"$file"
	if said=$("$check" "$tree"); then
		echo "not found: ${file#"$tree"/}: $*"
		status=1
	elif ! echo "$said" | grep -q "^${file#"$tree"/}:[0-9]"; then
		echo "no line given for ${file#"$tree"/}: $said"
		status=1
	fi
	if [ -n "$saved" ]; then
		echo "$saved" >"$file"
	else
		rm "$file"
	fi
}

bad lib/base/list.h '"block/block.h"'
bad lib/base/list.h '<dropbehind/dropbehind.h>'
bad lib/block/block.h '"mm/folio.h"'
bad lib/block/block.h '<mm/folio.h>'
bad lib/mm/folio.h '"../block/block.h"'
bad lib/mm/folio.h '"bench/bench.h"'
bad lib/mm/folio.h '"lib/base/list.h"'
bad lib/mm/folio.h '"absent.h"'
bad lib/mm/folio.h '"absent/absent.h"'
bad lib/mm/folio.h '<liburing.h>'
bad lib/mm/folio.c '<errno.h>' '"mm/folio.h"'
bad lib/api.c '"vfs/vfs.h"'
bad lib/mm/folio.h '"control/control.h"'
bad include/dropbehind/dropbehind.h '"base/list.h"'
bad frontends/cli/main.c '"mm/folio.h"'
bad frontends/cli/main.c '"base/list.h"'
bad frontends/cli/main.c '"frontends/fuse/main.h"'
bad bench/bench.h '"frontends/fuse/main.h"'
bad bench/bench.h '"block/block.h"'

exit "$status"
