//! A started server with its authority and its administrator.
#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "each test file uses a part of this, and a test that cannot be set up must stop at once and say where"
)]

use std::fs;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use portcullis_pki::ca::{Template, Usage};
use portcullis_pki::jwt::SigningKey;
use portcullis_pki::{CertificateAuthority, KeyPair, pem};
use portcullis_policy::chain;
use portcullis_policy::engine::{EngineConfig, LiveEngine};
use portcullis_policy::objects::Object;
use portcullis_policy::{Attributes, Decision, Reason};
use portcullis_server::api::check::Check;
use portcullis_server::audit::sink::Rotation;
use portcullis_server::audit::{Audit, Mode, Policy, Sink, SinkOptions};
use portcullis_server::authn::Authentication;
use portcullis_server::authn::bootstrap_token::BootstrapTokens;
use portcullis_server::authn::service_account::{Issuer, ServiceAccounts};
use portcullis_server::authn::token_file::TokenFile;
use portcullis_server::authz::{Authorization, Authorizers, Remote};
use portcullis_server::bootstrap::Bootstrap;
use portcullis_server::certificate_requests::Pkcs10Reader;
use portcullis_server::clock::Clock;
use portcullis_server::controller::{ControllerSettings, Controllers};
use portcullis_server::http::limits::Limits;
use portcullis_server::registry::bootstrap_authorities::{BootstrapAuthorities, Settings};
use portcullis_server::registry::cluster::Cluster;
use portcullis_server::registry::runtime_config::RuntimeConfig;
use portcullis_server::registry::system_namespaces;
use portcullis_server::signing::{Signing, USUAL_LONGEST};
use portcullis_server::state::{Format, Loader};
use portcullis_server::{App, Kinds, Metrics, Server};
use portcullis_store::embedded::Options;
pub use portcullis_testkit::curl::{Answer, Curl, Identity};
pub use portcullis_testkit::tls::{REVIEWS, Tls};
use portcullis_testkit::tool;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// A few fixed rules with the shape of the default policy. Not the product's: only something to be asked.
pub struct FixedRules;

impl FixedRules {
    fn decide(attributes: &Attributes<'_>) -> chain::Answer {
        let answer =
            |decision, error: Option<&str>| chain::Answer { decision, error: error.map(str::to_owned) };
        let user = attributes.user;
        match user.name.as_str() {
            "broken" => return answer(Decision::NO_OPINION, Some("the index is <gone> & lost")),
            "banned" => return answer(Decision::Deny(Reason::Text("banned <for good>")), None),
            "shaky" => {
                return answer(Decision::Allow(Reason::Text("allowed anyway")), Some("one index is gone"));
            }
            _ => {}
        }
        let is_authenticated = user.in_group("system:authenticated");
        let allowed = match &attributes.resource {
            None if attributes.verb != "get" => false,
            None => match attributes.path {
                "/healthz" | "/livez" | "/readyz" | "/version" | "/version/" => true,
                path => {
                    is_authenticated
                        && (path == "/api"
                            || path == "/apis"
                            || path.starts_with("/api/")
                            || path.starts_with("/apis/")
                            || path.starts_with("/openapi/"))
                }
            },
            Some(r) if matches!(r.group, "authentication.k8s.io" | "authorization.k8s.io") => {
                is_authenticated && attributes.verb == "create" && r.resource.starts_with("selfsubject")
            }
            Some(r) => {
                user.name == "jane"
                    && attributes.verb == "get"
                    && r.resource == "pods"
                    && r.namespace == "default"
            }
        };
        if allowed {
            answer(Decision::Allow(Reason::Text("fixed rule")), None)
        } else {
            answer(Decision::NO_OPINION, None)
        }
    }
}

/// They may fail, so they stand where a webhook does.
impl Remote for FixedRules {
    fn name(&self) -> &str {
        "fixed-rules"
    }

    fn authorize<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
    ) -> Pin<Box<dyn Future<Output = chain::Answer> + Send + 'a>> {
        Box::pin(std::future::ready(Self::decide(attributes)))
    }
}

