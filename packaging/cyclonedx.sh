#!/usr/bin/env bash
# Installs the tool that lists the components of a release, into the build directory, and prints where it is. Its version is
# fixed: another one might write other bytes.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly version=0.5.9
readonly folder="${CARGO_TARGET_DIR:-$PWD/target}/cyclonedx"
readonly tool="$folder/bin/cargo-cyclonedx"

mkdir -p "$folder"
# Two callers must not build it at once.
exec 9>"$folder/lock"
flock 9
if [[ "$("$tool" cyclonedx --version 2>/dev/null)" != *" $version" ]]; then
  CARGO_TARGET_DIR="$folder/build" cargo install --quiet --debug --locked --force --root "$folder" "cargo-cyclonedx@$version" >&2
  rm -rf "$folder/build"
fi
echo "$tool"
