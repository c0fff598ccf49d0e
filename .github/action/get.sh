#!/bin/sh
# Gets zctrace into $RUNNER_TEMP/zctrace/bin: $BINARY, or the release of this version from
# $REPOSITORY, whose checksum must be right. `--first` removes what an earlier use of the action in this
# job has left; not where the reports to compare with are restored before this.
set -eu
bin=$RUNNER_TEMP/zctrace/bin
if [ "${1:-}" = --first ]; then
    rm -rf "$RUNNER_TEMP/zctrace/base" "$RUNNER_TEMP/zctrace/head" "$RUNNER_TEMP/zctrace/junit.xml"
fi
mkdir -p "$bin"
if [ -n "${BINARY:-}" ]; then
    cp "$BINARY" "$bin/zctrace"
else
    version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$GITHUB_ACTION_PATH/Cargo.toml" | head -n 1)
    name=zctrace-$version-$(uname -m)-unknown-linux-musl
    release=${GITHUB_SERVER_URL:-https://github.com}/$REPOSITORY/releases/download/v$version
    cd "$bin"
    for file in "$name.tar.gz" "$name.sha256"; do
        curl -sSfL --retry 3 -o "$file" "$release/$file"
    done
    grep " $name.tar.gz\$" "$name.sha256" >checksum
    sha256sum --check --quiet checksum
    tar -xzf "$name.tar.gz" --strip-components=1
fi
chmod 755 "$bin/zctrace"
"$bin/zctrace" --version | head -n 1
# Later steps find it by its name.
echo "$bin" >>"${GITHUB_PATH:-/dev/null}"
# Each job of a matrix has its own artifact, cache and comment. Keys of caches and names of artifacts may not have every
# character.
name=${NAME:-syscalls}${MATRIX:+ ($MATRIX)}
slug=zctrace-$(printf %s "${NAME:-syscalls}${MATRIX:+ $MATRIX}" | tr -c 'A-Za-z0-9._-' -)
# Where the scripts leave things: in a container, the expressions of a workflow have another path for it.
printf '%s\n' "work=$RUNNER_TEMP/zctrace" "name=$name" "slug=$slug" >>"${GITHUB_OUTPUT:-/dev/null}"
