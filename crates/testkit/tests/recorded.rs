//! The recordings in the repository equal the originals.

use portcullis_testkit::recorded;

#[test]
fn the_copies_of_the_recordings_equal_the_originals() {
    let names = recorded::names();
    assert!(!names.is_empty(), "there are recordings");
    let Some(originals) = recorded::originals() else { return };
    for name in names {
        let folder =
            if name.starts_with("data/") { originals.clone() } else { originals.join("conformance") };
        let path = folder.join(&name);
        // Some originals are compressed as well.
        let compressed = folder.join(format!("{name}.gz"));
        let original = match compressed.exists() {
            true => recorded::decompressed(&compressed),
            false => std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())),
        };
        assert!(recorded::text(&name) == original, "{name} differs from {}", path.display());
    }
}
