//! Checks the objects that a requested token is bound to, as they are now (AN-82 to AN-88).

use std::sync::Arc;

use kinds::Map;
use kinds::resource::Resource;
use kinds::resources::core::nodes::NODES;
use kinds::resources::core::secrets::SECRETS;
use kinds::resources::core::service_accounts::SERVICE_ACCOUNTS;
use kinds::resources::pods::PODS;
use policy::User;
use policy::identity::{ACCOUNT_PREFIX, ACCOUNTS, NODE_NAME_EXTRA};
use portcullis_apimachinery::quote::quoted;
use portcullis_store::{Entry, Store as _};

use super::accounts::ServiceAccounts;
use super::claims::{Bound, Reference};
use crate::authn::caller::{CREDENTIAL_ID, join_authenticated};
use crate::authn::token_error::TokenError;
use crate::authn::vouched::Notes;
use crate::http::account::{POD_NAME, POD_UID};
use crate::registry::{meta, storage};

const NODE_UID: &str = "authentication.kubernetes.io/node-uid";
/// The tolerated clock skew, and how long a deleted object still counts. In seconds (AN-82, AN-83).
const LEEWAY: i64 = 60;

/// AN-89
const STALE: &str = "authentication.k8s.io/stale-token";

impl ServiceAccounts {
    /// Returns the user of a token with a valid signature.
    ///
    /// # Errors
    /// The token is not valid at this time, or an object that it is bound to does not exist.
    pub(super) async fn bound_user(&self, claims: Bound, now: i64) -> Result<(User, Notes), TokenError> {
        // AN-82
        if claims.nbf.is_some_and(|from| from > now.saturating_add(LEEWAY)) {
            return Err(TokenError::NotYet);
        }
        if now.saturating_sub(LEEWAY) > claims.exp {
            return Err(TokenError::Expired);
        }
        if claims.iat.is_some_and(|when| when > now.saturating_add(LEEWAY)) {
            return Err(TokenError::FromTheFuture);
        }
        let bound = &claims.kubernetes;
        let (namespace, account) = (bound.namespace.as_str(), &bound.serviceaccount);
        let mut user = user(namespace, &account.name, &account.uid);
        if claims.sub != user.name {
            return Err(TokenError::Subject);
        }
        self.account(namespace, account, now).await?;
        if let Some(secret) = &bound.secret {
            self.expect(&SECRETS, namespace, secret, now).await?;
        }
        if let Some(pod) = &bound.pod {
            self.expect(&PODS, namespace, pod, now).await?;
        }
        // AN-86: the node of a pod is not checked.
        if let (Some(node), None) = (&bound.node, &bound.pod) {
            self.expect(&NODES, "", node, now).await?;
        }
        // AN-88
        let mut say = |key: &str, value: String| user.extra.insert(key.to_owned(), vec![value]);
        if !claims.jti.is_empty() {
            say(CREDENTIAL_ID, credential_id(&claims.jti));
        }
        if let Some(pod) = bound.pod.as_ref().filter(|pod| !pod.name.is_empty() && !pod.uid.is_empty()) {
            say(POD_NAME, pod.name.clone());
            say(POD_UID, pod.uid.clone());
        }
        if let Some(node) = bound.node.as_ref().filter(|node| !node.name.is_empty()) {
            say(NODE_NAME_EXTRA, node.name.clone());
            if !node.uid.is_empty() {
                say(NODE_UID, node.uid.clone());
            }
        }
        // AN-89
        let late = bound.warnafter.filter(|after| *after < now).map(|after| now.saturating_sub(after));
        match bound.warnafter {
            Some(_) if late.is_some() => drop(self.metrics.stale.inc()),
            Some(_) => drop(self.metrics.valid.inc()),
            None => {}
        }
        let stale = late.map(|seconds| {
            (STALE, format!("subject: {}, seconds after warning threshold: {seconds}", user.name))
        });
        Ok((user, Notes { annotations: stale.into_iter().collect(), ..Notes::default() }))
    }

    /// AN-83: returns the account if it exists with this UID.
    async fn account(&self, namespace: &str, account: &Reference, now: i64) -> Result<(), TokenError> {
        let gone = || {
            let name = &account.name;
            TokenError::Refused(format!("serviceaccounts {} not found", quoted(name)))
        };
        let stored = self.object(&SERVICE_ACCOUNTS, namespace, &account.name).await?.ok_or_else(gone)?;
        if meta::text(&stored, "uid") != account.uid {
            return Err(TokenError::Refused("the service account has another uid than the token".to_owned()));
        }
        if is_deleted(&stored, now) {
            return Err(TokenError::Refused("the service account has been deleted".to_owned()));
        }
        Ok(())
    }

    /// AN-84 to AN-86: checks that an object exists with this UID.
    async fn expect(
        &self,
        resource: &'static Resource,
        namespace: &str,
        reference: &Reference,
        now: i64,
    ) -> Result<(), TokenError> {
        let stored = self.object(resource, namespace, &reference.name).await?;
        match stored {
            Some(stored) if meta::text(&stored, "uid") != reference.uid => {
                let kind = resource.kind;
                Err(TokenError::Refused(format!("the {kind} that the token is bound to has another uid")))
            }
            Some(stored) if !is_deleted(&stored, now) => Ok(()),
            _ => Err(TokenError::Invalidated),
        }
    }

    pub(super) async fn object(
        &self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Map>, TokenError> {
        let Some(entry) = self.entry(resource, namespace, name).await? else { return Ok(None) };
        storage::decode(&entry.value).map(Some).map_err(|_| TokenError::Store)
    }

    pub(super) async fn entry(
        &self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<Entry>>, TokenError> {
        let key = storage::key(resource, namespace, name);
        self.backend.get(&key).await.map_err(|_| TokenError::Store)
    }
}

/// Returns the extra value that identifies a token (AN-88).
pub(super) fn credential_id(jti: &str) -> String {
    format!("JTI={jti}")
}

/// Creates the user of a service account.
pub(super) fn user(namespace: &str, name: &str, uid: &str) -> User {
    let mut user = User::new(
        format!("{ACCOUNT_PREFIX}{namespace}:{name}"),
        [ACCOUNTS.to_owned(), format!("{ACCOUNTS}:{namespace}")],
    );
    uid.clone_into(&mut user.uid);
    join_authenticated(&mut user);
    user
}

/// Returns whether an object is past its deletion time (AN-83 to AN-85). An invalid time counts as past.
fn is_deleted(object: &Map, now: i64) -> bool {
    match meta::text(object, "deletionTimestamp") {
        "" => false,
        time => meta::seconds(time).is_none_or(|time| time < now.saturating_sub(LEEWAY)),
    }
}
