//! Gives the linker the order of functions in the released program.

use std::env::var;

/// The target whose programs have the order. Its default linker, LLD, reads the script. A linker that `RUSTFLAGS` choose may not, so
/// then there is no order.
const TARGET: &str = "x86_64-unknown-linux-gnu";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=link-order.ld");
    let is = |name: &str, value: &str| var(name).is_ok_and(|found| found == value);
    let own_linker = var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("link"));
    if is("PROFILE", "release") && is("TARGET", TARGET) && !own_linker {
        let folder = var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo::rustc-link-arg-bin=portcullis=-Wl,--script={folder}/link-order.ld");
    }
}
