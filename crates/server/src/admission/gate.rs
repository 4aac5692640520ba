//! What a request must pass before it writes: the plugins in force, and the rights that a write turns out to need.

use kinds::Map;
use policy::request_info::RequestInfo;

use super::chain::PLUGINS;
use super::escalation;
use super::plugin::Plugin;
use super::plugins::AdmissionPlugins;
use crate::authz::{Authorization, Permit};
use crate::registry::admission::{Admission, AdmissionAttributes, Answered};
use crate::registry::target::Target;

/// See the module.
pub(crate) struct Gate<'a> {
    plugins: AdmissionPlugins,
    authorization: &'a Authorization,
    permit: &'a Permit,
    info: &'a RequestInfo,
}

impl<'a> Gate<'a> {
    /// The gate of a request that was allowed.
    pub(crate) fn new(
        plugins: AdmissionPlugins,
        authorization: &'a Authorization,
        permit: &'a Permit,
        info: &'a RequestInfo,
    ) -> Self {
        Self { plugins, authorization, permit, info }
    }

    /// Returns the enabled plugins that handle the write, in order.
    fn plugins(&self) -> impl Iterator<Item = &'static Plugin> + use<> {
        let plugins = self.plugins;
        PLUGINS
            .iter()
            .copied()
            .enumerate()
            .filter(move |(place, _)| plugins.has(*place))
            .map(|(_, plugin)| plugin)
    }
}

impl Admission for Gate<'_> {
    fn admit<'r>(&'r self, attributes: &'r mut AdmissionAttributes<'_>) -> Answered<'r> {
        Box::pin(async move {
            for plugin in self.plugins() {
                if plugin.handles(attributes) {
                    (plugin.admit)(attributes, self.authorization).await?;
                }
            }
            Ok(())
        })
    }

    fn validate<'r>(&'r self, attributes: &'r AdmissionAttributes<'_>) -> Answered<'r> {
        Box::pin(async move {
            for plugin in self.plugins() {
                if plugin.handles(attributes) {
                    (plugin.validate)(attributes, self.authorization).await?;
                }
            }
            Ok(())
        })
    }

    fn check_escalation<'r>(
        &'r self,
        target: &'r Target<'_>,
        new: &'r Map,
        old: Option<&'r Map>,
    ) -> Answered<'r> {
        Box::pin(escalation::check(self.authorization, self.permit.user(), target, new, old))
    }

    fn allow_create(&self) -> Answered<'_> {
        Box::pin(self.authorization.allow_also(self.permit, self.info, "create"))
    }
}
