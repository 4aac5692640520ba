//! The checks of a write: the enabled plugins, and the rights that a write turns out to need.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kinds::Map;
use policy::request_info::RequestInfo;
use policy::restriction::Operation;

use super::chain::PLUGINS;
use super::configuration::AdmissionConfiguration;
use super::plugin::{Plugin, ValidationContext};
use super::plugins::AdmissionPlugins;
use super::pod_security_metrics::PodSecurityMetrics;
use super::policies::{self, Policies};
use super::webhook::{self, Calls, Webhooks};
use super::{bootstrap_namespaces, claim_status, escalation, node_restriction, resource_quota};
use crate::authz::{Authorization, Permit};
use crate::http::status::Status;
use crate::registry::admission::{Admission, AdmissionAttributes, Answered, FieldErrors, MayShow, Reserved};
use crate::registry::bootstrap_authorities::Settings;
use crate::registry::reservation::{QuotaTurns, Reservation};
use crate::registry::target::Target;

/// The state of admission that all requests share.
pub(crate) struct AdmissionState {
    /// The enabled plugins.
    pub(crate) plugins: AdmissionPlugins,
    /// Their configurations.
    pub(crate) configuration: AdmissionConfiguration,
    pub(crate) webhooks: Webhooks,
    pub(crate) policies: Policies,
    pub(crate) pod_security: PodSecurityMetrics,
    /// Shared with the controller of ResourceQuotas.
    pub(crate) quota_turns: Arc<QuotaTurns>,
}

/// See the module.
pub(crate) struct Gate<'a> {
    state: &'a AdmissionState,
    authorization: &'a Authorization,
    bootstrap: &'a Settings,
    permit: &'a Permit,
    info: &'a RequestInfo,
    calls: Calls<'a>,
    /// Whether no webhook and no policy can be about the update that is made now: see [`Admission::may_show`].
    is_shown_to_nobody: AtomicBool,
}

impl<'a> Gate<'a> {
    /// The gate of a request that was allowed.
    pub(crate) fn new(
        state: &'a AdmissionState,
        (authorization, bootstrap): (&'a Authorization, &'a Settings),
        permit: &'a Permit,
        info: &'a RequestInfo,
    ) -> Self {
        Self {
            state,
            authorization,
            bootstrap,
            permit,
            info,
            calls: Calls::new(&state.webhooks, authorization),
            is_shown_to_nobody: AtomicBool::new(false),
        }
    }

    /// The warnings of admission for the client, also if it is refused.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.calls.remarks().warnings()
    }

    /// The annotations of admission for the audit log.
    pub(crate) fn annotations(&self) -> Vec<(Cow<'static, str>, String)> {
        self.calls.remarks().annotations()
    }

    fn has(&self, plugin: &Plugin) -> bool {
        self.plugins().any(|enabled| enabled.name == plugin.name)
    }

    /// Whether webhooks and policies need not be looked for again.
    fn is_shown_to_nobody(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.operation == Operation::Update && self.is_shown_to_nobody.load(Ordering::Relaxed)
    }

    /// Returns the enabled plugins that handle the write, in order.
    fn plugins(&self) -> impl Iterator<Item = &'static Plugin> + use<> {
        let plugins = self.state.plugins;
        PLUGINS
            .iter()
            .copied()
            .enumerate()
            .filter(move |(place, _)| plugins.has(*place))
            .map(|(_, plugin)| plugin)
    }
}

impl Gate<'_> {
    /// Asks about a document that is posted and answered, and not stored. Of the plugins here, only NodeRestriction has a
    /// rule for those (NR-3).
    ///
    /// # Errors
    /// The refusal.
    pub(crate) async fn admit_document(&self, document: &Map) -> Result<(), Status> {
        if self.has(&node_restriction::PLUGIN) {
            let (info, user) = (self.info, self.permit.user());
            node_restriction::decide_on_document(info, user, document, self.authorization).await?;
        }
        Ok(())
    }

    async fn mutate(&self, attributes: &mut AdmissionAttributes<'_>) -> Result<(), Status> {
        for plugin in self.plugins() {
            if plugin.handles(attributes) {
                (plugin.admit)(attributes, self.authorization).await?;
            }
        }
        Ok(())
    }
}

