//! Upgrades of connections that are passed on: what is asked for, and what the other server must answer.

use http::header::{CONNECTION, UPGRADE};
use http::request::Parts;
use http::{Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;

use super::headers::words;

/// The protocols that are passed on: those that kubelets speak.
const PROTOCOLS: [&str; 2] = ["SPDY/3.1", "websocket"];
/// WebSocket among them.
pub(crate) const WEBSOCKET: &str = PROTOCOLS[1];

/// The protocol that a request asks to change to; none if it asks for none that is known, or for several. HTTP/2 has no upgrades.
pub(crate) fn asked(head: &Parts) -> Option<&'static str> {
    let wants = head.version == Version::HTTP_11
        && words(&head.headers, &CONNECTION).any(|word| word.eq_ignore_ascii_case("upgrade"));
    if wants { only(words(&head.headers, &UPGRADE)) } else { None }
}

/// Returns the protocol among these words; it must be the only one.
fn only<'w>(mut words: impl Iterator<Item = &'w str>) -> Option<&'static str> {
    let named = words.next().filter(|_| words.next().is_none())?;
    PROTOCOLS.into_iter().find(|known| known.eq_ignore_ascii_case(named))
}

/// The reply of the other server.
pub(crate) enum Reply {
    /// It speaks the protocol from now on.
    Switched(TokioIo<Upgraded>),
    /// It refuses: the answer is an error.
    Refused,
    /// It answers something else, such as a redirect (NC-12, NC-13, NC-15), or another protocol.
    Unexpected(StatusCode),
}

/// The kinds of answers to an upgrade.
pub(crate) async fn reply(answer: &mut Response<Incoming>, protocol: &'static str) -> Reply {
    let status = answer.status();
    if status.is_client_error() || status.is_server_error() {
        return Reply::Refused;
    }
    let is_agreed = only(words(answer.headers(), &UPGRADE)) == Some(protocol);
    if status != StatusCode::SWITCHING_PROTOCOLS || !is_agreed {
        return Reply::Unexpected(status);
    }
    match hyper::upgrade::on(answer).await {
        Ok(far) => Reply::Switched(TokioIo::new(far)),
        Err(error) => {
            tracing::warn!(%error, "an upgrade was broken off");
            Reply::Unexpected(status)
        }
    }
}
