//! Where the file of an object lies in an exported directory: the path follows from the key, and the key from the path (ET-60).
//!
//! Pure functions. Never touches a file.

/// The extension of the files.
const EXTENSION: &str = ".yaml";
/// The longest part of a path, so that it is a valid file name everywhere also with an extension. Longer ones are divided.
const MOST_PART: usize = 200;

/// The path of a key below the directory. Letters, digits, `-`, `_` and `.` stay, but no name starts with a `.`; everything else
/// is percent-encoded. A part that is too long is divided into folders whose names end in `%`. None if a part of the key is
/// empty.
#[must_use]
pub fn path_of(key: &str) -> Option<String> {
    let mut path = String::new();
    for part in key.strip_prefix('/')?.split('/') {
        if part.is_empty() {
            return None;
        }
        let mut encoded = String::new();
        for byte in part.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => encoded.push(char::from(byte)),
                b'.' if !encoded.len().is_multiple_of(MOST_PART) => encoded.push('.'),
                other => encoded.push_str(&format!("%{other:02X}")),
            }
        }
        if !path.is_empty() {
            path.push('/');
        }
        for (at, character) in encoded.chars().enumerate() {
            if at > 0 && at % MOST_PART == 0 {
                path.push_str("%/");
            }
            path.push(character);
        }
    }
    path.push_str(EXTENSION);
    Some(path)
}

/// The key of a path below the directory; none if no key has this path.
#[must_use]
pub fn key_of(path: &str) -> Option<String> {
    let joined = path.strip_suffix(EXTENSION)?.replace("%/", "");
    let mut bytes = vec![b'/'];
    let mut rest = joined.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let value = digit()?.checked_mul(16)?.checked_add(digit()?)?;
        bytes.push(u8::try_from(value).ok()?);
    }
    let key = String::from_utf8(bytes).ok()?;
    // Each key has one path.
    (path_of(&key)? == path).then_some(key)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn each_key_has_one_path_from_which_it_follows() {
        let long = "x:".repeat(400);
        let keys = [
            "/core/pods/default/web".to_owned(),
            "/rbac.authorization.k8s.io/clusterroles/system:node".to_owned(),
            "/portcullis/aggregated/..".to_owned(),
            "/core/configmaps/a/%2F % é\u{0}".to_owned(),
            format!("/rbac.authorization.k8s.io/clusterroles/{long}"),
            format!("/core/configmaps/ns/{}", "n".repeat(253)),
            format!("/core/configmaps/ns/{}", "n".repeat(200)),
            format!("/core/configmaps/{}../c", "n".repeat(200)),
        ];
        for key in keys {
            let path = path_of(&key).unwrap();
            assert_eq!(key_of(&path).as_deref(), Some(&*key), "{path}");
            for part in path.split('/') {
                assert!(part.len() <= 255 && !part.starts_with('.'), "{part}");
                assert!(part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.%".contains(&byte)));
            }
        }
    }

    #[test]
    fn a_path_that_no_key_has_is_refused() {
        for path in [
            "core/pods/default/web",
            "core/pods/default/web.yml",
            "core/pods/default/we%62.yaml",
            "core/pods/default/we%3a.yaml",
            "core/pods/default/.web.yaml",
            "core/pods//web.yaml",
            "core/po%/ds/default/web.yaml",
            "core/pods/default/a%2.yaml",
            "core/pods/default/%FF.yaml",
            ".yaml",
        ] {
            assert_eq!(key_of(path), None, "{path}");
        }
    }
}