impl Admission for Gate<'_> {
    fn admit<'r>(&'r self, attributes: &'r mut AdmissionAttributes<'_>) -> Answered<'r> {
        Box::pin(async move {
            self.mutate(attributes).await?;
            if !self.has(&webhook::MUTATING) || self.is_shown_to_nobody(attributes) {
                return Ok(());
            }
            let mut round = self.calls.mutate(attributes, None).await?;
            // What a webhook has changed was not looked at by any of the plugins.
            if round.has_changed() {
                let before = attributes.object.as_deref().cloned();
                self.mutate(attributes).await?;
                if attributes.object.as_deref() != before.as_ref() {
                    round.note_change();
                }
                self.calls.mutate(attributes, Some(round)).await?;
            }
            Ok(())
        })
    }

    fn validate<'r>(&'r self, attributes: &'r AdmissionAttributes<'_>) -> Answered<'r> {
        Box::pin(async move {
            let context = ValidationContext {
                authorization: self.authorization,
                remarks: self.calls.remarks(),
                pod_security: &self.state.configuration.pod_security,
                pod_security_metrics: &self.state.pod_security,
            };
            for plugin in self.plugins() {
                if plugin.handles(attributes) {
                    (plugin.validate)(attributes, &context).await?;
                }
            }
            policies::check_params(attributes, self.authorization).await?;
            if self.is_shown_to_nobody(attributes) {
                return Ok(());
            }
            if self.has(&policies::PLUGIN) {
                self.state.policies.validate(attributes, self.authorization, self.calls.remarks()).await?;
            }
            match self.has(&webhook::VALIDATING) {
                true => self.calls.validate(attributes).await,
                false => Ok(()),
            }
        })
    }

    fn reserve<'r>(&'r self, attributes: &'r AdmissionAttributes<'_>) -> Reserved<'r> {
        Box::pin(async move {
            match self.has(&resource_quota::PLUGIN) {
                true => {
                    let limited = &self.state.configuration.limited;
                    resource_quota::reserve(attributes, &self.state.quota_turns, limited).await
                }
                false => Ok(Reservation::default()),
            }
        })
    }

    fn may_show<'r>(&'r self, attributes: &'r AdmissionAttributes<'_>) -> MayShow<'r> {
        Box::pin(async move {
            // If the lookup fails, the write itself looks again.
            self.is_shown_to_nobody.store(false, Ordering::Relaxed);
            let has_webhooks = self.has(&webhook::MUTATING) || self.has(&webhook::VALIDATING);
            let may_show = has_webhooks && self.calls.may_match(attributes).await?
                || self.has(&policies::PLUGIN) && self.state.policies.may_match(attributes).await?;
            self.is_shown_to_nobody.store(!may_show, Ordering::Relaxed);
            Ok(may_show)
        })
    }

    fn check_escalation<'r>(
        &'r self,
        target: &'r Target<'_>,
        new: &'r Map,
        old: Option<&'r Map>,
    ) -> Answered<'r> {
        let user = self.permit.user();
        if target.resource.is_namespace {
            return match old {
                None => Box::pin(bootstrap_namespaces::check(
                    self.authorization,
                    self.bootstrap,
                    user,
                    target,
                    new,
                )),
                Some(_) => Box::pin(async { Ok(()) }),
            };
        }
        Box::pin(escalation::check(self.authorization, user, target, new, old))
    }

    fn check_claim_status<'r>(&'r self, new: &'r Map, old: &'r Map) -> FieldErrors<'r> {
        Box::pin(claim_status::check(self.authorization, self.permit.user(), self.info, new, old))
    }

    fn allow_also(&self, verb: &'static str) -> Answered<'_> {
        Box::pin(self.authorization.allow_also(self.permit, self.info, verb))
    }
}
