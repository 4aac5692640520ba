//! The configuration of an API server.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use kinds::Kinds;
use kinds::resources::core::services::ServiceRanges;
use policy::chain::Mode;
use policy::engine::EngineConfig;

use crate::admission::{AdmissionConfiguration, AdmissionPlugins};
use crate::api::check::Check;
use crate::api::filter_lists::FilterLists;
use crate::api::server_metrics::Metrics;
use crate::audit::Audit;
use crate::authn::AuthenticationConfig;
use crate::authz::AuthorizationConfig;
use crate::clock::Clock;
use crate::controller::selection::Selection;
use crate::controller::settings::ControllerSettings;
use crate::encryption::EncryptionConfig;
use crate::http::limits::Limits;
use crate::proxy::kubelets::KubeletSettings;
use crate::registry::backend::EtcdConfig;
use crate::registry::bootstrap_authorities;
use crate::registry::definition_sets::DefinitionSet;
use crate::registry::runtime_config::RuntimeConfig;
use crate::signing::{Signing, USUAL_LONGEST};

/// The default of `--quota-backend-bytes`, as in etcd. In bytes.
pub const STORE_QUOTA: u64 = 2 * 1024 * 1024 * 1024;

/// The configuration of an API server. Names follow the flags of kube-apiserver. Files that the flags name have been
/// read: nothing here is invalid by itself.
pub struct Config {
    /// The directory of keys and certificates, created if missing (`--data-dir`).
    pub data_dir: PathBuf,
    /// Where objects are stored.
    pub storage: Storage,
    /// How large all keys and objects in the store may be together, in bytes; none for no limit
    /// (`--quota-backend-bytes`).
    pub store_quota: Option<u64>,
    /// How values are encrypted in the file of the store (`--encryption-provider-config`,
    /// `--encryption-provider-config-automatic-reload`).
    pub encryption: EncryptionConfig,
    /// The files that seed an empty store (`--state`).
    pub state: Vec<PathBuf>,
    /// The kinds that are served.
    pub kinds: Kinds,
    /// The address to listen on (`--bind-address`).
    pub bind_address: IpAddr,
    /// The port (`--secure-port`); 0 for any free one.
    pub secure_port: u16,
    /// The files of the serving certificate and its key (`--tls-cert-file`, `--tls-private-key-file`). If none, the
    /// server issues its own.
    pub serving_certificate: Option<(PathBuf, PathBuf)>,
    /// The address at which the cluster reaches the server (`--advertise-address`). If none is named, the one that it
    /// listens on, unless that is a loopback address or all addresses.
    pub advertise_address: Option<IpAddr>,
    /// Who gets filtered lists (`--filter-lists`, `--filter-lists-for`).
    pub filter_lists: FilterLists,
    /// The resource limits.
    pub limits: Limits,
    /// The definitions of custom kinds that are created at start (`--install-crds`).
    pub install_definitions: Vec<DefinitionSet>,
    /// The optional API versions that are enabled (`--runtime-config`).
    pub runtime_config: RuntimeConfig,
    /// The metrics, in which the caller may have registered more.
    pub metrics: Metrics,
    /// Additional health checks.
    pub checks: Vec<Check>,
    /// The authentication of requests.
    pub authentication: AuthenticationConfig,
    /// Where services get their addresses and node ports from (`--service-cluster-ip-range`,
    /// `--service-node-port-range`).
    pub service_ranges: ServiceRanges,
    /// The objects that control-plane bootstrap credentials depend on.
    pub bootstrap_authorities: bootstrap_authorities::Settings,
    /// The engine that decides.
    pub engine: EngineConfig,
    /// The file of the engine's deny rules, read again when it changes (`--deny-file`).
    pub deny_file: Option<PathBuf>,
    /// After how many distinct secrets that a node asks for in a minute an alarm is raised (`--node-secret-alarm`).
    pub node_secret_alarm: Option<usize>,
    /// The authorizers.
    pub authorization: AuthorizationConfig,
    /// The admission plugins.
    pub admission: AdmissionPlugins,
    /// The configurations of admission plugins (`--admission-control-config-file`).
    pub admission_configuration: AdmissionConfiguration,
    /// The audit log, if any.
    pub audit: Option<Audit>,
    /// The enabled controllers (`--controllers`).
    pub controllers: Selection,
    /// The numbers that the controllers follow.
    pub controller_settings: ControllerSettings,
    /// The approver of certificate requests of kubelets (`--approver`).
    pub approver: Approver,
    /// The settings for connections to kubelets.
    pub kubelets: KubeletSettings,
    /// The authorities that sign certificates. If none, the server's own.
    pub signing: Option<Signing>,
    /// The maximum lifetime of certificates that the server's own authority signs (`--cluster-signing-duration`).
    pub signing_duration: Duration,
    /// The clock of certificate requests.
    pub clock: Clock,
    /// The name of this server among those that share a store. It must be different for each.
    pub identity: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("./portcullis-data"),
            storage: Storage::DataDir,
            store_quota: Some(STORE_QUOTA),
            encryption: EncryptionConfig::default(),
            state: Vec::new(),
            kinds: Kinds::built_in(),
            bind_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            secure_port: 6443,
            serving_certificate: None,
            advertise_address: None,
            filter_lists: FilterLists::default(),
            limits: Limits::default(),
            install_definitions: Vec::new(),
            runtime_config: RuntimeConfig::default(),
            metrics: Metrics::default(),
            checks: Vec::new(),
            authentication: AuthenticationConfig::default(),
            service_ranges: ServiceRanges::default(),
            bootstrap_authorities: bootstrap_authorities::Settings::default(),
            engine: EngineConfig {
                modes: vec![Mode::Node, Mode::Rbac],
                masters_first: true,
                default_policy: true,
                ..EngineConfig::default()
            },
            deny_file: None,
            node_secret_alarm: None,
            authorization: AuthorizationConfig::default(),
            admission: AdmissionPlugins::default(),
            admission_configuration: AdmissionConfiguration::default(),
            audit: None,
            controllers: Selection::default(),
            controller_settings: ControllerSettings::default(),
            approver: Approver::Kubernetes,
            kubelets: KubeletSettings::default(),
            signing: None,
            signing_duration: USUAL_LONGEST,
            clock: Clock::default(),
            identity: unique(),
        }
    }
}

/// Where objects are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// In a file of the data directory.
    #[default]
    DataDir,
    /// In this file.
    File(PathBuf),
    /// In memory: they are lost when the server stops.
    Memory,
    /// In etcd, which other servers may share (`--etcd-servers`).
    Etcd(Box<EtcdConfig>),
}

/// The approver of certificate requests of kubelets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Approver {
    /// As in kube-controller-manager: users who may create certificatesigningrequests/nodeclient get a certificate with
    /// any name.
    #[default]
    Kubernetes,
    /// The machine approver, which is a client of the server and started by the caller. The server creates its roles,
    /// and itself only approves nodes that renew their own certificate (NB-130).
    Machine,
    /// The attestation controller, which is a client of the server and started by the caller. The server creates its roles,
    /// and itself approves nothing (AT-131, AT-145).
    Attested,
    /// None: an administrator approves.
    Nobody,
}

/// A name that no other process has.
fn unique() -> String {
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("portcullis_{}_{started:x}", std::process::id())
}
