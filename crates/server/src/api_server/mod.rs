//! The API server: everything between its configuration and the open port. `portcullis serve`, the tests, and programs
//! that embed a server all start it with [`ApiServer::new`].
//!
//! It reads no flags and no signals, and prints nothing: its caller does.

mod config;
mod error;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use kinds::resources::definitions::DEFINITIONS;
use policy::approval::Signer;
use policy::chain::Mode;
use portcullis_store::encryption::{LiveEncryption, Resources};
use portcullis_store::etcd::LiveTls;
use portcullis_store::{Store as _, Transformer, embedded, etcd};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};

pub use self::config::{Approver, Config, STORE_QUOTA, Storage};
pub use self::error::StartError;
use crate::api::app::{App, AppConfig};
use crate::api::check::Check;
use crate::api::entrance::Entrance;
use crate::api::route::Probe;
use crate::authz::deny_file::DenyFile;
use crate::authz::secret_alarm::SecretAlarm;
use crate::bootstrap::{self, Bootstrap};
use crate::controller::{self, leader};
use crate::controller::{ControllerConfig, Controllers};
use crate::http::listener::{Listening, Server};
use crate::http::serving_certificate::{self, ServingCertificate};
use crate::proxy::kubelets::{self, KubeletSettings, Kubelets, Own};
pub use crate::registry::backend::EtcdConfig;
use crate::registry::backend::{Backend, Options};
use crate::registry::bootstrap_authorities::BootstrapAuthorities;
use crate::registry::cluster::seed::Seeded;
use crate::registry::cluster::{Cluster, approver_access};
use crate::registry::custom_kinds;
use crate::registry::definition_sets;
use crate::registry::etcd_layout::EtcdLayout;
use crate::registry::own_objects;
use crate::registry::server_addresses::{self, ServerAddress};
use crate::registry::store_size;
use crate::signing::Signing;

/// The file of the store, in the data directory.
pub const STORE: &str = "objects.redb";
/// How many alarms wait for their events.
const ALARMS: usize = 64;
/// The controller that approves certificate requests as kube-controller-manager does.
const APPROVING: &str = "certificatesigningrequest-approving-controller";

/// The names of the checks of what a start does, in the order of kube-apiserver.
fn steps(has_default_policy: bool) -> impl Iterator<Item = &'static str> {
    let names = [
        "poststarthook/start-system-namespaces-controller",
        "poststarthook/start-cluster-authentication-info-controller",
        "poststarthook/start-legacy-token-tracking-controller",
    ];
    let policy = has_default_policy.then_some("poststarthook/rbac/bootstrap-roles");
    names.into_iter().chain(policy)
}

/// What answers until the server has started (ET-5).
fn entrance(config: &Config) -> Entrance {
    let is_etcd = matches!(config.storage, Storage::Etcd(_));
    let etcd = ETCD_CHECKS.into_iter().filter(|_| is_etcd).map(|(name, endpoints)| Check {
        endpoints,
        ..Check::not_done_yet(name, "etcd client connection not yet established")
    });
    let steps = steps(config.engine.default_policy);
    let checks = etcd.chain(steps.map(|step| Check::not_done_yet(step, "not finished")));
    let waits_for = if is_etcd { "etcd" } else { "its objects" };
    Entrance::new(config.limits, &config.metrics, checks, waits_for)
}

/// The check of the KMS plug-ins, under its name in kube-apiserver (ET-50).
fn kms_check(encryption: &Arc<LiveEncryption>) -> Check {
    let encryption = Arc::clone(encryption);
    Check {
        name: "kms-providers",
        endpoints: Check::VITAL,
        run: Box::new(move || encryption.current().health()),
    }
}

