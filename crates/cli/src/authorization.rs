//! The authorization flags that `serve` alone has: those of mode Webhook and of the configuration file. Names and
//! defaults are kube-apiserver's.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use portcullis_policy::chain::{Member, Mode};
use portcullis_policy::engine::EngineConfig;
use portcullis_server::authz::configuration::connect;
use portcullis_server::authz::reload::{Initial, Reloader};
use portcullis_server::authz::{Authorization, Sequence};
use portcullis_server::config::parse_duration;
use portcullis_server::webhook::review::ReviewVersion;
use portcullis_server::webhook::{Ttl, Webhook, WebhookConfig, WebhookMetrics};

use crate::engine_flags::EngineFlags;
use crate::failure::Failure;

/// See the module.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Authorization by others")]
pub struct AuthorizationFlags {
    /// The authorizers in order, as a file of kind AuthorizationConfiguration (apiserver.config.k8s.io/v1), instead of
    /// --authorization-mode. Changes are taken while serving; a file with a fault changes nothing
    #[arg(long, value_name = "FILE")]
    authorization_config: Option<PathBuf>,

    /// Where mode Webhook asks: a file in kubeconfig format
    #[arg(long, value_name = "FILE")]
    authorization_webhook_config_file: Option<PathBuf>,

    /// The version of SubjectAccessReview that the webhook is sent and answers with: v1beta1 or v1 [default: v1beta1]
    #[arg(long, value_name = "VERSION")]
    authorization_webhook_version: Option<String>,

    /// How long answers of the webhook that allow are remembered; 0 for not at all [default: 5m0s]
    #[arg(long, value_name = "DURATION")]
    authorization_webhook_cache_authorized_ttl: Option<String>,

    /// How long other answers of the webhook are remembered; 0 for not at all [default: 30s]
    #[arg(long, value_name = "DURATION")]
    authorization_webhook_cache_unauthorized_ttl: Option<String>,
}

/// What authorizers are asked, before the engine is there.
pub enum Prepared {
    /// Those of the engine alone.
    Local,
    /// Modes in order with a webhook among them.
    Flags(Vec<Mode>, Arc<Webhook>),
    /// Those of a file.
    File(Box<Initial>),
}

impl AuthorizationFlags {
    /// What the flags say, checked, with the webhooks connected: the engine to build, and what is asked besides.
    ///
    /// # Errors
    /// All that is wrong with flags and files, told together (AC-72).
    pub fn prepare(
        &self,
        engine: &EngineFlags,
        metrics: &WebhookMetrics,
    ) -> Result<(EngineConfig, Prepared), Failure> {
        match &self.authorization_config {
            Some(path) => {
                self.refuse_others(engine)?;
                let initial = Initial::load(path, metrics)
                    .map_err(|error| Failure::input(format_args!("--authorization-config {error}")))?;
                let modes = initial.modes().to_vec();
                // AC-73: the policy file goes with the file; without type ABAC nobody reads it.
                let policy = engine.authorization_policy_file.clone().filter(|_| modes.contains(&Mode::Abac));
                let engine = EngineFlags { authorization_policy_file: policy, ..engine.clone() };
                let config = engine.config_of(modes, true)?;
                Ok((config, Prepared::File(Box::new(initial))))
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

    fn by_flags(
        &self,
        engine: &EngineFlags,
        metrics: &WebhookMetrics,
    ) -> Result<(EngineConfig, Prepared), Failure> {
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
            parse_duration(text).unwrap_or_else(|| {
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
        let Some(file) = file else { return Ok((config, Prepared::Local)) };
        let webhook = WebhookConfig::of_flags(version.unwrap_or_default(), ttl);
        let webhook = connect(&webhook, file, metrics)
            .map_err(|error| Failure::input(format_args!("--authorization-webhook-config-file {error}")))?;
        let modes = config.modes.clone();
        Ok((config, Prepared::Flags(modes, webhook)))
    }
}

impl Prepared {
    /// Whether a file says what is asked.
    pub fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Has these asked, over the authorizers of the engine. The reloader, where there is a file, is to be run.
    ///
    /// # Errors
    /// The engine lacks one of them.
    pub fn begin(
        self,
        authorization: Authorization,
        members: &[Member],
        metrics: &WebhookMetrics,
    ) -> Result<(Authorization, Option<Reloader>), Failure> {
        match self {
            Self::Local => Ok((authorization, None)),
            Self::Flags(modes, webhook) => {
                let sequence = Sequence::new(&modes, members, vec![webhook], metrics.clone());
                Ok((authorization.with_sequence(sequence.map_err(Failure::input)?.shared()), None))
            }
            Self::File(initial) => {
                let reloader = initial.begin(members, metrics).map_err(Failure::input)?;
                Ok((authorization.with_sequence(reloader.sequence()), Some(reloader)))
            }
        }
    }
}
