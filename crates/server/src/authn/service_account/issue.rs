//! Issues service account tokens (AN-80, AN-94, AN-95).

use pki::jwt::SignError;

use super::accounts::ServiceAccounts;
use super::claims::{Bound, Kubernetes, Reference};
use super::verify::{credential_id, user};

/// The lifetime of a token that was requested with [`EXTENDED`]. In seconds (AN-95).
const EXTENSION: i64 = 365 * 24 * 60 * 60;
/// The expiration that kubelets request for pods that do not specify one. In seconds (AN-95).
const EXTENDED: i64 = 3607;

/// The parameters of a token.
pub(crate) struct Order<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) account: Reference,
    pub(crate) audiences: &'a [String],
    /// The lifetime in seconds.
    pub(crate) expiration: i64,
    pub(crate) pod: Option<Reference>,
    pub(crate) secret: Option<Reference>,
    pub(crate) node: Option<Reference>,
}

/// A token, and its ID for logs (AN-96).
pub(crate) struct Issued {
    pub(crate) token: String,
    pub(crate) credential_id: String,
}

impl ServiceAccounts {
    /// Issues a token. `id` must be a new UUID. `id` is to be a new UUID.
    ///
    /// # Errors
    /// The token cannot be signed.
    pub(crate) fn issue(&self, order: Order<'_>, id: String, now: i64) -> Result<Issued, SignError> {
        let is_for_api = order.audiences.iter().all(|audience| self.issuer.api_audiences.contains(audience));
        let is_extended = self.issuer.extends_expiration
            && order.pod.is_some()
            && order.expiration == EXTENDED
            && is_for_api;
        let expiration = if is_extended { EXTENSION } else { order.expiration };
        let claims = Bound {
            aud: order.audiences.to_owned(),
            exp: now.saturating_add(expiration),
            iat: Some(now),
            iss: self.issuer.issuers.first().cloned().unwrap_or_default(),
            jti: id,
            nbf: Some(now),
            sub: user(order.namespace, &order.account.name, &order.account.uid).name,
            kubernetes: Kubernetes {
                namespace: order.namespace.to_owned(),
                node: order.node,
                pod: order.pod,
                secret: order.secret,
                serviceaccount: order.account,
                warnafter: is_extended.then(|| now.saturating_add(order.expiration)),
            },
        };
        let token = self.signing.sign(&claims)?;
        Ok(Issued { token, credential_id: credential_id(&claims.jti) })
    }
}
