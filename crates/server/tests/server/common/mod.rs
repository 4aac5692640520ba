//! A started server with its authority and its administrator.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use portcullis_pki::ca::{Template, Usage};
use portcullis_pki::jwt::SigningKey;
use portcullis_pki::{CertificateAuthority, KeyPair, pem};
use portcullis_policy::chain;
use portcullis_policy::engine::EngineConfig;
use portcullis_policy::{Attributes, Decision, Reason};
use portcullis_server::admission::AdmissionConfiguration;
use portcullis_server::api::check::Check;
use portcullis_server::api::filter_lists::FilterLists;
use portcullis_server::api_server::{EtcdConfig, Storage};
use portcullis_server::audit::sink::Rotation;
use portcullis_server::audit::{Audit, Mode, Policy, Sink, SinkOptions, WhenFull};
use portcullis_server::authn::AuthenticationConfig;
use portcullis_server::authn::anonymous::Anonymous;
use portcullis_server::authn::request_header::RequestHeader;
use portcullis_server::authn::token_file::TokenFile;
use portcullis_server::authz::{AuthorizationConfig, Remote};
use portcullis_server::certificate_requests::Pkcs10Reader;
use portcullis_server::clock::Clock;
use portcullis_server::controller::selection::Selection;
use portcullis_server::controller::settings::ControllerSettings;
use portcullis_server::http::limits::Limits;
use portcullis_server::registry::runtime_config::RuntimeConfig;
use portcullis_server::signing::Signing;
use portcullis_server::{ApiServer, App, Config, Kinds, KubeletSettings, Metrics};
use portcullis_testkit::https::{self, Client};
pub(crate) use portcullis_testkit::request::{Answer, Identity, Request};
pub(crate) use portcullis_testkit::tls::{REVIEWS, Tls};
use portcullis_testkit::tool;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A few fixed rules with the shape of the default policy. Not the product's: only something to be asked.
pub(crate) struct FixedRules;

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
pub(crate) struct Setup {
    pub(crate) anonymous: Anonymous,
    /// Front proxies that name users in headers.
    pub(crate) front_proxy: Option<RequestHeader>,
    pub(crate) runtime: RuntimeConfig,
    /// The kinds that there are.
    pub(crate) kinds: Kinds,
    pub(crate) limits: Limits,
    pub(crate) checks: Vec<Check>,
    /// Seed the store with these objects, and decide over them as the product does, not by the fixed rules.
    pub(crate) state: Option<String>,
    /// Decide as `serve` does, with the default policy and all controllers.
    pub(crate) is_cluster: bool,
    /// Keep the objects of a cluster in this file.
    pub(crate) store: Option<PathBuf>,
    /// Keep the objects of a cluster in etcd.
    pub(crate) etcd: Option<EtcdConfig>,
    /// Begin with the keys and certificates of this server.
    pub(crate) keys_of: Option<PathBuf>,
    /// Sign tokens with this key, in PEM, instead of one of our own.
    pub(crate) signing_key: Option<Vec<u8>>,
    /// Static tokens.
    pub(crate) tokens: Option<&'static str>,
    /// The `plugins` of an AdmissionConfiguration.
    pub(crate) admission: Option<Value>,
    /// Write an audit log by this policy.
    pub(crate) audit: Option<&'static str>,
    /// Whether requests wait for it, and when files are put aside.
    pub(crate) audit_sink: SinkOptions,
    /// The clock for certificate requests.
    pub(crate) clock: Clock,
    /// Which controllers a cluster has.
    pub(crate) selection: Selection,
    /// The numbers that controllers follow.
    pub(crate) controllers: ControllerSettings,
    /// The callers that get filtered lists.
    pub(crate) filter_lists: FilterLists,
    /// The settings for connections to kubelets.
    pub(crate) kubelets: KubeletSettings,
    /// Who signs certificates, if not the server's own authority.
    pub(crate) signing: Option<Signing>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            anonymous: Anonymous::Everywhere,
            front_proxy: None,
            runtime: RuntimeConfig::default(),
            kinds: Kinds::built_in(),
            limits: Limits { shutdown: Duration::from_secs(1), ..Limits::default() },
            checks: Vec::new(),
            state: None,
            is_cluster: false,
            store: None,
            etcd: None,
            keys_of: None,
            signing_key: None,
            tokens: None,
            admission: None,
            audit: None,
            audit_sink: SinkOptions {
                name: "audit log",
                path: None,
                mode: Mode::Blocking,
                when_full: WhenFull::Wait,
                rotation: Rotation::default(),
            },
            clock: Clock::default(),
            selection: Selection::default(),
            controllers: ControllerSettings::default(),
            filter_lists: FilterLists::default(),
            kubelets: KubeletSettings::default(),
            signing: None,
        }
    }
}

