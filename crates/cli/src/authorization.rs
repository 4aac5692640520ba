//! The authorization flags that only `serve` has: those of mode Webhook and of the configuration file. Names and
//! defaults are kube-apiserver's.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use portcullis_apimachinery::duration::parse_unsigned;
use portcullis_policy::chain::Mode;
use portcullis_policy::engine::EngineConfig;
use portcullis_policy::review::ReviewVersion;
use portcullis_server::authz::AuthorizationConfig;
use portcullis_server::authz::configuration::connect;
use portcullis_server::authz::metrics::webhook::WebhookMetrics;
use portcullis_server::authz::reload::Initial;
use portcullis_server::authz::webhook::{Ttl, WebhookConfig};

use crate::engine_flags::EngineFlags;
use crate::failure::Failure;

/// See the module.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Authorization by others")]
pub struct AuthorizationFlags {
    /// The ordered authorizers in a file of kind AuthorizationConfiguration (apiserver.config.k8s.io/v1), instead of
    /// --authorization-mode. Reloaded while serving; an invalid file changes nothing
    #[arg(long, value_name = "FILE")]
    authorization_config: Option<PathBuf>,

    /// The webhook of mode Webhook: a file in kubeconfig format
    #[arg(long, value_name = "FILE")]
    authorization_webhook_config_file: Option<PathBuf>,

    /// The version of SubjectAccessReview for the webhook: v1beta1 or v1 [default: v1beta1]
    #[arg(long, value_name = "VERSION")]
    authorization_webhook_version: Option<String>,

    /// How long webhook responses that allow are cached; 0 for not at all [default: 5m0s]
    #[arg(long, value_name = "DURATION")]
    authorization_webhook_cache_authorized_ttl: Option<String>,

    /// How long other webhook responses are cached; 0 for not at all [default: 30s]
    #[arg(long, value_name = "DURATION")]
    authorization_webhook_cache_unauthorized_ttl: Option<String>,
}

impl AuthorizationFlags {
    /// Validates the flags and connects the webhooks; returns the configuration of the engine and the other
    /// authorizers.
    ///
    /// # Errors
    /// All errors in flags and files, reported together (AC-72).
    pub fn prepare(
        &self,
        engine: &EngineFlags,
        metrics: &WebhookMetrics,
    ) -> Result<(EngineConfig, AuthorizationConfig), Failure> {
        match &self.authorization_config {
            Some(path) => {
                self.refuse_others(engine)?;
                let initial = Initial::load(path, metrics)
                    .map_err(|error| Failure::input(format_args!("--authorization-config {error}")))?;
                let modes = initial.modes().to_vec();
                // AC-73: with a configuration file the policy file is still used; it is only read if the file contains
                // type ABAC.
                let policy = engine.authorization_policy_file.clone().filter(|_| modes.contains(&Mode::Abac));
                let engine = EngineFlags { authorization_policy_file: policy, ..engine.clone() };
                let config = engine.config_of(modes, true)?;
                Ok((config, AuthorizationConfig::File(Box::new(initial))))
            }
            None => self.by_flags(engine, metrics),
        }
    }

    /// AC-73
    fn refuse_others(&self, engine: &EngineFlags) -> Result<(), Failure> {
        let given = [
            ("--authorization-mode", engine.authorization_mode.is_some()),
            ("--authorization-webhook-config-file", self.authorization_webhook_config_file.is_some()),
            ("--authorization-webhook-version", self.authorization_webhook_version.is_some()),
            (
                "--authorization-webhook-cache-authorized-ttl",
                self.authorization_webhook_cache_authorized_ttl.is_some(),
            ),
            (
                "--authorization-webhook-cache-unauthorized-ttl",
                self.authorization_webhook_cache_unauthorized_ttl.is_some(),
            ),
        ];
        let given: Vec<&str> = given.iter().filter(|(_, given)| *given).map(|(flag, _)| *flag).collect();
        if given.is_empty() {
            return Ok(());
        }
        let given = given.join(", ");
        Err(Failure::input(format_args!(
            "--authorization-config cannot be given together with {given}: the file says all of it"
        )))
    }

    /// AC-74, AC-75, WH-120
    fn by_flags(
        &self,
        engine: &EngineFlags,
        metrics: &WebhookMetrics,
    ) -> Result<(EngineConfig, AuthorizationConfig), Failure> {
        let mut faults = Vec::new();
        let file = self.authorization_webhook_config_file.as_ref();
        let has_webhook = engine.names(Mode::Webhook);
        if has_webhook && file.is_none() {
            faults.push("authorization-mode Webhook's authorization config file not passed".to_owned());
        }
        if !has_webhook && file.is_some() {
            faults.push("cannot specify --authorization-webhook-config-file without mode Webhook".to_owned());
        }
        if engine.authorization_mode.iter().flatten().filter(|mode| *mode == Mode::Webhook.name()).count() > 1
        {
            let modes = engine.authorization_mode.clone().unwrap_or_default();
            faults.push(format!("authorization-mode {modes:?} has mode specified more than once"));
        }
        let version = self.authorization_webhook_version.as_deref().map(str::parse::<ReviewVersion>);
        let version = version.transpose().unwrap_or_else(|error| {
            faults.push(format!("--authorization-webhook-version: {error}"));
            None
        });
        let mut ttl = |flag: &str, text: &Option<String>, default: Duration| {
            let Some(text) = text else { return default };
            parse_unsigned(text).unwrap_or_else(|| {
                faults.push(format!(
                    "{flag}: {text:?} is not a duration: write a number with a unit, such as 30s or 5m"
                ));
                default
            })
        };
        let defaults = Ttl::default();
        let ttl = Ttl {
            authorized: ttl(
                "--authorization-webhook-cache-authorized-ttl",
                &self.authorization_webhook_cache_authorized_ttl,
                defaults.authorized,
            ),
            unauthorized: ttl(
                "--authorization-webhook-cache-unauthorized-ttl",
                &self.authorization_webhook_cache_unauthorized_ttl,
                defaults.unauthorized,
            ),
        };
        let config = match engine.modes().and_then(|modes| engine.config_of(modes, true)) {
            Ok(config) => Some(config),
            Err(failure) => {
                faults.push(failure.to_string());
                None
            }
        };
        let (Some(config), true) = (config, faults.is_empty()) else {
            return Err(Failure::input(faults.join("; ")));
        };
        let Some(file) = file else { return Ok((config, AuthorizationConfig::Engine)) };
        let webhook = WebhookConfig::of_flags(version.unwrap_or(ReviewVersion::V1beta1), ttl);
        let webhook = connect(&webhook, file, metrics)
            .map_err(|error| Failure::input(format_args!("--authorization-webhook-config-file {error}")))?;
        let modes = config.modes.clone();
        Ok((config, AuthorizationConfig::Webhooks(modes, vec![webhook])))
    }
}
