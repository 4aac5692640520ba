//! The flags of the engine: its objects and authorizers. Names are kube-apiserver's where it has one.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use portcullis_policy::abac::{AbacPolicyFile, Compatibility};
use portcullis_policy::chain::Mode;
use portcullis_policy::deny::{DenyRules, LiveRules, NodeScope};
use portcullis_policy::engine::{Engine, EngineConfig};
use portcullis_policy::features::FeatureGates;
use portcullis_server::authz::deny_file;
use portcullis_server::registry::content::{Decided, Unreadable};
use portcullis_server::state::{self, Source};

use crate::failure::Failure;
use crate::store_flags::EtcdSourceFlags;
use crate::terminal::plain;

/// See the module.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "State and authorizers")]
pub struct EngineFlags {
    /// Kubernetes objects in the output format of `kubectl get -o json|yaml`: a file, or a directory that is read
    /// recursively (.json .yaml .yml, also with .gz, and .jsonl.gz); or an archive of `collect`. Repeatable. Without it there are no objects,
    /// or, with `audit`, `can-i`, `explain`, `reach` and `who-can`, those of a cluster; `serve` seeds an empty store with them
    #[arg(long, value_name = "FILE|DIR")]
    pub state: Vec<PathBuf>,

    /// The ordered authorization modes: AlwaysAllow, AlwaysDeny, ABAC, Deny, RBAC, Node, and Webhook in `serve`, `who-can` and
    /// `explain` [default: Node,RBAC]
    #[arg(long, value_name = "MODES", value_delimiter = ',')]
    pub authorization_mode: Option<Vec<String>>,

    /// The policies of mode ABAC, one JSON object per line
    #[arg(long, value_name = "FILE")]
    pub authorization_policy_file: Option<PathBuf>,

    /// Accept ABAC lines that grant more than they say, as Kubernetes does, with a warning. An example is a line with
    /// `spec` but no version, which allows every request of every authenticated user
    #[arg(long)]
    pub abac_compatible: bool,

    /// The rules of mode Deny, a document of kind DenyRules in YAML or JSON: where one matches, the request is denied, whatever
    /// later modes allow. `serve` and `webhook` read it again when it changes. docs/deny.md has the format
    #[arg(long, value_name = "FILE")]
    pub deny_file: Option<PathBuf>,

    /// Refuse to write a role, or to bind one, that may allow what --deny-file denies to whoever writes it. With `webhook` the API
    /// server must ask /admit for roles and bindings: `webhook configure` with this flag prints the rules
    #[arg(long)]
    pub deny_escalation_check: bool,

    /// Service accounts that mode Deny narrows to the node of their token, * for any text in the namespace or the name: a token
    /// that is bound to a pod reaches the objects of the pod's node alone. Repeatable. docs/node-scope.md says which objects
    #[arg(long, value_name = "NAMESPACE:NAME", value_delimiter = ',')]
    pub node_scoped: Vec<String>,

    /// The resources that --node-scoped accounts reach on their own node alone, such as secrets or leases.coordination.k8s.io
    /// [default: configmaps, nodes, persistentvolumeclaims, persistentvolumes, pods, secrets, serviceaccounts,
    /// leases.coordination.k8s.io, resourceslices.resource.k8s.io, csinodes.storage.k8s.io,
    /// volumeattachments.storage.k8s.io]
    #[arg(long, value_name = "RESOURCES", value_delimiter = ',', requires = "node_scoped")]
    pub node_scoped_resources: Vec<String>,

    /// A user whom RBAC allows every request, as in Kubernetes 1.3 to 1.5
    #[arg(long, value_name = "USER", default_value = "", hide_default_value = true)]
    pub authorization_rbac_super_user: String,

    /// Feature gates: NAME=true|false, comma separated. Repeatable. Gates of Kubernetes 1.36 that change nothing here are
    /// accepted
    #[arg(long, value_name = "GATES")]
    pub feature_gates: Vec<String>,

    /// The release of Kubernetes whose feature gates are used, 1.31 to 1.36
    ///
    /// DIVERGES from kube-apiserver: the only difference is which gates are locked.
    #[arg(long, value_name = "VERSION", default_value = "1.36", hide_default_value = true)]
    pub emulated_version: String,
}

impl EngineFlags {
    /// Validates the flags and returns the configuration of the engine.
    ///
    /// # Errors
    /// A flag is invalid, flags are inconsistent, or the policy file is invalid.
    pub fn config(&self) -> Result<EngineConfig, Failure> {
        self.config_of(self.modes()?, false)
    }

    /// Like [`EngineFlags::config`], with these modes. Mode Webhook is accepted if the caller supports it.
    ///
    /// # Errors
    /// See [`EngineFlags::config`].
    pub fn config_of(&self, modes: Vec<Mode>, webhooks: bool) -> Result<EngineConfig, Failure> {
        let config = EngineConfig {
            modes,
            webhooks,
            gates: self.gates()?,
            abac: self.abac()?.map(Arc::new),
            deny: self.deny()?.map(|rules| Arc::new(LiveRules::new(rules))),
            deny_escalation: self.deny_escalation_check,
            node_scope: self.node_scope()?.map(Arc::new),
            super_user: self.authorization_rbac_super_user.clone(),
            ..EngineConfig::default()
        };
        let errors: Vec<String> = config.errors().iter().map(ToString::to_string).collect();
        if errors.is_empty() { Ok(config) } else { Err(Failure::input(errors.join("; "))) }
    }