pub(crate) struct Started {
    pub(crate) dir: PathBuf,
    pub(crate) address: SocketAddr,
    pub(crate) app: Arc<App>,
    pub(crate) tls: portcullis_pki::tls::ServerTls,
    authority: CertificateAuthority,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<()>>,
    pub(crate) runtime: Option<Runtime>,
}

/// The checks of what every start has done, by their names in kube-apiserver.
pub(crate) const STARTED: &str = "\
[+]poststarthook/start-system-namespaces-controller ok
[+]poststarthook/start-cluster-authentication-info-controller ok
[+]poststarthook/start-legacy-token-tracking-controller ok
";

/// kube-apiserver's message for a continue token whose revision is gone.
const INCONSISTENT: &str = "The provided continue parameter is too old to display a consistent list result. You can start a \
    new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
    results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
    deleted between the time the first chunk was returned and now may show up in the list.";

/// The revision of a continue token is gone. Checks that the refusal says how to go on, and that the list then goes on at the
/// newest revision with these names. `list` is the path up to the token.
#[track_caller]
pub(crate) fn goes_on_inconsistently(client: &mut Client, list: &str, token: &str, rest: &[&str]) {
    let refusal = client.must(410, "GET", &format!("{list}{token}"), None);
    assert_eq!((&refusal["reason"], &refusal["message"]), (&json!("Expired"), &json!(INCONSISTENT)));
    let token = refusal["metadata"]["continue"].as_str().unwrap();
    // As kube-apiserver marks it.
    let decoded: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(token).unwrap()).unwrap();
    assert_eq!(decoded["rv"], -1);
    let page = client.must(200, "GET", &format!("{list}{token}"), None);
    let names: Vec<_> =
        page["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, rest);
    assert_eq!(page["metadata"]["continue"], Value::Null);
}

