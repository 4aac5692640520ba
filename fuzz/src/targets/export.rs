//! Paths of the files of an exported store.

use portcullis_server::registry::content::{key_of, path_of};

pub(super) const PATH: &[&str] =
    &["core/pods/default/web.yaml", ".yaml", "%/", "%25", "%2F", "%3A", "%00", "/", "..", "%2E%2E", "%C3%A9"];

/// An input as a path, and as a key.
pub(super) fn path(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    if let Some(path) = path_of(text) {
        assert!(path.split('/').all(is_file_name), "{path}: stays below the directory");
        assert_eq!(key_of(&path).as_deref(), Some(text), "{path}: the reverse");
    }
    let Some(key) = key_of(text) else { return false };
    assert_eq!(path_of(&key).as_deref(), Some(text), "{key:?}: one path for each key");
    true
}

/// Whether this is a name that every file system takes, and that is not hidden and leads nowhere else.
fn is_file_name(name: &str) -> bool {
    let taken = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.%".contains(&byte);
    (1..=255).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(taken)
}
