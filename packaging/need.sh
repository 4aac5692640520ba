# Sourced by demo, test and release: finds the Debian packages that are missing, and installs them where it may.

missing=()
as_root=()
[[ $(id -u) == 0 ]] || as_root=(sudo)

# need COMMAND PACKAGE...   Without the command, the packages are missing.
need() { command -v "$1" >/dev/null 2>&1 || missing+=("${@:2}"); }

# Installs what is missing. Exit code 3 where it may not.
install_missing() {
  ((${#missing[@]})) || return 0
  if ((${#as_root[@]})) && ! command -v sudo >/dev/null 2>&1; then
    echo "missing Debian packages: ${missing[*]}; install them and run this again" >&2
    exit 3
  fi
  export DEBIAN_FRONTEND=noninteractive
  "${as_root[@]}" apt-get update --quiet
  "${as_root[@]}" apt-get install --quiet --yes --no-install-recommends "${missing[@]}"
}

# Finds cargo where rustup puts it. Exit code 3 without it.
find_cargo() {
  command -v cargo >/dev/null 2>&1 && return
  [[ ! -r "${CARGO_HOME:-$HOME/.cargo}/env" ]] || . "${CARGO_HOME:-$HOME/.cargo}/env"
  command -v cargo >/dev/null 2>&1 || { echo "cargo is missing: install Rust with rustup" >&2; exit 3; }
}

# need_target TRIPLE   Installs the standard library of another target where rustup can. Exit code 3 where it cannot.
need_target() {
  [[ ! -d "$(rustc --print target-libdir --target "$1")" ]] || return 0
  command -v rustup >/dev/null 2>&1 || { echo "the compiler has no target $1: install Rust with rustup" >&2; exit 3; }
  rustup target add "$1"
}
