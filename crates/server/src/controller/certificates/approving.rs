//! Approves what kubelets ask for as clients, when the requester may have it without being asked (CS-80 to CS-87). Denies
//! nothing, and leaves alone what it does not recognise.

use std::sync::Arc;

use kinds::resources::certificates::APPROVED;
use policy::approval::recognizer::Recognizer;
use portcullis_kinds as kinds;
use portcullis_policy as policy;
use portcullis_store::Event;

use super::view::{REQUESTS, View, asked};
use super::{PREFIX, changed};
use crate::authz::{Authorization, Verdict};
use crate::backend::Backend;
use crate::clock::Clock;
use crate::cluster::write;
use crate::controller::runner::{Controller, Next};
use crate::status::Status;

/// See the module.
pub(in crate::controller) struct Approving {
    authorization: Arc<Authorization>,
    backend: Arc<Backend>,
    clock: Clock,
    only_for_itself: bool,
}

impl Approving {
    pub(in crate::controller) fn new(
        backend: Arc<Backend>,
        authorization: Arc<Authorization>,
        clock: Clock,
        only_for_itself: bool,
    ) -> Self {
        Self { authorization, backend, clock, only_for_itself }
    }
}

impl Controller for Approving {
    const NAME: &'static str = "certificatesigningrequest-approving-controller";
    const LISTED: &'static str = PREFIX;
    const WATCHED: &'static str = PREFIX;
    const WORKERS: usize = 5;

    fn concerns(&self, event: &Event) -> Option<String> {
        changed(event)
    }

    async fn reconcile(&self, name: &str) -> Result<Next, Status> {
        let Some(stored) = write::find(&self.backend, &REQUESTS, "", name).await? else {
            return Ok(Next::OnChange);
        };
        let request = View(&stored.object);
        if request.has_certificate() || request.is_approved() || request.is_denied() {
            return Ok(Next::OnChange);
        }
        let csr = request.csr()?;
        let organizations = csr.subject().organizations().map_err(Status::internal)?;
        let usages = request.usages();
        let asked = asked(&csr, &organizations, &usages);
        let requester = request.requester();
        let mut is_recognized = false;
        for recognizer in Recognizer::of(request.signer(), &requester.name, &asked) {
            if self.only_for_itself && recognizer == Recognizer::NodeClient {
                continue;
            }
            is_recognized = true;
            let answer = self.authorization.ask(&recognizer.question(&requester)).await;
            if answer.verdict != Verdict::Allow {
                continue;
            }
            let (reason, message) = ("AutoApproved", recognizer.message());
            let approved = request.with_condition(APPROVED, reason, message, self.clock.now());
            if write::commit(&self.backend, vec![write::replace(&REQUESTS, &stored.entry, approved)?]).await?
            {
                tracing::info!(request = name, requester = requester.name, message, "approved");
            }
            // If somebody else was faster, that change comes here as well.
            return Ok(Next::OnChange);
        }
        // CS-84: the right may come later, and nobody tells when.
        Ok(if is_recognized { Next::Later } else { Next::OnChange })
    }
}
