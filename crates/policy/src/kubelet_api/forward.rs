//! How a request is spelled when it goes on to a kubelet.
//!
//! A kubelet of an older release matches the decoded path and tidies it; a newer one matches the path as sent. What is
//! passed on must mean the same to both, or one thing is authorized and another is served.

use std::borrow::Cow;

use super::route::{decoded, is_clean, is_plain, push_escaped};

/// The target, path and query, to send to a kubelet, or nothing if routers could read the path differently: if one of
/// its segments, once decoded, is empty (but the last), `.` or `..`, or holds a `/`, a `\`, a control character or
/// bytes that are no UTF-8; or if it cannot be decoded. What is forwarded encodes nothing that need not be:
/// `/%70ods` becomes `/pods`. The query stays as it is.
///
/// DIVERGES: a kubelet 1.36 serves some of the others, such as `/logs/a%2Fb`. They are to be answered with 404, after
/// authorization.
pub fn forwardable(target: &str) -> Option<Cow<'_, str>> {
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    if !path.starts_with('/') || !is_clean(path) {
        return None;
    }
    if path.bytes().all(|byte| byte == b'/' || is_plain(byte)) {
        return Some(Cow::Borrowed(target));
    }
    let mut forwarded = String::with_capacity(target.len());
    for segment in path.split('/').skip(1) {
        let bytes: Vec<u8> = decoded(segment).collect();
        if !is_unambiguous(segment, &bytes) {
            return None;
        }
        forwarded.push('/');
        bytes.into_iter().for_each(|byte| push_escaped(&mut forwarded, byte));
    }
    forwarded.push_str(query);
    Some(Cow::Owned(forwarded))
}

fn is_unambiguous(segment: &str, bytes: &[u8]) -> bool {
    let is_malformed = segment.split('%').skip(1).any(|behind| {
        let mut digits = behind.bytes();
        !(0..2).all(|_| digits.next().is_some_and(|digit| digit.is_ascii_hexdigit()))
    });
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    !is_malformed
        && !matches!(text, "." | "..")
        && !text.contains(|c: char| c == '/' || c == '\\' || c.is_control())
}
