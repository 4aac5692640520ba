//! Client certificates (AN-40 to AN-47): the chain that a connection presented, and the result of verifying it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use pki::cert::{Verified, VerifyError};
use pki::{CaBundle, Identity, UnverifiedCertificate};
use policy::User;

use super::caller::{CREDENTIAL_ID, join_authenticated};
use crate::registry::bootstrap_authorities::BootstrapAuthorities;

/// How long the failure of a certificate is cached on a connection. Verifying a long chain is work that a client could
/// otherwise request again and again.
const REMEMBER_FAILURE: Duration = Duration::from_secs(1);

/// The certificate that the peer of a connection presented, and the cached result of its verification.
pub struct Peer {
    certificate: Option<UnverifiedCertificate>,
    not_after: Option<SystemTime>,
    as_client: ArcSwapOption<Known>,
    as_bootstrapper: ArcSwapOption<Known>,
    as_front_proxy: ArcSwapOption<Known>,
}

/// The certificate is not a bootstrap credential.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// The certificate does not verify.
    #[error("not a bootstrap credential: {0}")]
    Certificate(#[from] VerifyError),
    /// The certificate names a different user.
    #[error(
        "the certificate is of an authority of bootstrap credentials, but names somebody for whom that does not vouch"
    )]
    Identity,
}

/// The cached result of a verification, valid for one CA bundle.
struct Known {
    bundle: Arc<CaBundle>,
    outcome: Result<Arc<Accepted>, (VerifyError, SystemTime)>,
}

/// A verified chain, and its user.
struct Accepted {
    verified: Verified,
    user: Option<Arc<User>>,
}

impl Known {
    /// Returns the cached result if it still applies: a success while the chain is valid, a failure for a short time.
    fn at(&self, now: SystemTime) -> Option<Result<Arc<Accepted>, VerifyError>> {
        match &self.outcome {
            Ok(accepted) => accepted.verified.is_valid_at(now).then(|| Ok(Arc::clone(accepted))),
            Err((error, when)) => {
                let is_fresh = now.duration_since(*when).is_ok_and(|age| age < REMEMBER_FAILURE);
                is_fresh.then(|| Err(error.clone()))
            }
        }
    }
}

impl Peer {
    /// Creates a peer with the certificate that it presented, if any.
    pub fn new(certificate: Option<UnverifiedCertificate>) -> Self {
        let not_after = certificate.as_ref().and_then(UnverifiedCertificate::not_after);
        Self {
            certificate,
            not_after,
            as_client: ArcSwapOption::empty(),
            as_bootstrapper: ArcSwapOption::empty(),
            as_front_proxy: ArcSwapOption::empty(),
        }
    }

    /// Returns whether the peer presented a certificate, valid or not.
    pub(crate) fn shows_certificate(&self) -> bool {
        self.certificate.is_some()
    }

    /// Returns the time until the certificate has expired.
    pub(crate) fn expires_in(&self, now: SystemTime) -> Option<Duration> {
        // It is valid to the end of its last second.
        Some(self.not_after?.duration_since(now).unwrap_or_default().saturating_add(Duration::from_secs(1)))
    }

    /// Returns when the certificate expires, by its own account: nobody has verified it. None without a certificate, or
    /// if it cannot be read.
    pub(super) fn certificate_not_after(&self) -> Option<SystemTime> {
        self.not_after
    }

    /// Returns the user of the certificate; none without a certificate, or if it names no user (AN-43).
    ///
    /// # Errors
    /// The certificate does not verify.
    pub(super) fn client(
        &self,
        bundle: &Arc<CaBundle>,
        now: SystemTime,
    ) -> Result<Option<Arc<User>>, VerifyError> {
        let Some(certificate) = &self.certificate else { return Ok(None) };
        Ok(verified(certificate, &self.as_client, bundle, now)?.user.clone())
    }

    /// Returns the user of a bootstrap credential (NB-15, NB-16); none without a certificate or without bootstrap
    /// authorities.
    ///
    /// # Errors
    /// The certificate is not signed by a bootstrap authority, or names a user that these do not authenticate.
    pub(super) fn bootstrapper(
        &self,
        authorities: &BootstrapAuthorities,
        now: SystemTime,
    ) -> Result<Option<Arc<User>>, BootstrapError> {
        let (Some(certificate), Some(bundle)) = (&self.certificate, authorities.trusted()) else {
            return Ok(None);
        };
        let accepted = verified(certificate, &self.as_bootstrapper, &bundle, now)?;
        match accepted.verified.identity() {
            Some(identity) if authorities.settings().vouches_for(identity) => Ok(accepted.user.clone()),
            _ => Err(BootstrapError::Identity),
        }
    }

    /// Returns the common name of a front proxy (AN-30), empty if it has none; none without a certificate.
    ///
    /// # Errors
    /// The certificate does not verify.
    pub(super) fn front_proxy(
        &self,
        bundle: &Arc<CaBundle>,
        now: SystemTime,
    ) -> Result<Option<String>, VerifyError> {
        let Some(certificate) = &self.certificate else { return Ok(None) };
        let accepted = verified(certificate, &self.as_front_proxy, bundle, now)?;
        let name = accepted.verified.identity().map(Identity::common_name);
        Ok(Some(name.unwrap_or_default().to_owned()))
    }
}

/// Verifies a certificate; uses the cached result unless the bundle has changed or the chain is no longer valid.
fn verified(
    certificate: &UnverifiedCertificate,
    last: &ArcSwapOption<Known>,
    bundle: &Arc<CaBundle>,
    now: SystemTime,
) -> Result<Arc<Accepted>, VerifyError> {
    if let Some(known) = &*last.load()
        && Arc::ptr_eq(&known.bundle, bundle)
        && let Some(answer) = known.at(now)
    {
        return answer;
    }
    let outcome = certificate.verify(bundle, now).map(|verified| {
        let user = verified.identity().map(|identity| Arc::new(user(identity)));
        Arc::new(Accepted { verified, user })
    });
    let answer = outcome.clone();
    let outcome = outcome.map_err(|error| (error, now));
    last.store(Some(Arc::new(Known { bundle: Arc::clone(bundle), outcome })));
    answer
}

/// Converts a certificate identity to a user (AN-12, AN-42 to AN-45).
fn user(identity: &Identity) -> User {
    let mut user = User::new(identity.common_name(), identity.organizations().iter().cloned());
    user.uid = identity.user_id().to_owned();
    user.extra.insert(CREDENTIAL_ID.to_owned(), vec![identity.credential_id().to_owned()]);
    join_authenticated(&mut user);
    user
}
