//! Who asks? Client certificates, then static tokens; any other bearer token is a credential that nobody recognises.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::{ArcSwap, ArcSwapOption};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use pki::cert::{Verified, VerifyError};
use pki::{CaBundle, Identity, UnverifiedCertificate};
use policy::User;
use portcullis_pki as pki;
use portcullis_policy as policy;

use crate::token_file::TokenFile;

/// The user of requests without credentials (AN-110).
pub const ANONYMOUS: &str = "system:anonymous";
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// How long a certificate that failed is not looked at again on the same connection: checking a long chain is work
/// that a client could ask for with every request.
const REMEMBER_FAILURE: Duration = Duration::from_secs(1);
/// AN-45
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// A credential that is not accepted. The answer is 401, and the cause is only logged (AN-20).
#[derive(Debug, thiserror::Error)]
pub enum Unauthorized {
    /// Nothing was shown, and anonymous requests are not served.
    #[error("no credentials")]
    Anonymous,
    /// A certificate that does not verify.
    #[error(transparent)]
    Certificate(#[from] VerifyError),
    /// A token that nobody recognises (AN-52).
    #[error("invalid bearer token")]
    Token,
}

/// Finds out who asks.
pub struct Authentication {
    clients: ArcSwap<CaBundle>,
    /// The user of requests without credentials, if they are served.
    anonymous: Option<Arc<User>>,
    tokens: TokenFile,
}

/// The certificate that the peer of a connection showed, and what came of it.
pub struct Peer {
    certificate: Option<UnverifiedCertificate>,
    last: ArcSwapOption<Known>,
}

/// The outcome of a verification, good as long as the bundle is the same.
struct Known {
    bundle: Arc<CaBundle>,
    outcome: Result<Accepted, (VerifyError, SystemTime)>,
}

/// A chain that was verified, and the user that it names.
struct Accepted {
    verified: Verified,
    user: Option<Arc<User>>,
}

impl Known {
    /// What it still says at that moment: a yes while the chain is valid, a no for a short time.
    fn at(&self, now: SystemTime) -> Option<Result<Option<Arc<User>>, VerifyError>> {
        match &self.outcome {
            Ok(Accepted { verified, user }) => verified.is_valid_at(now).then(|| Ok(user.clone())),
            Err((error, when)) => {
                let is_fresh = now.duration_since(*when).is_ok_and(|age| age < REMEMBER_FAILURE);
                is_fresh.then(|| Err(error.clone()))
            }
        }
    }
}

impl Peer {
    /// A peer that showed this certificate, or none.
    pub fn new(certificate: Option<UnverifiedCertificate>) -> Self {
        Self { certificate, last: ArcSwapOption::empty() }
    }

    /// Whether there is a certificate, good or not.
    pub(crate) fn shows_certificate(&self) -> bool {
        self.certificate.is_some()
    }
}

impl Authentication {
    /// Clients are those with a certificate of this bundle; with `anonymous`, also everybody else as
    /// `system:anonymous`.
    pub fn new(clients: CaBundle, anonymous: bool) -> Self {
        let user = || Arc::new(User::new(ANONYMOUS, [UNAUTHENTICATED]));
        Self {
            clients: ArcSwap::from_pointee(clients),
            anonymous: anonymous.then(user),
            tokens: TokenFile::default(),
        }
    }

    /// The same, and who shows one of these tokens (AN-60).
    #[must_use]
    pub fn with_tokens(mut self, tokens: TokenFile) -> Self {
        self.tokens = tokens.map(join_authenticated);
        self
    }

    /// Goes by another bundle from now on, on open connections too (AN-40).
    pub fn replace_clients(&self, clients: CaBundle) {
        self.clients.store(Arc::new(clients));
    }

    /// Who asks (AN-10 to AN-13). A credential that fails is never taken for none, unless another one succeeds.
    ///
    /// # Errors
    /// See [`Unauthorized`].
    pub fn authenticate(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        now: SystemTime,
    ) -> Result<Arc<User>, Unauthorized> {
        // AN-11: what fails does not keep the next from succeeding.
        let failed = match &peer.certificate {
            None => None,
            Some(certificate) => match self.user_of(certificate, &peer.last, now) {
                Ok(Some(user)) => return Ok(user),
                Ok(None) => None,
                Err(error) => Some(error),
            },
        };
        if let Some(token) = bearer_token(headers) {
            let user = self.tokens.user(token).cloned();
            return user.ok_or_else(|| failed.unwrap_or(Unauthorized::Token));
        }
        if let Some(error) = failed {
            return Err(error);
        }
        self.anonymous.clone().ok_or(Unauthorized::Anonymous)
    }

    /// The user that a certificate names; nothing when it names nobody (AN-43). Verified anew only when the bundle
    /// has changed or the chain is no longer valid.
    fn user_of(
        &self,
        certificate: &UnverifiedCertificate,
        last: &ArcSwapOption<Known>,
        now: SystemTime,
    ) -> Result<Option<Arc<User>>, Unauthorized> {
        let bundle = self.clients.load();
        if let Some(known) = &*last.load()
            && Arc::ptr_eq(&known.bundle, &bundle)
            && let Some(answer) = known.at(now)
        {
            return Ok(answer?);
        }
        let outcome = certificate.verify(&bundle, now).map(|verified| {
            let user = verified.identity().map(|identity| Arc::new(user(identity)));
            Accepted { verified, user }
        });
        let answer = outcome.as_ref().map(|accepted| accepted.user.clone()).map_err(Clone::clone);
        let outcome = outcome.map_err(|error| (error, now));
        last.store(Some(Arc::new(Known { bundle: Arc::clone(&bundle), outcome })));
        Ok(answer?)
    }
}

/// The user that an identity is (AN-12, AN-42 to AN-45).
fn user(identity: &Identity) -> User {
    let mut user = User::new(identity.common_name(), identity.organizations().iter().cloned());
    user.uid = identity.user_id().to_owned();
    user.extra.insert(CREDENTIAL_ID.to_owned(), vec![identity.credential_id().to_owned()]);
    join_authenticated(&mut user);
    user
}

/// AN-12
fn join_authenticated(user: &mut User) {
    if user.name != ANONYMOUS && !user.in_group(AUTHENTICATED) && !user.in_group(UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
}

/// Whether the request is served as somebody unknown (AN-22).
pub fn is_anonymous(user: &User) -> bool {
    user.name == ANONYMOUS || user.in_group(UNAUTHENTICATED)
}

/// The bearer token of a request (AN-50, AN-51, AN-57): the second of the words of the first `Authorization`
/// header, with exactly one space before it.
fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes().trim_ascii();
    let mut words = value.splitn(3, |b| *b == b' ');
    let scheme = words.next()?;
    let token = words.next()?;
    (scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_bearer_token_is_the_second_word_an_50_an_51_an_57() {
        let token = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_str(text).unwrap());
            bearer_token(&headers).map(|t| String::from_utf8(t.to_vec()).unwrap())
        };
        for (text, expected) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc", Some("abc")),
            ("BEARER abc extra words", Some("abc")),
            ("  Bearer abc  ", Some("abc")),
            ("Bearer  abc", None),
            ("Bearer", None),
            ("Bearer\tabc", None),
            ("Bearer: abc", None),
            ("Bearerabc", None),
            ("Basic YTpi", None),
            ("", None),
        ] {
            assert_eq!(token(text).as_deref(), expected, "{text:?}");
        }
    }
}
