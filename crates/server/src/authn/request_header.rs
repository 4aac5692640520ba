//! Authenticating proxies, which name the user in request headers (AN-30 to AN-36).
//!
//! The headers count only if the peer of the connection has a client certificate of the front proxy CA, which is used
//! for nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderName, HeaderValue};
use pki::CaBundle;
use pki::cert::VerifyError;
use policy::User;

use super::caller::join_authenticated;
use super::certificate::Peer;
use super::impersonation::unescaped;

/// The peer is not a front proxy.
#[derive(Debug, thiserror::Error)]
pub enum FrontProxyError {
    /// The certificate does not verify.
    #[error("not a front proxy: {0}")]
    Certificate(#[from] VerifyError),
    /// The name is not allowed (AN-30).
    #[error("the common name of the certificate is not among the allowed names")]
    Name,
}

/// An invalid header name in a flag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Empty or white space (AN-36).
    #[error("--requestheader-{0}: a name is empty")]
    Empty(&'static str),
    /// Not a valid header name.
    #[error("--requestheader-{0}: {1:?} is not the name of a header")]
    Name(&'static str, String),
    /// AN-36.
    #[error("--requestheader-uid-headers must contain X-Remote-Uid")]
    Uid,
}

/// The header names, as in the flags.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    /// `--requestheader-username-headers`
    pub username: Vec<String>,
    /// `--requestheader-uid-headers`
    pub uid: Vec<String>,
    /// `--requestheader-group-headers`
    pub group: Vec<String>,
    /// `--requestheader-extra-headers-prefix`
    pub extra_prefix: Vec<String>,
}

/// The authenticator of users named by front proxies.
pub struct RequestHeader {
    authorities: ArcSwap<CaBundle>,
    /// The allowed names of front proxies; any if empty.
    allowed_names: Vec<String>,
    username: Vec<HeaderName>,
    uid: Vec<HeaderName>,
    group: Vec<HeaderName>,
    /// In lower case.
    extra_prefix: Vec<String>,
    /// As they were given.
    headers: Headers,
}

impl RequestHeader {
    /// Trusts front proxies with certificates of these CAs.
    ///
    /// # Errors
    /// See [`HeaderError`].
    pub fn new(
        authorities: CaBundle,
        allowed_names: Vec<String>,
        headers: &Headers,
    ) -> Result<Self, HeaderError> {
        let uid = names("uid-headers", &headers.uid)?;
        if !uid.is_empty() && !uid.iter().any(|name| name.as_str() == "x-remote-uid") {
            return Err(HeaderError::Uid);
        }
        let extra_prefix = names("extra-headers-prefix", &headers.extra_prefix)?;
        Ok(Self {
            authorities: ArcSwap::from_pointee(authorities),
            allowed_names,
            username: names("username-headers", &headers.username)?,
            uid,
            group: names("group-headers", &headers.group)?,
            extra_prefix: extra_prefix.iter().map(|name| name.as_str().to_owned()).collect(),
            headers: headers.clone(),
        })
    }

    /// Returns whether this header names a user.
    pub(super) fn reads(&self, name: &HeaderName) -> bool {
        let is_name = |names: &[HeaderName]| names.contains(name);
        is_name(&self.username)
            || is_name(&self.uid)
            || is_name(&self.group)
            || self.extra_prefix.iter().any(|prefix| name.as_str().starts_with(prefix))
    }

    /// The settings that extension API servers are told, by flag.
    pub(super) fn told(&self) -> [(&'static str, &[String]); 5] {
        let Headers { username, uid, group, extra_prefix } = &self.headers;
        [
            ("allowed-names", &self.allowed_names),
            ("username-headers", username),
            ("uid-headers", uid),
            ("group-headers", group),
            ("extra-headers-prefix", extra_prefix),
        ]
    }

    /// Returns whether front proxies may have any name.
    pub(super) fn allows_any_name(&self) -> bool {
        self.allowed_names.is_empty()
    }

    /// Replaces the CAs.
    pub(super) fn replace_authorities(&self, authorities: CaBundle) {
        self.authorities.store(Arc::new(authorities));
    }

    /// Returns the user that a front proxy names; none if the peer presents no certificate or names no user (AN-31).
    ///
    /// # Errors
    /// The peer is not a front proxy (AN-30).
    pub(super) fn user(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        now: SystemTime,
    ) -> Result<Option<Arc<User>>, FrontProxyError> {
        let Some(name) = peer.front_proxy(&self.authorities.load(), now)? else { return Ok(None) };
        if !self.allowed_names.is_empty() && !self.allowed_names.contains(&name) {
            return Err(FrontProxyError::Name);
        }
        Ok(self.named(headers).map(Arc::new))
    }

    /// AN-31 to AN-34
    fn named(&self, headers: &HeaderMap) -> Option<User> {
        let name = first(headers, &self.username)?;
        let uid = first(headers, &self.uid).unwrap_or_default();
        let groups = self.group.iter().flat_map(|name| headers.get_all(name)).map(text);
        let groups = groups.filter(|group| !group.is_empty()).collect();
        let mut extra = BTreeMap::<String, Vec<String>>::new();
        for (header, value) in headers {
            for prefix in &self.extra_prefix {
                if let Some(key) = header.as_str().strip_prefix(prefix.as_str()) {
                    extra.entry(unescaped(key)).or_default().push(text(value));
                }
            }
        }
        let mut user = User { name, uid, groups, extra };
        join_authenticated(&mut user);
        Some(user)
    }
}

fn names(flag: &'static str, texts: &[String]) -> Result<Vec<HeaderName>, HeaderError> {
    let name = |text: &String| match text.trim() {
        "" => Err(HeaderError::Empty(flag)),
        trimmed => HeaderName::from_bytes(trimmed.as_bytes())
            .map_err(|_| HeaderError::Name(flag, trimmed.to_owned())),
    };
    texts.iter().map(name).collect()
}

fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// Returns the first non-empty value of the headers in order.
fn first(headers: &HeaderMap, names: &[HeaderName]) -> Option<String> {
    names.iter().filter_map(|name| headers.get(name)).map(text).find(|value| !value.is_empty())
}