/// Logs whether secrets are readable on disk, and which names of the configuration have no effect (ET-51).
fn log_encryption(config: &Config) {
    let encryption = config.encryption.rules().current();
    if let Storage::Etcd(etcd) = &config.storage
        && !encryption.providers("", "secrets").encrypt()
    {
        tracing::info!(
            servers = etcd.servers.join(","),
            "secrets are readable in etcd: encrypt them with --encryption-provider-config, or encrypt its disks"
        );
    } else if config.storage != Storage::Memory && !encryption.providers("", "secrets").encrypt() {
        tracing::info!(
            data_dir = %config.data_dir.display(),
            "secrets are readable in the files of the store: encrypt them with --encryption-provider-config, or encrypt \
             the disk"
        );
    }
    for named in encryption.resources() {
        let Resources::One { group, resource } = named else { continue };
        // The definitions of custom kinds, whose groups have a dot, are not read yet.
        let may_be_custom = group.contains('.') && config.kinds.stored().any(|row| *row == DEFINITIONS);
        if !may_be_custom && !config.kinds.stored().any(|row| row.group == group && row.plural == resource) {
            tracing::warn!(
                group,
                resource,
                "--encryption-provider-config names a resource that is not stored here"
            );
        }
    }
}

/// How the store is opened.
fn store_options(config: &Config, etcd_tls: &Arc<LiveTls>) -> Result<Options, StartError> {
    let file = match &config.storage {
        Storage::DataDir => embedded::Options::file(config.data_dir.join(STORE)),
        Storage::File(path) => embedded::Options::file(path),
        Storage::Memory => embedded::Options::memory(),
        Storage::Etcd(etcd) => return etcd_options(config, etcd, etcd_tls).map(Into::into),
    };
    let options = file.transformer(Arc::clone(config.encryption.rules()) as Arc<dyn Transformer>);
    Ok(match config.store_quota {
        Some(quota) => options.quota(quota).into(),
        None => options.into(),
    })
}

fn etcd_options(config: &Config, etcd: &EtcdConfig, tls: &Arc<LiveTls>) -> Result<etcd::Options, StartError> {
    let event_ttl = config.controller_settings.event_ttl;
    let layout = EtcdLayout::new(&config.kinds, Arc::clone(config.encryption.rules()), event_ttl);
    let layout = layout.map_err(StartError::invalid)?;
    Ok(etcd.options(layout).tls(Arc::clone(tls)).requests(Arc::new(config.metrics.store.etcd.clone())))
}

/// The checks that fail while etcd does not confirm in time what is in memory (ET-4), under their names in kube-apiserver. A restart
/// would not help.
fn etcd_checks(etcd: &EtcdConfig, backend: &Arc<Backend>) -> [Check; 2] {
    let check = |(name, endpoints), within| {
        let backend = Arc::clone(backend);
        let run = move || backend.trouble(within).map_or(Ok(()), Err);
        Check { name, endpoints, run: Box::new(run) }
    };
    let [health, ready] = ETCD_CHECKS;
    [check(health, etcd.health_timeout), check(ready, etcd.ready_timeout)]
}

/// The names of the checks of etcd, and the endpoints that have them.
const ETCD_CHECKS: [(&str, &[Probe]); 2] = [("etcd", Check::HEALTH), ("etcd-readiness", Check::READINESS)];

/// A server that is ready: it answers requests, and its controllers run.
///
/// ```
/// use portcullis_server::api_server::{ApiServer, Config, StartError, Storage};
///
/// # let data_dir = std::env::temp_dir().join(format!("portcullis-{}", std::process::id()));
/// # let removed_at_end = data_dir.clone();
/// # let stopped = std::future::ready(());
/// let config = Config { data_dir, storage: Storage::Memory, secure_port: 0, ..Config::default() };
/// let runtime = tokio::runtime::Runtime::new()?;
/// runtime.block_on(async {
///     let server = ApiServer::new(config).await?;
///     println!("kubectl --kubeconfig {} get namespaces", server.kubeconfig().display());
///     server.serve(stopped).await;
///     Ok::<_, StartError>(())
/// })?;
/// # std::fs::remove_dir_all(removed_at_end)?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct ApiServer {
    address: SocketAddr,
    app: Arc<App>,
    bootstrap: Bootstrap,
    controllers: Controllers,
    identity: String,
    kubeconfig: PathBuf,
    /// The task that keeps this server's address in etcd. When the sender is dropped, it removes the address and ends.
    leaving: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    listening: Listening,
    /// The tasks that reload files. They end when this is dropped.
    reloading: JoinSet<()>,
    seeded: Seeded,
}

/// A server that starts.
pub type Starting = Pin<Box<dyn Future<Output = Result<ApiServer, StartError>> + Send>>;