/// How a server is to differ from the ordinary one.
pub struct Setup {
    pub anonymous: bool,
    pub runtime: RuntimeConfig,
    /// The kinds that there are.
    pub kinds: Kinds,
    pub limits: Limits,
    pub checks: Vec<Check>,
    /// Decide over these objects as the product does, not by the fixed rules.
    pub state: Option<String>,
    /// Keep objects, in memory.
    pub keeps_objects: bool,
    /// Keep objects, in memory, and decide over them as `serve` does, with all controllers.
    pub is_cluster: bool,
    /// Keep the objects of a cluster in this file.
    pub store: Option<PathBuf>,
    /// Sign tokens with this key, in PEM, instead of one of our own.
    pub signing_key: Option<Vec<u8>>,
    /// Static tokens.
    pub tokens: Option<&'static str>,
    /// Further ways in, or other ones.
    pub authentication: Option<Box<dyn FnOnce(Authentication) -> Authentication>>,
    /// Write an audit log by this policy.
    pub audit: Option<&'static str>,
    /// Whether requests wait for it, and when files are put aside.
    pub audit_sink: SinkOptions,
    /// The clock for certificate requests.
    pub clock: Clock,
    /// Who signs certificates, if not the server's own authority.
    pub signing: Option<Signing>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            anonymous: true,
            runtime: RuntimeConfig::default(),
            kinds: Kinds::built_in(),
            limits: Limits { shutdown: Duration::from_secs(1), ..Limits::default() },
            checks: Vec::new(),
            state: None,
            keeps_objects: false,
            is_cluster: false,
            store: None,
            signing_key: None,
            tokens: None,
            authentication: None,
            audit: None,
            audit_sink: SinkOptions {
                name: "audit log",
                path: None,
                mode: Mode::Blocking,
                rotation: Rotation::default(),
            },
            clock: Clock::default(),
            signing: None,
        }
    }
}

pub struct Started {
    pub dir: PathBuf,
    pub address: SocketAddr,
    pub app: Arc<App>,
    pub tls: portcullis_pki::tls::ServerTls,
    authority: CertificateAuthority,
    stop: Option<oneshot::Sender<()>>,
    controllers: Option<Controllers>,
    pub runtime: Option<Runtime>,
}

