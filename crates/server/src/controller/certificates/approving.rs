//! Approves client certificate requests of kubelets whose requester has the permission (CS-80 to CS-87). It never
//! denies, and ignores requests that it does not recognise.

use std::sync::Arc;

use kinds::resources::certificates::APPROVED;
use policy::approval::recognizer::Recognizer;
use portcullis_store::Event;

use super::view::{REQUESTS, View, asked};
use super::{PREFIX, changed};
use crate::authz::Authorization;
use crate::clock::Clock;
use crate::controller::runner::{Controller, Next};
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::write;

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

    type Keys = Option<String>;

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
            if !answer.is_allow() {
                continue;
            }
            let (reason, message) = ("AutoApproved", recognizer.message());
            let approved = request.with_condition(APPROVED, reason, message, self.clock.now());
            if write::commit(
                &self.backend,
                vec![write::replace(&REQUESTS, &stored.entry, approved, write::CONTROLLERS)?],
            )
            .await?
            {
                tracing::info!(request = name, requester = requester.name, message, "approved");
            }
            // After a conflict, the other change triggers the controller again.
            return Ok(Next::OnChange);
        }
        // CS-84: the permission may be granted later, and no event reports that.
        Ok(if is_recognized { Next::Later } else { Next::OnChange })
    }
}
