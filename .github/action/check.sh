#!/bin/sh
# Runs the checks of $CHECKS: annotations in the log, a table in the summary, JUnit, and a report of
# each check. Their status is an output; this script fails only if it could not do its work.
set -eu
work=${RUNNER_TEMP:-/tmp}/zctrace
zctrace=$work/bin/zctrace
rm -rf "$work/head" "$work/junit.xml"
mkdir -p "$work/head"

# eBPF needs root, what is checked does not: it runs as the user of the job, unless a check names
# another. Without root, zctrace uses strace, and says so.
user=
[ "$(id -u)" = 0 ] || ! sudo -n true 2>/dev/null || user="$(id -u):$(id -g)"
as_root() {
    if [ -n "$user" ]; then
        sudo -E env "PATH=$PATH" "$@"
    else
        "$@"
    fi
}

# Words, which the shell must not take for anything else.
set -f
# shellcheck disable=SC2086
set -- ${CHECKS:-zctrace.toml}
set +f
status=0
as_root "$zctrace" check "$@" ${user:+"--user=$user"} --label "commit=${GITHUB_SHA:-${CI_COMMIT_SHA:-unknown}}" \
    --reports "$work/head" --export junit "$work/junit.xml" \
    --export markdown "${GITHUB_STEP_SUMMARY:-$work/summary.md}" 2>"$work/said" || status=$?
cat "$work/said" >&2
as_root chown -R "$(id -u)" "$work"

# Without results nothing is annotated yet: a file of checks that is wrong, for one.
if [ -n "${GITHUB_ACTIONS:-}" ] && [ ! -s "$work/junit.xml" ]; then
    why=$(tr '`[:cntrl:]' "' " <"$work/said")
    # shellcheck disable=SC2016 # The backticks are Markdown.
    printf 'zctrace could not check anything: `%s`\n\n' "$why" >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
    printf '%s\n' "::error title=zctrace::could not check anything: $(printf %s "$why" | sed 's/%/%25/g')"
fi

# What a pull request will be compared with, if this is the default branch. A run that was interrupted,
# or has no report, replaces none.
saved=false
if [ "${GITHUB_EVENT_NAME:-}" = push ] || [ "${CI_COMMIT_BRANCH:-}" = "${CI_DEFAULT_BRANCH:-none}" ]; then
    if [ "$status" -le 3 ] && ls "$work/head"/*.json >/dev/null 2>&1; then
        rm -rf "$work/base"
        cp -R "$work/head" "$work/base"
        saved=true
    fi
fi
if [ -n "${GITHUB_OUTPUT:-}" ]; then
    printf 'status=%s\nreports=%s\nsaved=%s\n' "$status" "$work/head" "$saved" >>"$GITHUB_OUTPUT"
else
    exit "$status"
fi