impl ApiServer {
    /// Prepares the data directory, binds the port, opens the store and starts the controllers. Until this returns, the server
    /// answers health checks, and everything else with 503 (ET-5). Waits for etcd; dropping the future ends the start.
    ///
    /// # Errors
    /// See [`StartError`]. What the first start has created stays, and the next start uses it.
    pub fn new(config: Config) -> Starting {
        // Behind a pointer, the whole server is compiled here, and not again in each program that starts one.
        Box::pin(Self::start(config))
    }

    async fn start(config: Config) -> Result<Self, StartError> {
        log_encryption(&config);
        let etcd_tls: Arc<LiveTls> = match &config.storage {
            Storage::Etcd(etcd) => etcd.tls.clone().into(),
            _ => Arc::default(),
        };
        let options = store_options(&config, &etcd_tls)?;
        let encryption = Arc::clone(config.encryption.rules());
        // Without its plug-in no stored secret can be read.
        encryption
            .current()
            .start()
            .await
            .map_err(|error| StartError::Unavailable(format!("--encryption-provider-config: {error}")))?;
        let now = SystemTime::now();
        let bootstrap = Bootstrap::prepare(&config.data_dir, config.bind_address, now)?;
        let mut reloading = JoinSet::new();
        if config.serving_certificate.is_none() {
            let dir = config.data_dir.clone();
            reloading.spawn(bootstrap::keep_serving(dir, config.bind_address, config.clock.clone()));
        }
        if let Storage::Etcd(etcd) = &config.storage {
            // Also while the server waits for etcd, perhaps because the certificates are wrong.
            reloading.spawn(etcd.files.clone().follow(etcd.tls.clone(), etcd_tls));
        }
        let entrance = Arc::new(entrance(&config));
        let certificate = serving_certificate(config.serving_certificate, &config.data_dir, &bootstrap)?;
        let connections = config.metrics.connections.clone();
        reloading.spawn(certificate.follow(
            bootstrap.tls.clone(),
            connections,
            serving_certificate::INTERVAL,
        ));
        let address = SocketAddr::new(config.bind_address, config.secure_port);
        let listener = Server::bind(address, bootstrap.tls.clone(), Arc::clone(&entrance));
        let listener = listener.await.map_err(|error| {
            StartError::Unavailable(format!(
                "cannot listen on {address}: {error} (--bind-address, --secure-port)"
            ))
        })?;
        let address = listener.local_addr().map_err(|error| {
            StartError::Unavailable(format!("cannot determine the local address: {error}"))
        })?;
        let mut listening = listener.listen();
        tracing::info!(%address, "listening");

        let starting = async {
            let bootstrappers = BootstrapAuthorities::new(config.bootstrap_authorities.clone());
            let options = bootstrappers.follow(options);
            let (cluster, seeded) = Cluster::open_seeded(
                options,
                &config.engine,
                &config.metrics.store,
                config.kinds.clone(),
                &config.state,
            )
            .await?;
            let Cluster { backend, engine, right_changes, kinds } = cluster;
            reloading.spawn(custom_kinds::follow(Arc::clone(&backend), kinds));
            if config.filter_lists.is_on() {
                right_changes.remember(engine.graph(), backend.revision());
            }
            bootstrappers.load(&backend).await.map_err(StartError::unavailable)?;
            reloading.spawn(store_size::follow(
                Arc::clone(&backend),
                // etcd has a quota of its own.
                config.store_quota.filter(|_| !backend.is_shared()),
                config.metrics.store.size.clone(),
                config.metrics.store.etcd.undecodable.clone(),
            ));

            let kms_check = config.encryption.has_check().then(|| kms_check(&encryption));
            if let Some(reloader) = config.encryption.reloader() {
                let store = Arc::clone(&backend);
                let rewrite = move || {
                    let store = Arc::clone(&store);
                    async move { store.rewrite().await }
                };
                reloading.spawn(reloader.run(config.metrics.encryption.clone(), rewrite));
            }

            // A configuration file that allows everything says so explicitly (AN-111).
            let allows_all =
                config.engine.modes.contains(&Mode::AlwaysAllow) && !config.authorization.is_file();
            let metrics = config.metrics.authentication.clone();
            let authentication_metrics = metrics.file.clone();
            let (authentication, authorities, authentication_file) =
                config.authentication.open(&bootstrap, &backend, bootstrappers, metrics, allows_all)?;
            let authentication = Arc::new(authentication);
            let (authorization, reloader) = config
                .authorization
                .open(engine, Arc::clone(&backend), &config.metrics.webhooks)
                .map_err(StartError::invalid)?;
            let alarm = config.node_secret_alarm.map(|most| {
                let (told, nodes) = mpsc::channel(ALARMS);
                reloading.spawn(controller::secret_alarm::report(Arc::clone(&backend), most, nodes));
                SecretAlarm::new(most, config.metrics.secret_alarm.clone(), Some(told))
            });
            let authorization = Arc::new(authorization.with_alarm(alarm));
            if let Some(reloader) = reloader {
                reloading.spawn(reloader.run());
            }
            if let Some((path, rules)) = config.deny_file.zip(config.engine.deny.clone()) {
                let file = DenyFile::new(path, rules, true, config.metrics.deny_rules.clone());
                let watches = Arc::clone(&right_changes);
                reloading.spawn(file.run(move || watches.rules_changed()));
            }

            let selection = match config.approver {
                Approver::Kubernetes | Approver::Machine => config.controllers,
                Approver::Attested | Approver::Nobody => config.controllers.without(APPROVING),
            };
            let access = match config.approver {
                Approver::Machine => approver_access::ensure(&backend).await,
                Approver::Attested => approver_access::ensure_attested(&backend).await,
                Approver::Kubernetes | Approver::Nobody => Ok(()),
            };
            access.map_err(|status| StartError::unavailable(status.message()))?;
            let signing = match config.signing {
                Some(signing) => signing,
                None => Signing::by_one(bootstrap.authority()?, config.signing_duration),
            };
            let signing = Arc::new(signing);
            let kubelets = Arc::new(kubelets(config.kubelets, &bootstrap, Arc::clone(&signing))?);
            reloading.spawn(Arc::clone(&kubelets).follow());
            let event_ttl = config.controller_settings.event_ttl;
            let quota_turns = Arc::default();
            let controllers = ControllerConfig {
                authority: bootstrap.authority_pem().to_owned(),
                accounts: Arc::clone(authentication.service_accounts()),
                authorization: Arc::clone(&authorization),
                approves_renewals_only: config.approver == Approver::Machine,
                signing,
                clock: config.clock,
                bootstrap: config.bootstrap_authorities,
                kinds: config.kinds.clone(),
                quota_turns: Arc::clone(&quota_turns),
                selection,
                settings: config.controller_settings,
            };
            let controllers = Controllers::start(&backend, controllers, config.identity.clone()).await;

            let etcd_checks = match &config.storage {
                Storage::Etcd(etcd) => Some(etcd_checks(etcd, &backend)),
                _ => None,
            };
            let addresses = config.service_ranges.addresses.clone();
            let app = Arc::new(App::new(AppConfig {
                admission: config.admission,
                admission_configuration: config.admission_configuration,
                audit: config.audit,
                authentication,
                authorization,
                backend,
                event_ttl,
                checks: etcd_checks
                    .into_iter()
                    .flatten()
                    .chain(kms_check)
                    .chain(steps(config.engine.default_policy).map(Check::done_at_start))
                    .chain(config.checks)
                    .collect(),
                filter_lists: config.filter_lists,
                held: Arc::clone(entrance.held()),
                kinds: config.kinds,
                kubelets,
                limits: config.limits,
                metrics: config.metrics,
                quota_turns,
                right_changes,
                runtime: config.runtime_config,
                service_ranges: config.service_ranges,
            }));
            let is_reachable = |address: &IpAddr| !address.is_loopback() && !address.is_unspecified();
            let advertised = config.advertise_address.or(Some(address.ip()).filter(is_reachable));
            let (backend, authentication) = (app.backend(), app.authentication());
            let told = tokio::try_join!(
                authentication.publish(&authorities),
                own_objects::track_legacy_tokens(backend),
                own_objects::name_ranges(backend, &addresses),
                own_objects::serve_cluster(backend, &addresses, advertised, address.port()),
            );
            told.map_err(|status| StartError::unavailable(status.message()))?;
            for set in config.install_definitions {
                let installed = definition_sets::install(backend, set).await;
                installed.map_err(|status| StartError::unavailable(status.message()))?;
            }
            let shared = Some(backend).filter(|backend| backend.is_shared()).zip(advertised);
            let leaving = shared.map(|(backend, ip)| {
                let (leave, stop) = oneshot::channel();
                let own = ServerAddress { ip, port: address.port() };
                (leave, tokio::spawn(server_addresses::keep(Arc::clone(backend), own, stop)))
            });
            let kubeconfig = bootstrap.write_kubeconfig(address.port())?;
            reloading.spawn(authorities.follow(Arc::clone(app.authentication())));
            if let Some(file) = authentication_file {
                reloading.spawn(file.follow(Arc::clone(app.authentication()), authentication_metrics));
            }
            let identity = config.identity;
            entrance.open(Arc::clone(&app));
            Ok::<_, StartError>((app, controllers, identity, kubeconfig, leaving, seeded))
        };
        let started = Box::pin(listening.during(starting)).await?;
        let (app, controllers, identity, kubeconfig, leaving, seeded) = started;
        Ok(Self {
            address,
            app,
            bootstrap,
            controllers,
            identity,
            kubeconfig,
            leaving,
            listening,
            reloading,
            seeded,
        })
    }