pub(crate) fn scratch() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("server-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// How `serve` decides unless it is told otherwise.
pub(crate) fn engine_config() -> EngineConfig {
    EngineConfig {
        modes: vec![chain::Mode::Node, chain::Mode::Rbac],
        masters_first: true,
        default_policy: true,
        admission: true,
        certificate_requests: Some(Arc::new(Pkcs10Reader)),
        ..EngineConfig::default()
    }
}

pub(crate) fn start() -> Started {
    start_with(Setup::default())
}

pub(crate) fn start_with(setup: Setup) -> Started {
    let dir = scratch();
    fs::create_dir_all(&dir).unwrap();
    for file in setup.keys_of.iter().flat_map(|other| fs::read_dir(other).unwrap()) {
        let file = file.unwrap().path();
        if file.is_file() {
            fs::copy(&file, dir.join(file.file_name().unwrap())).unwrap();
        }
    }
    let metrics = Metrics::default();
    let audit = setup.audit.map(|text| {
        let mut options = setup.audit_sink.clone();
        options.path.get_or_insert_with(|| dir.join("audit.log"));
        let sink = Sink::open(&options, metrics.audit.sink.clone()).unwrap();
        Audit::new(Policy::read(text).unwrap(), sink, metrics.audit.clone())
    });
    let seed = setup.state.map(|text| {
        let path = dir.with_extension("json");
        fs::write(&path, text).unwrap();
        path
    });
    let decides_by_objects = setup.is_cluster || seed.is_some();
    let authorization = match decides_by_objects {
        true => AuthorizationConfig::Engine,
        false => AuthorizationConfig::Webhooks(vec![chain::Mode::Webhook], vec![Arc::new(FixedRules)]),
    };
    let controllers = match setup.is_cluster {
        true => setup.selection,
        false => Selection::parse([]).unwrap(),
    };
    let config = Config {
        data_dir: dir.clone(),
        storage: match (setup.etcd, setup.store) {
            (Some(etcd), _) => Storage::Etcd(Box::new(etcd)),
            (None, Some(file)) => Storage::File(file),
            (None, None) => Storage::Memory,
        },
        state: seed.iter().cloned().collect(),
        kinds: setup.kinds,
        secure_port: 0,
        filter_lists: setup.filter_lists,
        limits: setup.limits,
        runtime_config: setup.runtime,
        metrics,
        checks: setup.checks,
        authentication: AuthenticationConfig {
            anonymous: Some(setup.anonymous),
            front_proxy: setup.front_proxy,
            tokens: setup.tokens.map(|text| TokenFile::read(text).unwrap()).unwrap_or_default(),
            signing_key: setup
                .signing_key
                .map(|text| SigningKey::new(&KeyPair::from_pem(&text).unwrap()).unwrap()),
            ..AuthenticationConfig::default()
        },
        engine: EngineConfig { default_policy: decides_by_objects, ..engine_config() },
        authorization,
        admission_configuration: setup
            .admission
            .map(|plugins| {
                let document = json!({
                    "apiVersion": "apiserver.config.k8s.io/v1",
                    "kind": "AdmissionConfiguration",
                    "plugins": plugins,
                });
                let no_files = |path: &str| Err(format!("{path} is not there"));
                AdmissionConfiguration::read(document.to_string().as_bytes(), no_files).unwrap()
            })
            .unwrap_or_default(),
        audit,
        controllers,
        controller_settings: setup.controllers,
        kubelets: setup.kubelets,
        signing: setup.signing,
        clock: setup.clock,
        ..Config::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let server = runtime.block_on(ApiServer::new(config)).unwrap();
    if let Some(seed) = seed {
        fs::remove_file(seed).unwrap();
    }
    let (address, app, tls) = (server.address(), Arc::clone(server.app()), server.bootstrap().tls.clone());
    let authority = server.bootstrap().authority().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = runtime.spawn(server.serve(async {
        let _ = stopped.await;
    }));
    let (stop, serving, runtime) = (Some(stop), Some(serving), Some(runtime));
    Started { dir, address, app, tls, authority, stop, serving, runtime }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(runtime) = self.runtime.take() {
            if let Some(serving) = self.serving.take() {
                let _ = runtime.block_on(async { timeout(Duration::from_secs(2), serving).await });
            }
            runtime.shutdown_timeout(Duration::from_secs(2));
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Started {
    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    /// Waits until the metrics have this line.
    #[track_caller]
    pub(crate) fn wait_for_metric(&self, line: &str) {
        portcullis_testkit::wait::until_ok(line, || {
            let metrics = self.app.metrics().render().unwrap();
            if metrics.lines().any(|found| found == line) { Ok(()) } else { Err(metrics) }
        });
    }

    /// The events of the audit log so far.
    pub(crate) fn audited(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.dir.join("audit.log")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn admin(&self) -> Identity {
        Identity { certificate: self.dir.join("admin.crt"), key: self.dir.join("admin.key") }
    }

    /// A client of the server's own authority.
    pub(crate) fn user(&self, name: &str, groups: &[&str]) -> Identity {
        self.issued(&self.authority, name, groups, Usage::Client, SystemTime::now())
    }

    pub(crate) fn issued(
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

    /// A client of the server, with a certificate.
    pub(crate) fn client(&self, identity: &Identity) -> Client {
        let authority = self.dir.join("ca.crt");
        let identity = https::Identity::read(&authority, &identity.certificate, &identity.key);
        Client::new(self.address, &identity)
    }

    /// The kubelet of a node, with a certificate of its own. It speaks protobuf.
    pub(crate) fn kubelet(&self, node: &str) -> Client {
        self.client(&self.user(&format!("system:node:{node}"), &["system:nodes"])).in_protobuf()
    }

    pub(crate) fn authority(&self) -> &CertificateAuthority {
        &self.authority
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> Request {
        let url = format!("https://localhost:{}{path}", self.address.port());
        Request::new(method, url, self.dir.join("ca.crt"))
    }

    /// A connection of the administrator, with HTTP/1.1.
    pub(crate) fn open_tls(&self) -> Tls {
        self.open_tls_as(&self.admin(), "http/1.1")
    }

    pub(crate) fn open_tls_as(&self, identity: &Identity, protocol: &str) -> Tls {
        Tls::open(self.address, &self.dir.join("ca.crt"), identity, protocol)
    }

    pub(crate) fn get(&self, path: &str) -> Request {
        self.request("GET", path)
    }

    /// The status codes of the same method at many paths, over one connection as long as the server keeps it.
    pub(crate) fn codes(&self, method: &str, paths: &[String], identity: Option<&Identity>) -> Vec<u16> {
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

    pub(crate) fn post(&self, path: &str, body: impl Into<Vec<u8>>) -> Request {
        self.request("POST", path).header("Content-Type: application/json").body(body)
    }
}

/// A valid SubjectAccessReview of jane reading pods.
pub(crate) const REVIEW: &str = r#"{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"user":"jane","groups":["g"],"resourceAttributes":{"namespace":"default","verb":"get","resource":"pods","name":"p"}}}"#;

/// Sends a request of the administrator, with a JSON body unless it is null. A PATCH is a merge patch.
pub(crate) fn ask(server: &Started, method: &str, path: &str, body: &Value) -> Answer {
    let request = server.request(method, path).by(&server.admin());
    let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    match body {
        Value::Null => request.send(),
        body => request.header(&format!("Content-Type: {media}")).body(body.to_string()).send(),
    }
}

/// As [`ask`], for a request that must be answered with this code. Returns the answer's body.
#[track_caller]
pub(crate) fn done(server: &Started, method: &str, path: &str, body: &Value, code: u16) -> Value {
    let answer = ask(server, method, path, body);
    assert_eq!(answer.code, code, "{method} {path}: {}", answer.text());
    answer.json()
}
