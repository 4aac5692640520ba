//! Signs approved requests for the signers that have a certificate authority here (CS-60 to CS-75).

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kinds::resources::certificates::FAILED;
use pki::usage::Usages;
use pki::{Csr, pem};
use policy::approval::Signer;
use portcullis_store::Event;

use super::view::{REQUESTS, View, asked};
use super::{PREFIX, changed};
use crate::clock::Clock;
use crate::controller::runner::{Controller, Next};
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::write;
use crate::signing;

/// See the module.
pub(in crate::controller) struct Signing {
    authorities: Arc<signing::Signing>,
    backend: Arc<Backend>,
    clock: Clock,
}

impl Signing {
    pub(in crate::controller) fn new(
        backend: Arc<Backend>,
        authorities: Arc<signing::Signing>,
        clock: Clock,
    ) -> Self {
        Self { authorities, backend, clock }
    }
}

/// An approved request that its signer can sign (CS-60). Only this module creates it, and nothing else can be signed.
struct Approved {
    csr: Csr,
    signer: Signer,
    usages: Usages,
    lifetime: Option<Duration>,
}

/// The action that a request needs.
enum Due {
    Nothing,
    /// Mark the request as failed: it can never be signed.
    Refuse(String),
    Sign(Box<Approved>),
}

impl Due {
    fn of(request: View<'_>) -> Result<Self, Status> {
        let is_settled = request.has_certificate() || request.is_failed();
        let Some(signer) = request.signer() else { return Ok(Self::Nothing) };
        if is_settled || !request.is_approved() || request.is_denied() {
            return Ok(Self::Nothing);
        }
        let csr = request.csr()?;
        let names = request.usages();
        let organizations = csr.subject().organizations().map_err(Status::internal)?;
        if let Err(violation) = signer.check(&asked(&csr, &organizations, &names)) {
            return Ok(Self::Refuse(violation.to_string()));
        }
        let usages = Usages::named(names.iter().copied()).map_err(Status::internal)?;
        let lifetime = request.expiration_seconds().map(Duration::from_secs);
        Ok(Self::Sign(Box::new(Approved { csr, signer, usages, lifetime })))
    }
}

impl Controller for Signing {
    const NAME: &'static str = "certificatesigningrequest-signing-controller";
    const LISTED: &'static str = PREFIX;
    const WATCHED: &'static str = PREFIX;
    const WORKERS: usize = 16;

    type Keys = Option<String>;

    fn concerns(&self, event: &Event) -> Option<String> {
        changed(event)
    }

    async fn reconcile(&self, name: &str) -> Result<Next, Status> {
        let Some(stored) = write::find(&self.backend, &REQUESTS, "", name).await? else {
            return Ok(Next::OnChange);
        };
        let request = View(&stored.object);
        let changed = match Due::of(request)? {
            Due::Nothing => return Ok(Next::OnChange),
            Due::Refuse(why) => {
                tracing::info!(request = name, why, "refused to sign");
                request.with_condition(FAILED, "SignerValidationFailure", &why, self.clock.now())
            }
            Due::Sign(approved) => match self.sign(&approved)? {
                Some(certificate) => request.with_certificate(STANDARD.encode(certificate)),
                None => return Ok(Next::OnChange),
            },
        };
        // After a conflict, the other change triggers the controller again.
        if write::commit(
            &self.backend,
            vec![write::replace(&REQUESTS, &stored.entry, changed, write::CONTROLLERS)?],
        )
        .await?
        {
            tracing::debug!(request = name, "settled");
        }
        Ok(Next::OnChange)
    }
}

impl Signing {
    /// Returns the certificate in PEM, without anything else (CS-68). None if there is no authority for this signer.
    fn sign(&self, approved: &Approved) -> Result<Option<String>, Status> {
        let Some(authority) = self.authorities.authority(approved.signer).map_err(Status::internal)? else {
            return Ok(None);
        };
        let Approved { csr, usages, lifetime, .. } = approved;
        let longest = self.authorities.longest();
        let certificate = authority
            .issue_requested(csr, usages, *lifetime, longest, self.clock.now())
            .map_err(Status::internal)?;
        Ok(Some(pem::encode("CERTIFICATE", &certificate)))
    }
}
