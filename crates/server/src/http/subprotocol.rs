//! The subprotocol of WebSocket requests by which browsers send a token (AN-53).

use http::header::SEC_WEBSOCKET_PROTOCOL;
use http::{HeaderMap, HeaderValue};

/// The start of its name; the token follows.
pub(crate) const TOKEN: &str = "base64url.bearer.authorization.k8s.io.";

/// The offered subprotocols.
pub(crate) fn offered(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|protocol| !protocol.is_empty())
}

/// Removes the offered subprotocols that are not wanted, as if they had not been offered, and values that are not text.
/// Returns whether there was one, and none is left.
pub(crate) fn keep(headers: &mut HeaderMap, is_wanted: impl Fn(&str) -> bool) -> bool {
    let are_text = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().all(|value| value.to_str().is_ok());
    if are_text && offered(headers).all(&is_wanted) {
        return false;
    }
    let kept: Vec<&str> = offered(headers).filter(|protocol| is_wanted(protocol)).collect();
    let kept = HeaderValue::from_str(&kept.join(", ")).ok().filter(|kept| !kept.is_empty());
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    let is_left = kept.is_some();
    if let Some(kept) = kept {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, kept);
    }
    !is_left
}

/// Removes the subprotocols that contain tokens (KA-43).
pub(crate) fn without_token(headers: &mut HeaderMap) {
    keep(headers, |protocol| !protocol.starts_with(TOKEN));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wanted_is_left_of_several_lines() {
        let mut headers = HeaderMap::new();
        for line in ["v5.channel.k8s.io, v4.channel.k8s.io", "channel.k8s.io"] {
            headers.append(SEC_WEBSOCKET_PROTOCOL, line.parse().unwrap());
        }
        assert!(!keep(&mut headers, |_| true));
        assert_eq!(headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().count(), 2, "unchanged");
        assert!(!keep(&mut headers, |protocol| protocol != "v5.channel.k8s.io"));
        assert_eq!(offered(&headers).collect::<Vec<_>>(), ["v4.channel.k8s.io", "channel.k8s.io"]);
        assert!(keep(&mut headers, |_| false));
        assert!(headers.is_empty());
        assert!(!keep(&mut headers, |_| false), "nothing was offered");
    }
}
