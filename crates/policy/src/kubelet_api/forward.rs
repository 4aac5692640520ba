//! Normalizes the target of a request that is forwarded to a kubelet.
//!
//! A kubelet of an older release matches the decoded and cleaned path; a newer one matches the path as sent. A
//! forwarded target must mean the same to both, or one request is authorized and another is served.

use std::borrow::Cow;

use portcullis_apimachinery::percent;

use super::route::{is_clean, is_plain, push_escaped};

/// Returns the target (path and query) to send to a kubelet, or `None` if routers could interpret the path differently:
/// if a decoded segment is empty (except the last), is `.` or `..`, or contains a `/`, a `\`, a control character or
/// bytes that are not UTF-8; or if the path cannot be decoded. The result has no unnecessary escapes: `/%70ods` becomes
/// `/pods`. The query is unchanged.
///
/// DIVERGES: a kubelet 1.36 serves some of these, such as `/logs/a%2Fb`. The caller must respond with 404, after
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
        let bytes = percent::decode(segment).ok()?;
        if !is_unambiguous(&bytes) {
            return None;
        }
        forwarded.push('/');
        bytes.iter().for_each(|byte| push_escaped(&mut forwarded, *byte));
    }
    forwarded.push_str(query);
    Some(Cow::Owned(forwarded))
}

fn is_unambiguous(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    !matches!(text, "." | "..") && !text.contains(|c: char| c == '/' || c == '\\' || c.is_control())
}
