//! Bearer tokens in request headers (AN-50 to AN-57).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderName};

use super::token_error::TokenError;
use crate::http::subprotocol;

/// AN-51
const SPARE_SPACE: &str =
    "the provided Authorization header contains extra space before the bearer token, and is ignored";

/// Returns the bearer token of a request (AN-50), from the first `Authorization` header.
pub(super) fn token(headers: &HeaderMap) -> Option<&[u8]> {
    token_of(headers.get(AUTHORIZATION)?.as_bytes())
}

/// Returns the bearer token of a header value (AN-50, AN-51, AN-57): the second word, preceded by exactly one space.
pub(super) fn token_of(value: &[u8]) -> Option<&[u8]> {
    match words(value)? {
        [] => None,
        token => Some(token),
    }
}

/// Returns the text after `Bearer`, up to the next space.
fn words(value: &[u8]) -> Option<&[u8]> {
    let mut words = value.trim_ascii().splitn(3, |byte| *byte == b' ');
    let scheme = words.next()?;
    let token = words.next()?;
    scheme.eq_ignore_ascii_case(b"bearer").then_some(token)
}

/// AN-51: returns the warning for a token that was ignored because of an extra space.
pub(crate) fn spare_space(headers: &HeaderMap) -> Option<&'static str> {
    let found = words(headers.get(AUTHORIZATION)?.as_bytes())?;
    found.is_empty().then_some(SPARE_SPACE)
}

/// Returns the token in the subprotocols of a WebSocket request (AN-53); none for other requests.
pub(super) fn websocket_token(headers: &HeaderMap) -> Option<Result<Vec<u8>, TokenError>> {
    if !has_word(headers, &CONNECTION, "upgrade") || !has_word(headers, &UPGRADE, "websocket") {
        return None;
    }
    let mut tokens = Vec::new();
    let mut has_other = false;
    for protocol in subprotocol::offered(headers) {
        match protocol.strip_prefix(subprotocol::TOKEN) {
            Some(token) => tokens.push(token),
            None => has_other = true,
        }
    }
    let token = match tokens.as_slice() {
        [] => return None,
        [one] => URL_SAFE_NO_PAD.decode(one).ok().filter(|token| std::str::from_utf8(token).is_ok()),
        _ => None,
    };
    Some(match token {
        None => Err(TokenError::Subprotocol),
        Some(_) if !has_other => Err(TokenError::NoOtherSubprotocol),
        Some(token) => Ok(token),
    })
}

fn has_word(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|found| found.trim().eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::SEC_WEBSOCKET_PROTOCOL;

    use super::*;

    #[test]
    fn a_bearer_token_is_the_second_word_an_50_an_51_an_57() {
        let token = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_str(text).unwrap());
            let warned = spare_space(&headers).is_some();
            (token(&headers).map(|t| String::from_utf8(t.to_vec()).unwrap()), warned)
        };
        for (text, expected, is_warned) in [
            ("Bearer abc", Some("abc"), false),
            ("bearer abc", Some("abc"), false),
            ("BEARER abc extra words", Some("abc"), false),
            ("  Bearer abc  ", Some("abc"), false),
            ("Bearer  abc", None, true),
            ("Bearer", None, false),
            ("Bearer\tabc", None, false),
            ("Bearer: abc", None, false),
            ("Bearerabc", None, false),
            ("Basic YTpi", None, false),
            ("", None, false),
        ] {
            let (found, warned) = token(text);
            assert_eq!((found.as_deref(), warned), (expected, is_warned), "{text:?}");
        }
    }

    #[test]
    fn a_token_may_come_as_a_subprotocol_beside_another_an_53() {
        let token = |protocols: &[&'static str]| {
            let mut headers = HeaderMap::new();
            headers.insert(CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
            for protocol in protocols {
                headers.append(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
            }
            websocket_token(&headers).map(|found| found.map_err(|_| ()))
        };
        let own = "base64url.bearer.authorization.k8s.io.YWJj";
        assert_eq!(token(&["v4.channel.k8s.io"]), None);
        assert_eq!(token(&[own]), Some(Err(())));
        assert_eq!(token(&[own, "v4.channel.k8s.io"]), Some(Ok(b"abc".to_vec())));
        let one = "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.YWJj";
        assert_eq!(token(&[one]), Some(Ok(b"abc".to_vec())));
        assert_eq!(token(&[own, own, "v4.channel.k8s.io"]), Some(Err(())));
        for bad in ["YWJj=", "YW+j", "_w"] {
            let bad: &'static str = Box::leak(format!("{}{bad}", subprotocol::TOKEN).into_boxed_str());
            assert_eq!(token(&[bad, "v4.channel.k8s.io"]), Some(Err(())), "{bad}");
        }
        assert_eq!(websocket_token(&HeaderMap::new()).map(|_| ()), None);
    }
}