    fn gates(&self) -> Result<FeatureGates, Failure> {
        let release = self.emulated_version.parse();
        let release = release.map_err(|e| Failure::input(format_args!("--emulated-version: {e}")))?;
        FeatureGates::parse_in(&self.feature_gates.join(","), release)
            .map_err(|e| Failure::input(format_args!("--feature-gates: {e}")))
    }

    /// AC-70, AC-72. An empty value is the empty list; an empty item between commas is an unknown mode.
    ///
    /// # Errors
    /// The name of an unknown mode.
    pub fn modes(&self) -> Result<Vec<Mode>, Failure> {
        let Some(names) = &self.authorization_mode else { return Ok(vec![Mode::Node, Mode::Rbac]) };
        if matches!(names.as_slice(), [only] if only.is_empty()) {
            return Ok(Vec::new());
        }
        let modes: Result<Vec<Mode>, _> = names.iter().map(|mode| mode.parse()).collect();
        modes.map_err(|error| {
            Failure::input(format_args!(
                "--authorization-mode: {error}: use AlwaysAllow, AlwaysDeny, ABAC, Deny, RBAC, Node or (in serve) Webhook, \
                 spelled exactly so"
            ))
        })
    }

    /// Returns whether the flags contain a mode.
    pub fn names(&self, mode: Mode) -> bool {
        self.authorization_mode.iter().flatten().any(|name| name == mode.name())
    }

    fn deny(&self) -> Result<Option<DenyRules>, Failure> {
        let Some(path) = &self.deny_file else { return Ok(None) };
        let rules = deny_file::read(path)
            .map_err(|why| Failure::input(format_args!("--deny-file {}: {why}", path.display())))?;
        for warning in rules.warnings() {
            eprintln!("warning: --deny-file {}: {}", path.display(), plain(warning));
        }
        Ok(Some(rules))
    }

    fn node_scope(&self) -> Result<Option<NodeScope>, Failure> {
        if self.node_scoped.is_empty() {
            return Ok(None);
        }
        let scope = NodeScope::new(&self.node_scoped, &self.node_scoped_resources);
        scope
            .map(Some)
            .map_err(|why| Failure::input(format_args!("--node-scoped, --node-scoped-resources: {why}")))
    }

    fn abac(&self) -> Result<Option<AbacPolicyFile>, Failure> {
        let Some(path) = &self.authorization_policy_file else { return Ok(None) };
        let name = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|e| {
            Failure::input(format_args!("cannot read --authorization-policy-file {name}: {e}"))
        })?;
        let compatibility =
            if self.abac_compatible { Compatibility::AbacCompatible } else { Compatibility::Strict };
        let yaml = |text: &str| serde_saphyr::from_str(text).map_err(|error| error.to_string());
        let file = AbacPolicyFile::parse(&name, &bytes, compatibility, yaml).map_err(Failure::input)?;
        file.warnings().iter().for_each(|warning| eprintln!("warning: {warning}"));
        Ok(Some(file))
    }
}

/// Builds an engine over the objects of files, or of etcd if the flags name one (ET-61).
///
/// # Errors
/// See [`load`]; both are named; or etcd cannot be read.
pub(crate) fn load_from(
    config: EngineConfig,
    paths: &[PathBuf],
    etcd: &EtcdSourceFlags,
    is_quiet: bool,
) -> Result<Engine, Failure> {
    if etcd.etcd.is_given() && !paths.is_empty() {
        return Err(Failure::input("--state and --etcd-servers name two states: leave one of them out"));
    }
    let read = runtime()?.block_on(async {
        let Some(content) = etcd.content().await? else { return Ok(None) };
        Ok::<_, Failure>(Some(content.engine(config.clone()).await?))
    })?;
    let Some((engine, decided)) = read else { return load(config, paths).map(|(engine, _)| engine) };
    tell(&decided, etcd, is_quiet);
    Ok(engine)
}

/// Tells what was read from etcd. What cannot be used is told always: it may change the answer.
pub(crate) fn tell(decided: &Decided, etcd: &EtcdSourceFlags, is_quiet: bool) {
    for Unreadable { key, why } in &decided.unusable {
        eprintln!("warning: it grants nothing: {}", plain(&format!("the value of {key} {why}")));
    }
    if !is_quiet {
        let Decided { revision, objects, .. } = decided;
        eprintln!("note: {objects} objects at revision {revision} of {}", etcd.etcd.describe());
    }
}

/// A runtime for commands that are no servers.
///
/// # Errors
/// The system has no threads left.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Runtime::new()
        .map_err(|error| Failure::unreachable(format_args!("cannot start the runtime: {error}")))
}

/// Builds an engine over the objects of files.
///
/// # Errors
/// The first invalid object or file, with file, line, field and reason.
pub fn load(config: EngineConfig, paths: &[PathBuf]) -> Result<(Engine, state::Summary), Failure> {
    Source { paths: paths.to_owned(), config, threads: threads() }.build().map_err(Failure::input)
}

/// Returns the number of CPUs, as the number of threads.
pub fn threads() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
