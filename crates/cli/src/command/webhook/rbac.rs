//! `portcullis webhook rbac`: the least rights of the webhook.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use portcullis_apimachinery::names::is_dns_label;
use portcullis_client::feed::resource_of;
use portcullis_policy::chain::Mode;
use portcullis_server::webhook::Following;
use serde_json::{Value, json};

use crate::engine_flags::EngineFlags;
use crate::failure::Failure;
use crate::yaml;

/// Print the least rights that the webhook needs in the cluster that it follows
///
/// A ServiceAccount, and a ClusterRole and its binding: list and watch for the kinds that the modes and admission depend on.
/// Secrets and config maps are not among them. Exit code 0.
#[derive(Args, Debug)]
pub(super) struct RbacArgs {
    #[command(flatten)]
    engine: EngineFlags,

    /// The service account of the webhook
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "portcullis-system/portcullis-webhook")]
    service_account: String,
}

/// The service account of the webhook.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

/// Prints the objects.
pub(super) fn run(args: &RbacArgs) -> Result<ExitCode, Failure> {
    print!("{}", args.text()?);
    Ok(ExitCode::SUCCESS)
}

impl RbacArgs {
    pub(super) fn account(&self) -> Result<Account<'_>, Failure> {
        let parts = self.service_account.split_once('/');
        let parts = parts.filter(|(namespace, name)| is_dns_label(namespace) && is_dns_label(name));
        let (namespace, name) = parts.ok_or_else(|| {
            Failure::input(format_args!(
                "--service-account {}: write the namespace and the name, such as portcullis-system/portcullis-webhook",
                self.service_account
            ))
        })?;
        Ok(Account { namespace, name })
    }

    /// Whether mode Deny is among the modes of the webhook.
    pub(super) fn denies(&self) -> bool {
        self.engine.names(Mode::Deny)
    }

    /// Whether the webhook compares roles and bindings with deny rules.
    pub(super) fn checks_escalation(&self) -> bool {
        self.engine.deny_escalation_check
    }

    /// The objects, as YAML.
    pub(super) fn text(&self) -> Result<String, Failure> {
        let Account { namespace, name } = self.account()?;
        let config = self.engine.config()?;
        let mut groups = BTreeMap::<&str, Vec<&str>>::new();
        for kind in Following::kinds(&config) {
            let (group, plural) = resource_of(kind);
            groups.entry(group).or_default().push(plural);
        }
        let rules: Vec<Value> = groups
            .into_iter()
            .map(|(group, mut resources)| {
                resources.sort_unstable();
                json!({"apiGroups": [group], "resources": resources, "verbs": ["list", "watch"]})
            })
            .collect();
        let rbac = "rbac.authorization.k8s.io";
        let objects = [
            json!({
                "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace},
            }),
            json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules,
            }),
            json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
            }),
        ];
        let texts: Vec<String> = objects.iter().map(yaml::block).collect();
        Ok(texts.join("---\n"))
    }
}
