#!/bin/sh
# Comments what changed from the reports in $BASE to those of this run, once: a second comment
# replaces the first. On GitHub, and on Forgejo and Gitea, which have the same interface; on GitLab
# as a note of the merge request. $NAME tells comments apart, $TOKEN may write them. What cannot be
# written is a warning: the token of a fork may only read. So the summary of the job, or without one its
# log, has the same.
set -eu
work=${RUNNER_TEMP:-/tmp}/zctrace
zctrace=$work/bin/zctrace
base=${BASE:-$work/base}
marker="<!-- zctrace: $NAME -->"
comment=$work/comment.md
# The longest comment that all of them take.
longest=60000

warn() {
    if [ -n "${GITHUB_ACTIONS:-}" ]; then echo "::warning title=zctrace::$1"; else echo "zctrace: $1" >&2; fi
}

# As code, whatever it contains. What is no report has the name of its file.
name_of() {
    called=$(jq -r '.labels.name // (.command | join(" "))' "$1" 2>/dev/null) || called=
    # shellcheck disable=SC2016 # The backticks are Markdown.
    printf '`%s`' "$(printf %s "${called:-$(basename "$1")}" | tr -d '`[:cntrl:]')"
}

# A table for each check that changed, or one word.
changes() {
    unchanged=0
    for now in "$work/head"/*.json; do
        [ -e "$now" ] || continue
        before=$base/$(basename "$now")
        if [ ! -e "$before" ]; then
            printf '**%s**: new\n\n' "$(name_of "$now")"
            continue
        fi
        status=0
        table=$("$zctrace" diff --format markdown "$before" "$now") || status=$?
        case $status in
        0) unchanged=$((unchanged + 1)) ;;
        1 | 3) printf '**%s**\n\n%s\n\n' "$(name_of "$now")" "$table" ;;
        *) printf '**%s**: the earlier report cannot be compared\n\n' "$(name_of "$now")" ;;
        esac
    done
    for before in "$base"/*.json; do
        [ -e "$work/head/$(basename "$before")" ] || printf '**%s**: no report of this run\n\n' "$(name_of "$before")"
    done
    [ "$unchanged" = 0 ] || echo "$unchanged unchanged"
}

# The request; the token is in a file, where no list of processes shows it.
request() {
    curl -sS --fail --config "$work/curl" -H 'Content-Type: application/json' "$@"
}

# The number of the comment that is there already, if there is one. Fails if that cannot be known. On
# GitHub, what a stranger has written is never it: the stranger could change the tables.
earlier_comment() {
    page=1 first=
    # shellcheck disable=SC2016 # The variable is jq's.
    ours='map(select((.body | startswith($marker)) and (.user.type != "User"
        or (.author_association | IN("OWNER", "MEMBER", "COLLABORATOR")))))[0].id // empty'
    while :; do
        request "$comments?per_page=100&page=$page" >"$work/page.json" || return
        jq -r --arg marker "$marker" "$ours" "$work/page.json" >"$work/id" || return
        # Forgejo has no pages, and sends all of them each time.
        if [ -s "$work/id" ] || [ "$(jq length "$work/page.json")" -lt 100 ]; then break; fi
        [ "$(jq '.[0].id' "$work/page.json")" != "$first" ] || break
        first=$(jq '.[0].id' "$work/page.json")
        page=$((page + 1))
    done
    cat "$work/id"
}

# Replaces the comment of an earlier run, or writes the first.
send() {
    earlier=$(earlier_comment) || return
    if [ -n "$earlier" ]; then
        set -- -X "$replace" "$one/$earlier"
    else
        set -- -X POST "$comments"
    fi
    request "$@" --data "@$work/body.json" >/dev/null
}

has_reports() { ls "$1"/*.json >/dev/null 2>&1; }

if ! has_reports "$work/head"; then
    warn "this run has no reports to compare"
    exit 0
fi
if ! has_reports "$base"; then
    if [ -n "${BASE:-}" ]; then
        warn "there are no reports to compare with in the directory '$BASE', which base names"
    else
        warn "there are no reports to compare with yet: a run on the default branch saves them"
    fi
    exit 0
fi
changes >"$work/changes.md"
if [ "$(sed 's/^[0-9]* //' "$work/changes.md")" = unchanged ]; then
    echo unchanged >"$work/changes.md"
fi
heading="### System calls: $NAME"
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then exec 3>>"$GITHUB_STEP_SUMMARY"; else exec 3>&1; fi
printf '%s\n\n' "$heading" | cat - "$work/changes.md" >&3
if [ "$(wc -c <"$work/changes.md")" -gt "$longest" ]; then
    echo "Too much changed for a comment: the summary or the log of the job has it." >"$work/changes.md"
fi
printf '%s\n%s\n\n' "$marker" "$heading" | cat - "$work/changes.md" >"$comment"

if [ -n "${CI_API_V4_URL:-}" ] && [ -z "${GITHUB_API_URL:-}" ]; then
    number=${CI_MERGE_REQUEST_IID:-}
    comments=$CI_API_V4_URL/projects/${CI_PROJECT_ID:-}/merge_requests/$number/notes
    one=$comments replace=PUT header="PRIVATE-TOKEN: $TOKEN"
else
    number=$(jq -r '.pull_request.number // empty' "$GITHUB_EVENT_PATH")
    issues=$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/issues
    comments=$issues/$number/comments
    one=$issues/comments replace=PATCH header="Authorization: token $TOKEN"
fi
if [ -z "$number" ]; then
    warn "this is no pull request"
    exit 0
fi
trap 'rm -f "$work/curl"' EXIT
(umask 077 && printf 'header = "%s"\n' "$header" >"$work/curl")
jq -n --rawfile body "$comment" '{ body: $body }' >"$work/body.json"
send ||
    warn "the comment cannot be written: the token of a pull request from a fork may only read, and others need the permission pull-requests: write"
