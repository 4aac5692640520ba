//! Tokens of other issuers (JSON Web Tokens, RFC 7519), which AuthenticationConfiguration names in `jwt` (AN-10).
//!
//! The claim `iss` tells whose a token is, and nothing else of it is believed before its signature is verified. A token goes
//! through these steps: signature (`keys`), times and audience (`standard`), distributed claims (`distributed`), rules and
//! user (`mapping`). Tokens are not cached, and no message shows a part of one.
//!
//! DIVERGES: Kubernetes caches accepted tokens for ten seconds (AN-54).

pub mod configuration;
mod distributed;
mod issuer;
mod keys;
mod mapping;
mod standard;

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use pki::jwt::UnverifiedToken;
use policy::User;

pub use self::issuer::Issuer;
use super::metrics::IssuerMetrics;
use super::token_error::TokenError;
use crate::http::account::Account;

/// The issuers in force, by URL.
pub(super) struct Issuers {
    table: ArcSwap<HashMap<String, Arc<Issuer>>>,
    metrics: IssuerMetrics,
}

impl Issuers {
    pub(super) fn new(metrics: IssuerMetrics) -> Self {
        Self { table: ArcSwap::default(), metrics }
    }

    /// Accepts tokens of these issuers alone. Those that are known keep their keys; the keys of the others are fetched from now on.
    pub(super) fn replace(&self, issuers: Vec<Issuer>) {
        let known = self.table.load();
        let mut table = HashMap::with_capacity(issuers.len());
        for mut issuer in issuers {
            let url = issuer.url().to_owned();
            issuer.begin(known.get(&url).map(|old| &**old));
            table.insert(url, Arc::new(issuer));
        }
        self.table.store(Arc::new(table));
    }

    /// Returns the user of a token; none for a token of nobody here. What an issuer is asked is charged to the account.
    ///
    /// # Errors
    /// The token is of one of the issuers, and is not accepted.
    pub(super) async fn vouch(
        &self,
        token: &[u8],
        account: Account,
        now: SystemTime,
    ) -> Result<Option<User>, TokenError> {
        if self.table.load().is_empty() {
            return Ok(None);
        }
        let Some(token) = UnverifiedToken::read(token) else { return Ok(None) };
        let Some(issuer) = self.table.load().get(token.issuer()).cloned() else { return Ok(None) };
        let started = Instant::now();
        let user = issuer.user(&token, account, now).await;
        self.metrics.authenticated(issuer.url(), user.is_ok(), started.elapsed());
        user.map(Some)
    }
}