pub fn scratch() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("server-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// How `serve` decides unless it is told otherwise.
pub fn engine_config() -> EngineConfig {
    EngineConfig {
        modes: vec![chain::Mode::Node, chain::Mode::Rbac],
        masters_first: true,
        default_policy: true,
        admission: true,
        certificate_requests: Some(Arc::new(Pkcs10Reader)),
        ..EngineConfig::default()
    }
}

/// An engine as `serve` makes it, over the objects of a JSON text.
fn engine(state: &str) -> Arc<LiveEngine> {
    let engine = LiveEngine::new(&engine_config()).unwrap();
    let mut sink = |object: Object<'_>| engine.apply(object).map(|_| ()).map_err(|e| e.to_string());
    Loader::new(NonZeroUsize::MIN, &mut sink).text(Path::new("state"), Format::Json, state).unwrap();
    engine.mark_complete();
    Arc::new(engine)
}

/// Authorization by the fixed rules alone, after group `system:masters`.
fn fixed_rules(metrics: &Metrics) -> Authorization {
    let engine = Arc::new(LiveEngine::new(&engine_config()).unwrap());
    let webhooks: Vec<Arc<dyn Remote>> = vec![Arc::new(FixedRules)];
    let authorizers = Authorizers::new(&[chain::Mode::Webhook], &[], webhooks, &metrics.webhooks).unwrap();
    Authorization::new(engine, &metrics.webhooks).with_authorizers(authorizers.shared())
}

pub fn start() -> Started {
    start_with(Setup::default())
}

pub fn start_with(setup: Setup) -> Started {
    let dir = scratch();
    let bootstrap = Bootstrap::prepare(&dir, "127.0.0.1".parse().unwrap(), SystemTime::now()).unwrap();
    let authentication = Authentication::new(
        portcullis_pki::CaBundle::from_pem(&fs::read(dir.join("ca.crt")).unwrap()).unwrap(),
        setup.anonymous,
    );
    let authentication = match setup.tokens {
        Some(text) => authentication.with_tokens(TokenFile::read(text).unwrap()),
        None => authentication,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let metrics = Metrics::default();
    let authorities = BootstrapAuthorities::new(Settings::default());
    let cluster = setup.is_cluster.then(|| {
        let options = authorities.follow(setup.store.map_or_else(Options::memory, Options::file));
        let cluster = runtime.block_on(Cluster::open_seeded(
            options,
            &engine_config(),
            &metrics.store,
            setup.kinds.clone(),
            &[],
        ));
        let cluster = cluster.unwrap().0;
        runtime.block_on(authorities.load(&cluster.backend)).unwrap();
        cluster
    });
    let authorization = match (&cluster, &setup.state) {
        (Some(cluster), _) => Authorization::new(Arc::clone(&cluster.engine), &metrics.webhooks),
        (None, Some(state)) => Authorization::new(engine(state), &metrics.webhooks),
        (None, None) => fixed_rules(&metrics),
    };
    let accounts = cluster.as_ref().map(|cluster| {
        let key = match &setup.signing_key {
            Some(text) => KeyPair::from_pem(text).unwrap(),
            None => bootstrap.service_account_key().unwrap(),
        };
        let signing = SigningKey::new(&key).unwrap();
        Arc::new(ServiceAccounts::new(Arc::clone(&cluster.backend), signing, vec![], Issuer::default()))
    });
    let authentication = match (&cluster, &accounts) {
        (Some(cluster), Some(accounts)) => authentication
            .with_service_accounts(Arc::clone(accounts))
            .with_bootstrap_tokens(BootstrapTokens::new(Arc::clone(&cluster.backend)))
            .with_bootstrap_authorities(authorities),
        _ => authentication,
    };
    let authentication = match setup.authentication {
        Some(change) => change(authentication),
        None => authentication,
    };
    let audit = setup.audit.map(|text| {
        let mut options = setup.audit_sink.clone();
        options.path.get_or_insert_with(|| dir.join("audit.log"));
        let sink = Sink::open(&options, metrics.audit.errors.clone()).unwrap();
        Audit::new(Policy::read(text).unwrap(), sink, metrics.audit.clone())
    });
    let mut app = App::new(authentication, authorization, setup.runtime, setup.limits)
        .with_metrics(metrics)
        .with_kinds(&setup.kinds);
    if let Some(audit) = audit {
        app = app.with_audit(audit);
    }
    for check in setup.checks {
        app = app.with_check(check);
    }
    if setup.keeps_objects {
        let backend = Options::memory().open().unwrap();
        runtime.block_on(system_namespaces::ensure(&backend)).map_err(|s| s.message().to_owned()).unwrap();
        app = app.with_backend(backend);
    }
    if let Some(cluster) = &cluster {
        app = app.with_backend(Arc::clone(&cluster.backend));
    }
    let app = Arc::new(app);
    let controllers = cluster.map(|cluster| {
        let _inside = runtime.enter();
        let settings = ControllerSettings {
            authority: bootstrap.authority_pem().to_owned(),
            accounts,
            authorization: Some(Arc::clone(app.authorization())),
            signing: Some(Arc::new(
                setup
                    .signing
                    .unwrap_or_else(|| Signing::by_one(bootstrap.authority().unwrap(), USUAL_LONGEST)),
            )),
            clock: setup.clock,
            kinds: setup.kinds,
            ..ControllerSettings::default()
        };
        runtime.block_on(Controllers::start(&cluster.backend, settings))
    });
    let server = runtime
        .block_on(Server::bind("127.0.0.1:0".parse().unwrap(), bootstrap.tls.clone(), Arc::clone(&app)))
        .unwrap();
    let address = server.local_addr().unwrap();
    bootstrap.write_kubeconfig(address.port()).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    runtime.spawn(server.serve(async {
        let _ = stopped.await;
    }));
    let authority = CertificateAuthority::from_pem(
        &fs::read(dir.join("ca.crt")).unwrap(),
        &fs::read(dir.join("ca.key")).unwrap(),
    )
    .unwrap();
    Started {
        dir,
        address,
        app,
        tls: bootstrap.tls.clone(),
        authority,
        stop: Some(stop),
        controllers,
        runtime: Some(runtime),
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(runtime) = self.runtime.take() {
            if let Some(controllers) = self.controllers.take() {
                runtime.block_on(controllers.stop());
            }
            runtime.shutdown_timeout(Duration::from_secs(2));
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Started {
    pub fn stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    /// Waits until the metrics have this line.
    #[track_caller]
    pub fn wait_for_metric(&self, line: &str) {
        portcullis_testkit::wait::until_ok(line, || {
            let metrics = self.app.metrics().render().unwrap();
            if metrics.lines().any(|found| found == line) { Ok(()) } else { Err(metrics) }
        });
    }

    /// The events of the audit log so far.
    pub fn audited(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.dir.join("audit.log")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub fn admin(&self) -> Identity {
        Identity { certificate: self.dir.join("admin.crt"), key: self.dir.join("admin.key") }
    }

    /// A client of the server's own authority.
    pub fn user(&self, name: &str, groups: &[&str]) -> Identity {
        self.issued(&self.authority, name, groups, Usage::Client, SystemTime::now())
    }

    pub fn issued(
        &self,
        authority: &CertificateAuthority,
        name: &str,
        groups: &[&str],
        usage: Usage,
        at: SystemTime,
    ) -> Identity {
        let key = KeyPair::generate().unwrap();
        let template = Template {
            common_name: name.to_owned(),
            organizations: groups.iter().map(ToString::to_string).collect(),
            dns_names: vec![],
            ip_addresses: vec![],
            usage,
            lifetime: Duration::from_secs(3600),
        };
        let certificate = authority.issue(&template, &key, at).unwrap();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let stem = format!("user-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let identity = Identity {
            certificate: self.dir.join(format!("{stem}.crt")),
            key: self.dir.join(format!("{stem}.key")),
        };
        fs::write(&identity.certificate, pem::encode("CERTIFICATE", &certificate)).unwrap();
        fs::write(&identity.key, key.to_pem()).unwrap();
        identity
    }

    pub fn authority(&self) -> &CertificateAuthority {
        &self.authority
    }

    pub fn request(&self, method: &str, path: &str) -> Curl {
        let url = format!("https://localhost:{}{path}", self.address.port());
        Curl::new(method, url, self.dir.join("ca.crt"))
    }

    /// A connection of the administrator, with HTTP/1.1.
    pub fn open_tls(&self) -> Tls {
        self.open_tls_as(&self.admin(), "http/1.1")
    }

    pub fn open_tls_as(&self, identity: &Identity, protocol: &str) -> Tls {
        Tls::open(self.address, &self.dir.join("ca.crt"), identity, protocol)
    }

    pub fn get(&self, path: &str) -> Curl {
        self.request("GET", path)
    }

    /// The status codes of the same method at many paths, over one connection as long as the server keeps it.
    pub fn codes(&self, method: &str, paths: &[String], identity: Option<&Identity>) -> Vec<u16> {
        let mut curl = tool::command("curl");
        curl.args([
            "-sS",
            "--http1.1",
            "--path-as-is",
            "--max-time",
            "60",
            "-X",
            method,
            "-w",
            "%{http_code}\n",
        ]);
        curl.arg("--cacert").arg(self.dir.join("ca.crt"));
        if let Some(identity) = identity {
            curl.arg("--cert").arg(&identity.certificate).arg("--key").arg(&identity.key);
        }
        for path in paths {
            curl.args(["-o", "/dev/null"]).arg(format!("https://localhost:{}{path}", self.address.port()));
        }
        let out = curl.output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap().lines().map(|code| code.parse().unwrap()).collect()
    }

    pub fn post(&self, path: &str, body: impl Into<Vec<u8>>) -> Curl {
        self.request("POST", path).header("Content-Type: application/json").body(body)
    }
}

/// A valid SubjectAccessReview of jane reading pods.
pub const REVIEW: &str = r#"{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"user":"jane","groups":["g"],"resourceAttributes":{"namespace":"default","verb":"get","resource":"pods","name":"p"}}}"#;