    /// The address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The parts that answer requests.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// The data directory's authority and certificates.
    pub fn bootstrap(&self) -> &Bootstrap {
        &self.bootstrap
    }

    /// The kubeconfig of the administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The result of seeding an empty store.
    pub fn seeded(&self) -> &Seeded {
        &self.seeded
    }

    /// The stored objects.
    pub fn backend(&self) -> &Arc<Backend> {
        self.app.backend()
    }

    /// Does work on one of the servers that share a store at a time, elected by a lease of this name. If the store is this
    /// server's own, does the work at once. Ends with the work; does not end with its lease. The work is stopped by dropping it.
    pub fn elected<F>(
        &self,
        lease: &'static str,
        work: impl Fn() -> F + Send + Sync + 'static,
    ) -> impl Future<Output = ()> + Send + 'static
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (backend, identity) = (Arc::clone(self.backend()), self.identity.clone());
        async move {
            match backend.is_shared() {
                false => work().await,
                true => leader::lead(backend, lease, identity, std::future::pending(), work).await,
            }
        }
    }

    /// Serves until `stop` completes, then lets the requests in progress finish, and stops the controllers.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let leaving = self.leaving;
        // New clients are not led here any more before the port is closed.
        let stop = async move {
            stop.await;
            if let Some((leave, left)) = leaving {
                drop(leave);
                // A task that failed has said so.
                let _ = left.await;
            }
        };
        self.listening.until(stop).await;
        self.controllers.stop().await;
        drop(self.reloading);
    }
}

