//! The headers of requests and answers that are passed on.

use http::header::{
    AUTHORIZATION, CONNECTION, COOKIE, EXPECT, FORWARDED, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::http::subprotocol::without_token;

/// The headers that apply to one connection only.
const HOP_BY_HOP: [HeaderName; 8] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];
/// The other headers by which a caller could claim an identity or an origin.
const CLAIMS: [HeaderName; 5] = [AUTHORIZATION, COOKIE, EXPECT, FORWARDED, PROXY_AUTHORIZATION];
const CLAIM_PREFIXES: [&str; 4] = ["x-remote-", "impersonate-", "x-forwarded-", "x-real-ip"];

/// The words of a header that is a list, however many lines it has.
pub(super) fn words<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

/// The headers that are passed on to the server at `host`: nothing that names the caller or its credentials, and nothing that
/// is about the caller's connection, but the upgrade that is asked for.
pub(crate) fn to_server(headers: &HeaderMap, host: &str, protocol: Option<&'static str>) -> HeaderMap {
    let mut kept = to_client(headers, protocol);
    for name in &CLAIMS {
        kept.remove(name);
    }
    let claims: Vec<HeaderName> = kept
        .keys()
        .filter(|name| CLAIM_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix)))
        .cloned()
        .collect();
    for name in claims {
        kept.remove(name);
    }
    if let Ok(host) = HeaderValue::from_str(host) {
        kept.insert(HOST, host);
    }
    without_token(&mut kept);
    kept
}

/// The headers of an answer without those about the connection, but the upgrade that was agreed on.
pub(crate) fn to_client(headers: &HeaderMap, protocol: Option<&'static str>) -> HeaderMap {
    let mut kept = headers.clone();
    for named in words(headers, &CONNECTION) {
        if let Ok(name) = named.parse::<HeaderName>() {
            kept.remove(name);
        }
    }
    for name in &HOP_BY_HOP {
        kept.remove(name);
    }
    if let Some(protocol) = protocol {
        kept.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        kept.insert(UPGRADE, HeaderValue::from_static(protocol));
    }
    kept
}
