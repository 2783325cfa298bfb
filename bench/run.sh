#!/bin/bash
# Runs the benchmarks of the folders named (all of them by default) and writes
# each one's samples to out/FOLDER.txt, its table of medians to out/FOLDER.md,
# and what all samples in out/ reach of TARGETS.md to out/TARGETS.md. See
# README.md.
set -u
cd "$(dirname "$0")"
mkdir -p bin out
for tool in medians quiet targets; do
  (cd $tool && go build -o ../bin/$tool .) || exit 1
done
export GIT_CONFIG_GLOBAL=/dev/null WTSRC=${WTSRC:-${TMPDIR:-/tmp}/bench-src}
[ $# -gt 0 ] || set -- a_policy b_shell c_canon d_schema h_mcp i_provider j_executor e_journal g_durable f_worktree
for item; do
  item=${item%/}
  time=${BENCHTIME:-300ms} args=(-foreign "${FOREIGN:-1.2}") # by default, leave one core to others
  case $item in
    f_worktree) time=1x; mkdir -p "$WTSRC" ;;  # an op takes seconds
    g_durable) args=(-foreign 9) ;;            # the database is another process
  esac
  if [ "$item" = g_durable ] && [ -z "${PGURL:-}" ]; then
    eval "$(g_durable/pg.sh)" || true; started=1 # without a server its rows are left out
  fi
  # A priority above the rest of the machine's work, where we may have one.
  nice -n "${NICE:--10}" bin/quiet -bench "${BENCH:-.}" -count "${COUNT:-6}" -benchtime "$time" -retries "${RETRIES:-0}" "${args[@]}" "./$item" >"out/$item.txt" 2>"out/$item.disturbed"
  bin/medians <"out/$item.txt" >"out/$item.md"
  if [ -n "${started:-}" ]; then g_durable/pg.sh stop; unset started PGURL; fi
done
bin/targets out >out/TARGETS.md
