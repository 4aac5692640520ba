//! URIs in certificate requests, read and written as Go does (CS-17).

/// Whether Go reads the text as a URI and its host, if it has one, as a host name.
pub(crate) fn is_uri(text: &str) -> bool {
    parse(text).is_some()
}

/// A URI as Go writes it: the scheme in lower case, no empty fragment, and the path escaped.
pub(crate) fn rewritten(uri: &str) -> String {
    let (scheme, rest) = match scheme(uri) {
        Some(Some(rest)) => (uri.split(':').next().unwrap_or_default().to_ascii_lowercase() + ":", rest),
        _ => (String::new(), uri),
    };
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (hierarchy, query) =
        rest.split_once('?').map_or((rest, None), |(before, query)| (before, Some(query)));
    let is_opaque = !scheme.is_empty() && !hierarchy.starts_with('/');
    let path_at = match hierarchy.strip_prefix("//").filter(|_| !is_opaque) {
        Some(after) => after.find('/').map_or(hierarchy.len(), |at| at + 2),
        None => 0,
    };
    let (authority, path) = hierarchy.split_at_checked(path_at).unwrap_or((hierarchy, ""));
    let path = if is_opaque { path.to_owned() } else { escaped_path(path) };
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let fragment = if fragment.is_empty() { String::new() } else { format!("#{fragment}") };
    [scheme.as_str(), authority, &path, &query, &fragment].concat()
}

/// Keeps a valid path; unescapes and escapes any other one.
fn escaped_path(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte);
    if path.bytes().all(|byte| is_plain(byte) || b"%!'()*[]".contains(&byte)) {
        return path.to_owned();
    }
    let mut written = String::new();
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        let mut digit = || bytes.next().and_then(hex).unwrap_or_default();
        let byte = if byte == b'%' { digit() << 4 | digit() } else { byte };
        if is_plain(byte) {
            written.push(char::from(byte));
        } else {
            written.push_str(&format!("%{byte:02X}"));
        }
    }
    written
}

fn parse(text: &str) -> Option<()> {
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return None;
    }
    let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
    is_escaped(fragment).then_some(())?;
    if text == "*" {
        return Some(());
    }
    let (has_scheme, rest) = match scheme(text)? {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (rest, _query) = rest.split_once('?').unwrap_or((rest, ""));
    if !rest.starts_with('/') {
        if has_scheme {
            // Opaque, as in `urn:a:b`: the rest is not checked.
            return Some(());
        }
        // Text before a colon in the first segment of a path would be a scheme.
        if rest.split('/').next().unwrap_or_default().contains(':') {
            return None;
        }
    }
    let mut path = rest;
    if let Some(after) = rest.strip_prefix("//").filter(|_| has_scheme || !rest.starts_with("///")) {
        let end = after.find('/').unwrap_or(after.len());
        let (authority, behind) = after.split_at_checked(end)?;
        host(authority)?;
        path = behind;
    }
    is_escaped(path).then_some(())
}

/// The text after the scheme, if there is one. `None` for a text that begins with a colon.
fn scheme(text: &str) -> Option<Option<&str>> {
    for (i, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if i > 0 => {}
            ':' if i == 0 => return None,
            ':' => return Some(text.get(i + 1..)),
            _ => return Some(None),
        }
    }
    Some(None)
}

/// Checks `user@host:port`.
fn host(authority: &str) -> Option<()> {
    let host = match authority.rsplit_once('@') {
        Some((user, host)) => {
            let may_stand = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
            (user.bytes().all(may_stand) && is_escaped(user)).then_some(())?;
            host
        }
        None => authority,
    };
    let name = match host.rfind('[') {
        Some(0) => {
            let (inside, port) = host.rsplit_once(']')?;
            is_port(port).then_some(())?;
            let (address, zone) = inside.split_once("%25").unwrap_or((inside, ""));
            (address.bytes().all(is_in_host) && is_escaped(zone)).then_some(())?;
            host.to_owned()
        }
        Some(_) => return None,
        None => {
            let port = host.rfind(':').and_then(|colon| host.get(colon..)).unwrap_or_default();
            is_port(port).then_some(())?;
            unescaped_host(host)?
        }
    };
    (name.is_empty() || is_domain(&name)).then_some(())
}

/// Whether a host may hold this byte unescaped.
fn is_in_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte)
}

/// The unescaped host. Only bytes beyond ASCII may be escaped.
fn unescaped_host(host: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = host.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte != b'%' {
            is_in_host(*byte).then_some(())?;
            bytes.push(*byte);
            continue;
        }
        let (high, behind) = rest.split_first()?;
        let (low, behind) = behind.split_first()?;
        let value = hex(*high)? << 4 | hex(*low)?;
        (value >= 0x80).then_some(())?;
        bytes.push(value);
        rest = behind;
    }
    Some(bytes.iter().map(|byte| char::from(*byte)).collect())
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Whether two hexadecimal digits follow every `%`.
fn is_escaped(text: &str) -> bool {
    text.split('%').skip(1).all(|part| {
        let mut digits = part.bytes();
        [digits.next(), digits.next()]
            .iter()
            .all(|digit| digit.is_some_and(|digit| digit.is_ascii_hexdigit()))
    })
}

/// Whether a text is empty, or a colon and digits.
fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
}

/// Labels of 1 to 63 visible characters, 253 in all.
fn is_domain(name: &str) -> bool {
    name.len() <= 253
        && name
            .split('.')
            .all(|label| (1..=63).contains(&label.len()) && label.bytes().all(|byte| byte.is_ascii_graphic()))
}

#[cfg(test)]
mod tests {
    use super::{is_uri, rewritten};

    #[test]
    fn uris_are_written_as_the_go_library_writes_them() {
        for same in [
            "",
            "spiffe://d/p",
            "urn:A:b c",
            "https://h/a%7Eb?c d",
            "https://h?",
            "https://h:/[x]",
            "a/b:c",
            "/a",
        ] {
            assert_eq!(rewritten(same), same);
        }
        for (read, written) in [
            ("SPIFFE://D/p", "spiffe://D/p"),
            ("https://h/a#", "https://h/a"),
            ("https://h/a b%2fc", "https://h/a%20b/c"),
            ("https://h/\"#f", "https://h/%22#f"),
        ] {
            assert_eq!(rewritten(read), written);
        }
    }

    // What Go's documentation and its own tests of net/url say.
    #[test]
    fn uris_are_those_of_the_go_library() {
        for good in [
            "",
            "*",
            "https://example.com/a?b=%zz",
            "spiffe://cluster.local/ns/a/sa/b",
            "urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "mailto:a@example.com",
            "a/b:c",
            "//user:pw@host:8080/x",
            "http://[::1]:8080/",
            "http://[fe80::1%25en0]/",
            "http://example.com:",
            "a b",
        ] {
            assert!(is_uri(good), "{good:?}");
        }
        for bad in [
            ":a",
            "a\u{7f}b",
            "http://a b.com/",
            "http://example.com:http/",
            "http://[::1/",
            "http://%41.com/",
            "http://host/%zz",
            "http://host/a#%",
            "1a:b",
            "http://a..b/",
            "http://example.com./",
            "http://us er@host/",
        ] {
            assert!(!is_uri(bad), "{bad:?}");
        }
    }
}