/// The connections to kubelets: with what the settings name, or with what this server's own authorities have.
fn kubelets(
    settings: KubeletSettings,
    bootstrap: &Bootstrap,
    signing: Arc<Signing>,
) -> Result<Kubelets, StartError> {
    let client = match settings.client {
        Some(_) => None,
        None => Some(bootstrap.issue_client(kubelets::USER)?),
    };
    let authority = move || match signing.authority(Signer::KubeletServing) {
        Ok(Some(authority)) => authority.certificate_pem().into_bytes(),
        Ok(None) | Err(_) => Vec::new(),
    };
    let flags = "--kubelet-certificate-authority, --kubelet-client-certificate, --kubelet-client-key";
    Kubelets::new(settings, Own { authority: Arc::new(authority), client })
        .map_err(|error| StartError::Invalid(format!("{error} ({flags})")))
}

/// The serving certificate: a given one, or the server's own, which can be renewed as well.
fn serving_certificate(
    given: Option<(PathBuf, PathBuf)>,
    dir: &Path,
    bootstrap: &Bootstrap,
) -> Result<ServingCertificate, StartError> {
    let own = || (dir.join("apiserver.crt"), dir.join("apiserver.key"));
    let (certificate, key) = given.unwrap_or_else(own);
    let mut serving = ServingCertificate::new(certificate, key);
    serving
        .take_up(&bootstrap.tls)
        .map_err(|error| StartError::Invalid(format!("{error} (--tls-cert-file, --tls-private-key-file)")))?;
    Ok(serving)
}
